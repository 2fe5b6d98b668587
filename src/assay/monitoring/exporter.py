"""`python -m assay.monitoring.exporter`: answers scrapes on a node that has no exporters of its own.

It tells of the machine and its GPUs under the names of the node and DCGM exporters, and relays the metrics of services.
A service gets its port when a run starts it, and Prometheus takes five seconds to hear of a new target: a short run
would be over. So Prometheus scrapes the relay from the beginning, by the name of the service, and the relay asks
the process that runs under that name now. It also reaches services that listen on the loopback address alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil

if TYPE_CHECKING:
    from assay.hardware.gpu.nvml import GpuReader

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """All values of one name."""

    name: str
    kind: str
    meaning: str
    values: tuple[tuple[Mapping[str, str], float], ...]


def render(families: Iterable[MetricFamily]) -> str:
    """Families as text; one without values is left out."""
    lines: list[str] = []
    for family in families:
        if family.values:
            lines += [f"# HELP {family.name} {family.meaning}", f"# TYPE {family.name} {family.kind}"]
            lines += [f"{family.name}{_labels(labels)} {value!r}" for labels, value in family.values]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{text}}}" if text else ""


# Partitions, loops and RAM disks, which the node exporter leaves out too.
_PARTS = re.compile(r"(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+")
_MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
_DISKS = {
    "read_bytes": ("node_disk_read_bytes_total", 1.0, "The total number of bytes read successfully."),
    "write_bytes": ("node_disk_written_bytes_total", 1.0, "The total number of bytes written successfully."),
    "read_count": ("node_disk_reads_completed_total", 1.0, "The total number of reads completed successfully."),
    "write_count": ("node_disk_writes_completed_total", 1.0, "The total number of writes completed successfully."),
    "busy_time": ("node_disk_io_time_seconds_total", 1e-3, "Total seconds spent doing I/Os."),
}
_NETWORK = {
    "bytes_recv": ("node_network_receive_bytes_total", "Network device statistic receive_bytes."),
    "bytes_sent": ("node_network_transmit_bytes_total", "Network device statistic transmit_bytes."),
    "packets_recv": ("node_network_receive_packets_total", "Network device statistic receive_packets."),
    "packets_sent": ("node_network_transmit_packets_total", "Network device statistic transmit_packets."),
    "errin": ("node_network_receive_errs_total", "Network device statistic receive_errs."),
    "errout": ("node_network_transmit_errs_total", "Network device statistic transmit_errs."),
    "dropin": ("node_network_receive_drop_total", "Network device statistic receive_drop."),
    "dropout": ("node_network_transmit_drop_total", "Network device statistic transmit_drop."),
}


def machine_families(root: Path = Path("/")) -> list[MetricFamily]:
    """All of it; what this system does not say is left out."""
    families: list[MetricFamily] = []
    for part in (_processors, _load, _memory, _disks, _network, _pressure, _system):
        try:
            families += part(root)
        except (OSError, ValueError, AttributeError, psutil.Error):
            continue
    return families


def _processors(_root: Path) -> Iterator[MetricFamily]:
    rows = [
        ({"cpu": str(number), "mode": mode}, float(getattr(times, mode)))
        for number, times in enumerate(psutil.cpu_times(percpu=True))
        for mode in _MODES
        if hasattr(times, mode)
    ]
    yield MetricFamily("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode.", tuple(rows))


def _load(_root: Path) -> Iterator[MetricFamily]:
    for minutes, value in zip((1, 5, 15), os.getloadavg(), strict=True):
        yield _one(f"node_load{minutes}", "gauge", f"{minutes}m load average.", round(value, 2))


def _memory(root: Path) -> Iterator[MetricFamily]:
    path = root / "proc/meminfo"
    if not path.is_file():
        memory = psutil.virtual_memory()
        rows = {"MemTotal": memory.total, "MemAvailable": memory.available, "MemFree": memory.free}
        for name, value in rows.items():
            yield _one(f"node_memory_{name}_bytes", "gauge", f"Memory information field {name}_bytes.", float(value))
        return
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        name = re.sub(r"\((.*)\)", r"_\1", name)
        if words[1:] == ["kB"]:
            meaning = f"Memory information field {name}_bytes."
            yield _one(f"node_memory_{name}_bytes", "gauge", meaning, float(words[0]) * 1024)


def _disks(_root: Path) -> Iterator[MetricFamily]:
    counters = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    disks = {name: disk for name, disk in counters.items() if not _PARTS.fullmatch(name)}
    for key, (name, scale, meaning) in _DISKS.items():
        yield _by_device(name, meaning, disks, key, scale)


def _network(_root: Path) -> Iterator[MetricFamily]:
    counters = psutil.net_io_counters(pernic=True, nowrap=False)
    for key, (name, meaning) in _NETWORK.items():
        yield _by_device(name, meaning, counters, key, 1.0)


def _by_device(name: str, meaning: str, counted: Mapping[str, Any], key: str, scale: float) -> MetricFamily:
    rows = [
        ({"device": device}, float(getattr(counts, key)) * scale)
        for device, counts in counted.items()
        if hasattr(counts, key)
    ]
    return MetricFamily(name, "counter", meaning, tuple(rows))


def _pressure(root: Path) -> Iterator[MetricFamily]:
    """How long programs waited for something, as the kernel tells it where it was built to."""
    for kind in ("cpu", "io", "memory"):
        path = root / "proc/pressure" / kind
        if not path.is_file():
            continue
        totals = {line.split()[0]: int(line.rpartition("total=")[2]) for line in path.read_text().splitlines()}
        if "some" in totals:
            name = f"node_pressure_{kind}_waiting_seconds_total"
            yield _one(
                name, "counter", f"Total time in seconds that processes have waited for {kind}.", totals["some"] / 1e6
            )


def _system(root: Path) -> Iterator[MetricFamily]:
    yield _one("node_boot_time_seconds", "gauge", "Node boot time, in unixtime.", float(int(psutil.boot_time())))
    yield _one("node_time_seconds", "gauge", "System time in seconds since epoch (1970).", time.time())
    uname = os.uname()
    names = {name: str(getattr(uname, name)) for name in ("sysname", "release", "version", "machine")}
    names["nodename"] = platform.node()
    yield MetricFamily("node_uname_info", "gauge", "Labeled system information.", ((names, 1.0),))
    stat = {line.split()[0]: line.split()[1] for line in (root / "proc/stat").read_text().splitlines() if line.strip()}
    yield _one("node_context_switches_total", "counter", "Total number of context switches.", float(stat["ctxt"]))
    yield _one("node_procs_running", "gauge", "Number of processes in runnable state.", float(stat["procs_running"]))


def _one(name: str, kind: str, meaning: str, value: float) -> MetricFamily:
    return MetricFamily(name, kind, meaning, (({}, value),))


_MIB = 2**20
# Reading of assay → DCGM's name, its kind, how our unit becomes DCGM's, its meaning.
_NAMES: dict[str, tuple[str, str, Callable[[float], float], str]] = {
    "gpu_util_pct": ("DCGM_FI_DEV_GPU_UTIL", "gauge", float, "GPU utilization (in %)."),
    "gpu_mem_bytes": ("DCGM_FI_DEV_FB_USED", "gauge", lambda size: size // _MIB,
                      "Framebuffer memory used (in MiB); NVML counts what the driver holds back as used."),
    "power_w": ("DCGM_FI_DEV_POWER_USAGE", "gauge", float, "Power draw (in W)."),
    "sm_mhz": ("DCGM_FI_DEV_SM_CLOCK", "gauge", float, "SM clock frequency (in MHz)."),
    "mem_mhz": ("DCGM_FI_DEV_MEM_CLOCK", "gauge", float, "Memory clock frequency (in MHz)."),
    "temperature_c": ("DCGM_FI_DEV_GPU_TEMP", "gauge", float, "GPU temperature (in C)."),
    "energy_j": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", lambda joules: round(joules * 1e3),
                 "Total energy consumption since boot (in mJ)."),
    "throttle_bits": ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", float, "Bits: why clocks are held down."),
}  # fmt: skip


def nvml_reader() -> GpuReader:
    from assay.hardware.gpu.nvml import GpuReader

    return GpuReader()


class GpuExporter:
    """All GPUs of the machine, read when they are asked for."""

    def __init__(self, make: Callable[[], GpuReader] = nvml_reader) -> None:
        self._reader = make()
        self._lock = threading.Lock()  # two concurrent scrapes must not share one NVML call

    def families(self) -> list[MetricFamily]:
        """What they tell now; a GPU that is lost tells nothing."""
        rows: dict[str, list[tuple[dict[str, str], float]]] = {}
        with self._lock:
            for index in range(self._reader.count):
                labels = _labels_gpus(self._reader.facts[index], index)
                readings: dict[str, float] = {}
                with suppress(Exception):  # one that was lost this moment; NVML has its own errors
                    readings = self._reader.read(index)
                for name, value in readings.items():
                    if name in _NAMES:
                        rows.setdefault(name, []).append((labels, _NAMES[name][2](value)))
        families = []
        for name, row in rows.items():
            dcgm, kind, _, meaning = _NAMES[name]
            families.append(MetricFamily(dcgm, kind, meaning, tuple(row)))
        totals = tuple(
            (_labels_gpus(facts, index), float(facts["memory_bytes"]) // _MIB)
            for index, facts in enumerate(self._reader.facts)
            if "memory_bytes" in facts
        )
        total = MetricFamily("DCGM_FI_DEV_FB_TOTAL", "gauge", "Framebuffer memory in all (in MiB).", totals)
        return [*families, total]


def _labels_gpus(facts: dict[str, Any], index: int) -> dict[str, str]:
    labels = {
        "gpu": str(index),
        "UUID": facts.get("uuid", ""),
        "device": f"nvidia{index}",
        "modelName": facts.get("name", ""),
        "Hostname": platform.node(),
        "DCGM_FI_DRIVER_VERSION": facts.get("driver", ""),
    }
    return {name: str(value) for name, value in labels.items() if value}


HAS_METRICS = "assay_service_has_metrics"
"""0 where a service runs and has no metrics at the path that was asked."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MOST_BYTES = 16 * 2**20
_ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=1,*/*;q=0.1"
# A service that says one of these has no such page; everything else is a failure.
_NO_PAGE = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class ScrapeResponse:
    """What the relay says to a scrape."""

    status: int
    body: bytes
    content_type: str = CONTENT_TYPE


def relayed(folder: Path, name: str, timeout_s: float) -> ScrapeResponse:
    if not _NAME.fullmatch(name):
        return ScrapeResponse(404, b"no such service\n")
    try:
        url = str(json.loads((folder / f"{name}.json").read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ScrapeResponse(503, b"the service does not run now\n")
    try:
        status, content_type, body = _get(url, timeout_s)
    except (OSError, HTTPException, ValueError) as problem:
        return ScrapeResponse(502, f"{type(problem).__name__}: {problem}\n".encode())
    if status in _NO_PAGE or (status == 200 and not _is_metrics(content_type, body)):
        return ScrapeResponse(200, _has_metrics(0).encode())
    if status != 200:
        return ScrapeResponse(502, f"the service answers with status {status}\n".encode())
    if "openmetrics" in content_type:  # its last line ends it; nothing can be added
        return ScrapeResponse(200, body, content_type)
    end = b"" if body.endswith(b"\n") else b"\n"
    return ScrapeResponse(200, body + end + _has_metrics(1).encode(), content_type)


def _is_metrics(content_type: str, body: bytes) -> bool:
    """Whether an answer is a page of metrics; some servers show their start page at every path."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("text/plain", "application/openmetrics-text", "") and not body.lstrip().startswith((b"<", b"{"))


def _has_metrics(value: int) -> str:
    return render([MetricFamily(HAS_METRICS, "gauge", "Whether the service has metrics of its own.", (({}, value),))])


def _get(url: str, timeout_s: float) -> tuple[int, str, bytes]:
    parts = urlsplit(url)
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    else:
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": _ACCEPT, "Connection": "close"})
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES + 1)
    finally:
        connection.close()
    if len(body) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    return answer.status, answer.getheader("Content-Type") or "", body


def answers(
    families: Callable[[], list[MetricFamily]], relay: Path | None, timeout_s: float
) -> Callable[[str], ScrapeResponse]:
    """A path → what is served there.

    Args:
        relay: folder with the services that run; None where none is relayed.
    """

    def answer(path: str) -> ScrapeResponse:
        page, _, name = path.partition("?")[0].strip("/").partition("/")
        if page == "metrics" and not name:
            return ScrapeResponse(200, render(families()).encode())
        if page == "relay" and relay is not None:
            return relayed(relay, name, timeout_s)
        if not page:
            return ScrapeResponse(200, b"the metrics are at /metrics\n", "text/plain; charset=utf-8")
        return ScrapeResponse(404, b"there is nothing here\n", "text/plain; charset=utf-8")

    return answer


def serving(listen: str, port: int, answer: Callable[[str], ScrapeResponse]) -> ThreadingHTTPServer:
    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            said = answer(self.path)
            self.send_response(said.status)
            self.send_header("Content-Type", said.content_type)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a line for every scrape would be a line a second."""

    server = ThreadingHTTPServer((listen, port), _Handler)
    server.daemon_threads = True
    return server


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m assay.monitoring.exporter",
        description="`python -m assay.monitoring.exporter`: answers scrapes until it is ended.",
    )
    parser.add_argument("--listen", default="127.0.0.1", help="address to answer on")
    parser.add_argument("--port", type=int, default=9100, help="port to answer on")
    parser.add_argument("--relay", type=Path, default=None, help="folder with the services to pass on")
    parser.add_argument("--timeout", type=float, default=0.9, help="longest time for a service, in seconds")
    parser.add_argument("--without", choices=("machine", "gpus", "both"), default="", help="what others export here")
    asked = parser.parse_args(words)
    gpus = None if asked.without in ("gpus", "both") else GpuExporter()
    machine = asked.without not in ("machine", "both")

    def families() -> list[MetricFamily]:
        return [*(machine_families() if machine else ()), *(gpus.families() if gpus is not None else ())]

    with serving(asked.listen, asked.port, answers(families, asked.relay, asked.timeout)) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
