"""Grafana: dashboards (overview, service and client nodes, GPUs, tokens) and the files from which it sets itself up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.monitoring.prometheus import configuration
from assay.spec.benchmark import Monitoring

SOURCE = {"type": "prometheus", "uid": "${source}"}
"""The data source that the reader chooses at the top of a dashboard."""
_WIDTH, _HEIGHT = 12, 8
_ALL = ".+"


def dashboard(
    uid: str, title: str, about: str, metric: str, choices: Sequence[str], panels: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A dashboard of two columns, with lists at its top from which the reader chooses labels of a metric."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}
    for place, panel in enumerate(panels):
        panel["id"] = place + 1
        panel["gridPos"] = {"x": _WIDTH * (place % 2), "y": _HEIGHT * (place // 2), "w": _WIDTH, "h": _HEIGHT}
    link = {"type": "dashboards", "tags": ["assay"], "title": "assay", "asDropdown": True}
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["assay"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "utc",
        "templating": {
            "list": [
                source | {"hide": 0, "current": {}, "options": []},
                *(_choice(name, metric, choices[:place]) for place, name in enumerate(choices)),
            ]
        },
        "panels": list(panels),
        "links": [link | {"includeVars": True, "keepTime": True}],
        "annotations": {"list": []},
    }


def _choice(name: str, metric: str, before: Sequence[str]) -> dict[str, Any]:
    chosen = ",".join(f'{label}=~"${label}"' for label in before)
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({metric}{{{chosen}}}, {name})", "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": _ALL,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panel(
    title: str,
    unit: str,
    *queries: tuple[str, str],
    kind: str = "timeseries",
    highest: float | None = None,
    about: str = "",
) -> dict[str, Any]:
    """One picture of expressions, each with what its lines are called; its dashboard says where it is."""
    defaults: dict[str, Any] = {"unit": unit}
    options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    if kind != "stat":
        defaults |= {"min": 0, "custom": {"spanNulls": False, "showPoints": "auto"}}
        legend = {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]}
        options = {"tooltip": {"mode": "multi"}, "legend": legend}
    if highest is not None:
        defaults["max"] = highest
    return {
        "id": 0,
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "gridPos": {},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
            for number, (expression, legend) in enumerate(queries)
        ],
    }


# Rates over a few scrapes: at one scrape a second, the shortest that still bridges a late one.
_OVER = "[$__rate_interval]"
_WHERE = 'campaign=~"$campaign",job=~"$job",node=~"$node"'
_SERVED = 'campaign=~"$campaign",job=~"$job",service=~"$service"'
_BUSY = "user|nice|system|irq|softirq|steal"
_NODES = ("campaign", "job", "node")
_SERVICES = ("campaign", "job", "service")
# Counters of the servers that assay knows; a server has one of them, `or` takes the one that is there.
_OUT = ("vllm:generation_tokens_total", "sglang:generation_tokens_total", "tgi_request_generated_tokens_sum",
        "llamacpp:tokens_predicted_total")  # fmt: skip
_IN = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "tgi_request_input_length_sum",
       "llamacpp:prompt_tokens_total")  # fmt: skip
_ENDED = ("vllm:request_success_total", "sglang:num_requests_total", "tgi_request_success",
          "nv_inference_request_success", "rest_responses_total", "http_requests_total")  # fmt: skip
_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size",
            "llamacpp:requests_processing")  # fmt: skip
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size", "llamacpp:requests_deferred",
            "nv_inference_pending_request_count")  # fmt: skip
_CACHE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")


def boards() -> dict[str, dict[str, Any]]:
    """Name of the file → dashboard."""
    where = 'campaign=~"$campaign",job=~"$job"'
    gpu, late = f"DCGM_FI_DEV_GPU_UTIL{{{where}}}", "Above the interval, scrapes are lost."
    down, away = (
        f"count(up{{{where}}} == 0) or vector(0)",
        "A service that is not started yet, or is over, counts here.",
    )
    running, waiting = (_sum(names, "service") for names in (_RUNNING, _WAITING))
    scrape = (f"scrape_duration_seconds{{{where}}}", "{{node}} {{service}}")
    rows = (
        ("overview", "overview", "One look at a campaign that runs.", "up", _SERVICES, [
        _panel("Targets that answer", "short", (f"sum(up{{{where}}})", "up"), kind="stat"),
        _panel("Targets that do not", "short", (down, "down"), kind="stat", about=away),
        _panel("Requests ended per second", "reqps", (_rate(_ENDED, "service"), "{{service}}")),
        _panel(
            "Requests running and waiting", "short", (running, "{{service}} running"), (waiting, "{{service}} waiting")
        ),
        _panel("Tokens out per second", "short", (_rate(_OUT, "service"), "{{service}}")),
        _panel("Processors busy", "percent", (_cpu(where), "{{node}}"), highest=100),
        _panel("GPU utilisation", "percent", (gpu, "{{node}} GPU {{gpu}}"), highest=100),
        _panel("Time of a scrape", "s", scrape, about=late),
    ]),
        ("service-nodes", "nodes of services", "Nodes on which services run.", "node_load1", _NODES,
         _nodes('group!=""')),
        ("client-nodes", "nodes of clients", "Nodes that drive the load.", "node_load1", _NODES, _nodes('group=""')),
        ("gpus", "GPUs", "GPUs as DCGM or NVML tell of them.", "DCGM_FI_DEV_GPU_UTIL", _NODES, _gpus()),
        ("tokens", "tokens", "Tokens per second by model and by service.", "up", _SERVICES, _tokens()),
    )  # fmt: skip
    return {
        name: dashboard(f"assay-{name}", f"assay: {title}", about, metric, choices, panels)
        for name, title, about, metric, choices, panels in rows
    }


def _rate(names: tuple[str, ...], by: str) -> str:
    return " or ".join(f"sum by ({by}) (rate({name}{{{_SERVED}}}{_OVER}))" for name in names)


def _sum(names: tuple[str, ...], by: str) -> str:
    return " or ".join(f"sum by ({by}) ({name}{{{_SERVED}}})" for name in names)


def _cpu(where: str) -> str:
    busy = f'sum by (node) (rate(node_cpu_seconds_total{{{where},mode=~"{_BUSY}"}}{_OVER}))'
    return f'100 * {busy} / count by (node) (node_cpu_seconds_total{{{where},mode="idle"}})'


def _nodes(which: str) -> list[dict[str, Any]]:
    where = f"{_WHERE},{which}"

    def device(name: str, but: str) -> str:
        return f'sum by (node) (rate({name}{{{where},device!~"{but}"}}{_OVER}))'

    def panel(title: str, unit: str, *queries: tuple[str, str]) -> dict[str, Any]:
        return _panel(title, unit, *((expression, f"{{{{node}}}} {word}".rstrip()) for expression, word in queries))

    def used(kind: str, free: str) -> tuple[str, str]:
        return f"node_memory_{kind}Total_bytes{{{where}}} - node_memory_{free}_bytes{{{where}}}", ""

    network, no_disk = "node_network_{}_total", "(dm-|md|loop|ram|zram|sr).*"
    bytes_in, bytes_out = device(network.format("receive_bytes"), "lo"), device(network.format("transmit_bytes"), "lo")
    drops_in, drops_out = device(network.format("receive_drop"), "lo"), device(network.format("transmit_drop"), "lo")
    read, written = (device(f"node_disk_{way}_bytes_total", no_disk) for way in ("read", "written"))
    waiting = [
        (f"rate(node_pressure_{kind}_waiting_seconds_total{{{where}}}{_OVER})", kind)
        for kind in ("cpu", "io", "memory")
    ]
    return [
        _panel("Processors busy", "percent", (_cpu(where), "{{node}}"), highest=100),
        panel("Load", "short", (f"node_load1{{{where}}}", "")),
        panel("Memory used", "bytes", used("Mem", "MemAvailable")),
        panel("Swap used", "bytes", used("Swap", "SwapFree")),
        panel("Network", "Bps", (bytes_in, "in"), (bytes_out, "out")),
        panel("Dropped packets", "pps", (drops_in, "in"), (drops_out, "out")),
        panel("Disk", "Bps", (read, "read"), (written, "written")),
        panel("Waiting for processor, disk and memory", "percentunit", *waiting),
    ]


def _gpus() -> list[dict[str, Any]]:
    rows = (
        ("Utilisation", "percent", "DCGM_FI_DEV_GPU_UTIL{}"),
        ("Memory used", "bytes", "DCGM_FI_DEV_FB_USED{} * 1048576"),
        ("Power", "watt", "DCGM_FI_DEV_POWER_USAGE{}"),
        ("Power by the energy counter", "watt", f"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{}}{_OVER}) / 1000"),
        ("Temperature", "celsius", "DCGM_FI_DEV_GPU_TEMP{}"),
        ("SM clock", "rotmhz", "DCGM_FI_DEV_SM_CLOCK{}"),
        ("Memory clock", "rotmhz", "DCGM_FI_DEV_MEM_CLOCK{}"),
        ("Bits: why clocks are held down", "short", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{}"),
    )
    return [
        _panel(
            title,
            unit,
            (expression.format(f"{{{_WHERE}}}"), "{{node}} GPU {{gpu}}"),
            highest=100 if unit == "percent" else None,
        )
        for title, unit, expression in rows
    ]


def _tokens() -> list[dict[str, Any]]:
    by, legend = "model_name,service", "{{service}} {{model_name}}"
    every = " or ".join(f"sum(rate({name}{{{_SERVED}}}{_OVER}))" for name in _OUT)
    cache = " or ".join(f"{name}{{{_SERVED}}}" for name in _CACHE)
    length = f"({_rate(_OUT, 'service')}) / ({_rate(_ENDED, 'service')})"
    return [
        _panel("Tokens out per second", "short", (_rate(_OUT, by), legend)),
        _panel("Tokens in per second", "short", (_rate(_IN, by), legend)),
        _panel("Tokens out per second, by job", "short", (_rate(_OUT, "job"), "{{job}}")),
        _panel("Tokens out per second, all", "short", (every, "all")),
        _panel("KV cache used", "percentunit", (cache, legend), highest=1),
        _panel("Tokens of one answer", "short", (length, "{{service}}")),
    ]


_ABOUT = """\
# assay: dashboards for Grafana

Made by `assay monitoring files`.

- `provisioning/` and `dashboards/`: give them to Grafana as `/etc/grafana/provisioning` and the folder that
  `provisioning/dashboards/assay.yaml` names, or start Grafana with GF_PATHS_PROVISIONING set to `provisioning`.
- `prometheus.yml` (with --discovery): for a Prometheus of your own that watches one campaign. A campaign with
  `monitoring: true` starts one by itself and needs no such file.

A dashboard can also be imported by hand: Dashboards, New, Import, and the JSON file.
"""


def grafana_files(folder: Path, url: str, discovery: str | None = None) -> dict[str, str]:
    """Name of each file → its content.

    Args:
        discovery: folder of target files of a campaign, for a Prometheus of one's own.
    """
    source = {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "assay",
                "uid": "assay",
                "type": "prometheus",
                "access": "proxy",
                "url": url,
                "isDefault": True,
                "jsonData": {"timeInterval": "1s", "httpMethod": "POST"},
            }
        ],
    }
    provider = {
        "apiVersion": 1,
        "providers": [
            {
                "name": "assay",
                "folder": "assay",
                "type": "file",
                "allowUiUpdates": True,
                "options": {"path": str((folder / "dashboards").absolute())},
            }
        ],
    }
    own = {} if discovery is None else {"prometheus.yml": configuration(discovery, Monitoring())}
    files = {
        "provisioning/datasources/assay.yaml": source,
        "provisioning/dashboards/assay.yaml": provider,
        **own,
        **{f"dashboards/{name}.json": board for name, board in boards().items()},
    }
    # JSON is YAML, with nothing to quote wrongly.
    return {"README.md": _ABOUT, **{name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}}
