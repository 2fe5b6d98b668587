"""The Grafana dashboards (overview, service and client nodes, GPUs, tokens) and their panels as plain documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${source}"}
"""The data source that the reader chooses at the top of a dashboard."""
_WIDTH, _HEIGHT = 12, 8
_ALL = ".+"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression and what its lines are called."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class DashboardPanel:
    """One picture."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    highest: float | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A list at the top of a dashboard from which the reader chooses."""

    name: str
    metric: str
    """The metric whose labels are the choices."""


def dashboard(
    uid: str, title: str, about: str, choices: Sequence[Choice], panels: Sequence[DashboardPanel]
) -> dict[str, Any]:
    variables = [_source(), *(_choice(choice, choices[:place]) for place, choice in enumerate(choices))]
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
        "templating": {"list": variables},
        "panels": [_panel(panel, place) for place, panel in enumerate(panels)],
        "links": [
            {
                "type": "dashboards",
                "tags": ["assay"],
                "title": "assay",
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "annotations": {"list": []},
    }


def _source() -> dict[str, Any]:
    return {
        "name": "source",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "current": {},
        "options": [],
    }


def _choice(choice: Choice, before: Sequence[Choice]) -> dict[str, Any]:
    known = ",".join(f'{one.name}=~"${one.name}"' for one in before)
    return {
        "name": choice.name,
        "label": choice.name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({choice.metric}{{{known}}}, {choice.name})", "refId": choice.name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": _ALL,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panel(panel: DashboardPanel, place: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": {"spanNulls": False, "showPoints": "auto"}}
    if panel.highest is not None:
        defaults["max"] = panel.highest
    options: dict[str, Any] = {
        "tooltip": {"mode": "multi"},
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]},
    }
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
        defaults = {"unit": panel.unit}
    return {
        "id": place + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": _WIDTH * (place % 2), "y": _HEIGHT * (place // 2), "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": query.expression,
                "legendFormat": query.legend,
                "datasource": SOURCE,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


# Rates over a few scrapes: at one scrape a second, the shortest that still bridges a late one.
_OVER = "[$__rate_interval]"
_WHERE = 'campaign=~"$campaign",job=~"$job",node=~"$node"'
_SERVED = 'campaign=~"$campaign",job=~"$job",service=~"$service"'
_BUSY = "user|nice|system|irq|softirq|steal"
_NODES = (Choice("campaign", "node_load1"), Choice("job", "node_load1"), Choice("node", "node_load1"))
_SERVICES = (Choice("campaign", "up"), Choice("job", "up"), Choice("service", "up"))
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
    return {
        "overview": dashboard(
            "assay-overview", "assay: overview", "One look at a campaign that runs.", _SERVICES, _overview()
        ),
        "service-nodes": dashboard(
            "assay-service-nodes",
            "assay: nodes of services",
            "Nodes on which services run.",
            _NODES,
            _nodes('group!=""'),
        ),
        "client-nodes": dashboard(
            "assay-client-nodes", "assay: nodes of clients", "Nodes that drive the load.", _NODES, _nodes('group=""')
        ),
        "gpus": dashboard("assay-gpus", "assay: GPUs", "GPUs as DCGM or NVML tell of them.", _of_gpus(), _gpus()),
        "tokens": dashboard(
            "assay-tokens", "assay: tokens", "Tokens per second by model and by service.", _SERVICES, _tokens()
        ),
    }


def _rate(names: tuple[str, ...], by: str) -> str:
    return " or ".join(f"sum by ({by}) (rate({name}{{{_SERVED}}}{_OVER}))" for name in names)


def _sum(names: tuple[str, ...], by: str) -> str:
    return " or ".join(f"sum by ({by}) ({name}{{{_SERVED}}})" for name in names)


def _cpu(where: str) -> str:
    busy = f'sum by (node) (rate(node_cpu_seconds_total{{{where},mode=~"{_BUSY}"}}{_OVER}))'
    return f'100 * {busy} / count by (node) (node_cpu_seconds_total{{{where},mode="idle"}})'


def _nodes(which: str) -> list[DashboardPanel]:
    where = f"{_WHERE},{which}"

    def device(name: str, but: str) -> str:
        return f'sum by (node) (rate({name}{{{where},device!~"{but}"}}{_OVER}))'

    no_disk = "(dm-|md|loop|ram|zram|sr).*"
    return [
        DashboardPanel("Processors busy", "percent", (Query(_cpu(where), "{{node}}"),), highest=100),
        DashboardPanel("Load", "short", (Query(f"node_load1{{{where}}}", "{{node}}"),)),
        DashboardPanel(
            "Memory used",
            "bytes",
            (Query(f"node_memory_MemTotal_bytes{{{where}}} - node_memory_MemAvailable_bytes{{{where}}}", "{{node}}"),),
        ),
        DashboardPanel(
            "Swap used",
            "bytes",
            (Query(f"node_memory_SwapTotal_bytes{{{where}}} - node_memory_SwapFree_bytes{{{where}}}", "{{node}}"),),
        ),
        DashboardPanel(
            "Network",
            "Bps",
            (
                Query(device("node_network_receive_bytes_total", "lo"), "{{node}} in"),
                Query(device("node_network_transmit_bytes_total", "lo"), "{{node}} out"),
            ),
        ),
        DashboardPanel(
            "Dropped packets",
            "pps",
            (
                Query(device("node_network_receive_drop_total", "lo"), "{{node}} in"),
                Query(device("node_network_transmit_drop_total", "lo"), "{{node}} out"),
            ),
        ),
        DashboardPanel(
            "Disk",
            "Bps",
            (
                Query(device("node_disk_read_bytes_total", no_disk), "{{node}} read"),
                Query(device("node_disk_written_bytes_total", no_disk), "{{node}} written"),
            ),
        ),
        DashboardPanel(
            "Waiting for processor, disk and memory",
            "percentunit",
            tuple(
                Query(f"rate(node_pressure_{kind}_waiting_seconds_total{{{where}}}{_OVER})", f"{{{{node}}}} {kind}")
                for kind in ("cpu", "io", "memory")
            ),
        ),
    ]


def _of_gpus() -> tuple[Choice, ...]:
    return tuple(Choice(name, "DCGM_FI_DEV_GPU_UTIL") for name in ("campaign", "job", "node"))


def _gpus() -> list[DashboardPanel]:
    def panel(title: str, unit: str, name: str, scale: str = "", highest: float | None = None) -> DashboardPanel:
        return DashboardPanel(
            title, unit, (Query(f"{name}{{{_WHERE}}}{scale}", "{{node}} GPU {{gpu}}"),), highest=highest
        )

    energy = f"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{_WHERE}}}{_OVER}) / 1000"
    return [
        panel("Utilisation", "percent", "DCGM_FI_DEV_GPU_UTIL", highest=100),
        panel("Memory used", "bytes", "DCGM_FI_DEV_FB_USED", " * 1048576"),
        panel("Power", "watt", "DCGM_FI_DEV_POWER_USAGE"),
        DashboardPanel("Power by the energy counter", "watt", (Query(energy, "{{node}} GPU {{gpu}}"),)),
        panel("Temperature", "celsius", "DCGM_FI_DEV_GPU_TEMP"),
        panel("SM clock", "rotmhz", "DCGM_FI_DEV_SM_CLOCK", highest=None),
        panel("Memory clock", "rotmhz", "DCGM_FI_DEV_MEM_CLOCK"),
        panel("Bits: why clocks are held down", "short", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
    ]


def _tokens() -> list[DashboardPanel]:
    by = "model_name,service"
    legend = "{{service}} {{model_name}}"
    return [
        DashboardPanel("Tokens out per second", "short", (Query(_rate(_OUT, by), legend),)),
        DashboardPanel("Tokens in per second", "short", (Query(_rate(_IN, by), legend),)),
        DashboardPanel("Tokens out per second, by job", "short", (Query(_rate(_OUT, "job"), "{{job}}"),)),
        DashboardPanel(
            "Tokens out per second, all",
            "short",
            (Query(" or ".join(f"sum(rate({name}{{{_SERVED}}}{_OVER}))" for name in _OUT), "all"),),
        ),
        DashboardPanel(
            "KV cache used",
            "percentunit",
            (Query(" or ".join(f"{one}{{{_SERVED}}}" for one in _CACHE), legend),),
            highest=1,
        ),
        DashboardPanel(
            "Tokens of one answer",
            "short",
            (Query(f"({_rate(_OUT, 'service')}) / ({_rate(_ENDED, 'service')})", "{{service}}"),),
        ),
    ]


def _overview() -> list[DashboardPanel]:
    where = 'campaign=~"$campaign",job=~"$job"'
    return [
        DashboardPanel("Targets that answer", "short", (Query(f"sum(up{{{where}}})", "up"),), kind="stat"),
        DashboardPanel(
            "Targets that do not",
            "short",
            (Query(f"count(up{{{where}}} == 0) or vector(0)", "down"),),
            kind="stat",
            about="A service that is not started yet, or is over, counts here.",
        ),
        DashboardPanel("Requests ended per second", "reqps", (Query(_rate(_ENDED, "service"), "{{service}}"),)),
        DashboardPanel(
            "Requests running and waiting",
            "short",
            (
                Query(_sum(_RUNNING, "service"), "{{service}} running"),
                Query(_sum(_WAITING, "service"), "{{service}} waiting"),
            ),
        ),
        DashboardPanel("Tokens out per second", "short", (Query(_rate(_OUT, "service"), "{{service}}"),)),
        DashboardPanel("Processors busy", "percent", (Query(_cpu(where), "{{node}}"),), highest=100),
        DashboardPanel(
            "GPU utilisation",
            "percent",
            (Query(f"DCGM_FI_DEV_GPU_UTIL{{{where}}}", "{{node}} GPU {{gpu}}"),),
            highest=100,
        ),
        DashboardPanel(
            "Time of a scrape",
            "s",
            (Query(f"scrape_duration_seconds{{{where}}}", "{{node}} {{service}}"),),
            about="Above the interval, scrapes are lost.",
        ),
    ]
