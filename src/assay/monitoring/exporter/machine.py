"""The machine under the names of the Prometheus node exporter, so that the same dashboards show both."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from assay.monitoring.exporter.text import Family

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


def machine_families(root: Path = Path("/")) -> list[Family]:
    """All of it; what this system does not tell is left out."""
    parts: tuple[Callable[[Path], Iterator[Family]], ...] = (
        _processors,
        _load,
        _memory,
        _disks,
        _network,
        _pressure,
        _system,
    )
    found: list[Family] = []
    for part in parts:
        try:
            found += part(root)
        except (OSError, ValueError, AttributeError, psutil.Error):
            continue
    return found


def _processors(_root: Path) -> Iterator[Family]:
    rows = [
        ({"cpu": str(number), "mode": mode}, float(getattr(times, mode)))
        for number, times in enumerate(psutil.cpu_times(percpu=True))
        for mode in _MODES
        if hasattr(times, mode)
    ]
    yield Family("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode.", tuple(rows))


def _load(_root: Path) -> Iterator[Family]:
    for minutes, value in zip((1, 5, 15), os.getloadavg(), strict=True):
        yield _one(f"node_load{minutes}", "gauge", f"{minutes}m load average.", round(value, 2))


def _memory(root: Path) -> Iterator[Family]:
    path = root / "proc/meminfo"
    if not path.is_file():
        told = psutil.virtual_memory()
        rows = {"MemTotal": told.total, "MemAvailable": told.available, "MemFree": told.free}
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


def _disks(_root: Path) -> Iterator[Family]:
    told = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    disks = {name: one for name, one in told.items() if not _PARTS.fullmatch(name)}
    for key, (name, scale, meaning) in _DISKS.items():
        yield _by_device(name, meaning, disks, key, scale)


def _network(_root: Path) -> Iterator[Family]:
    told = psutil.net_io_counters(pernic=True, nowrap=False)
    for key, (name, meaning) in _NETWORK.items():
        yield _by_device(name, meaning, told, key, 1.0)


def _by_device(name: str, meaning: str, told: Mapping[str, Any], key: str, scale: float) -> Family:
    rows = [({"device": device}, float(getattr(one, key)) * scale) for device, one in told.items() if hasattr(one, key)]
    return Family(name, "counter", meaning, tuple(rows))


def _pressure(root: Path) -> Iterator[Family]:
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


def _system(root: Path) -> Iterator[Family]:
    yield _one("node_boot_time_seconds", "gauge", "Node boot time, in unixtime.", float(int(psutil.boot_time())))
    yield _one("node_time_seconds", "gauge", "System time in seconds since epoch (1970).", time.time())
    told = os.uname()
    names = {
        "sysname": told.sysname,
        "release": told.release,
        "version": told.version,
        "machine": told.machine,
        "nodename": platform.node(),
    }
    yield Family("node_uname_info", "gauge", "Labeled system information.", ((names, 1.0),))
    stat = {line.split()[0]: line.split()[1] for line in (root / "proc/stat").read_text().splitlines() if line.strip()}
    yield _one("node_context_switches_total", "counter", "Total number of context switches.", float(stat["ctxt"]))
    yield _one("node_procs_running", "gauge", "Number of processes in runnable state.", float(stat["procs_running"]))


def _one(name: str, kind: str, meaning: str, value: float) -> Family:
    return Family(name, kind, meaning, (({}, value),))
