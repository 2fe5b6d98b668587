"""Which probes work on this machine: what each reads, or why it cannot and what would enable it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.hardware.source import Facts, FactSource, why_not

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection
    from assay.hardware.gpu.nvml import GpuReader


_POWERCAP = "/sys/class/powercap"
_THERMAL = "/sys/class/thermal"
_HWMON = "/sys/class/hwmon"
_CPUS = "/sys/devices/system/cpu"
_FIRMWARE_THROTTLE = "/sys/devices/platform/soc/soc:firmware/get_throttled"
_COUNTERS = {"cpu": "/proc/stat", "memory": "/proc/meminfo", "disk": "/proc/diskstats", "network": "/proc/net/dev"}


def abilities(source: FactSource, detection: Detection | None) -> Facts:
    """Each probe: whether it works, and by what or why not."""
    probes: Facts = {name: _file(source, path) for name, path in _COUNTERS.items()}
    if source.system != "linux" and source.here:
        probes = {name: _yes("psutil") for name in _COUNTERS}
    probes["gpu"] = _gpu(detection)
    probes["energy_rapl"] = _rapl(source)
    if source.system == "darwin":
        probes["energy_powermetrics"] = _powermetrics(source)
    probes["temperature"] = _temperature(source)
    probes["throttle"] = _throttle(source)
    return probes


def _gpu(detection: Detection | None) -> Facts:
    if detection is None:
        return _no("not checked")
    if detection.gpus:
        return _yes(f"{detection.layer}, {len(detection.gpus)} GPU{'' if len(detection.gpus) == 1 else 's'}")
    return _no(detection.why_none()) | {"sources": dict(detection.tried)}


def _rapl(source: FactSource) -> Facts:
    """The processor's own energy counters, which most kernels show to the administrator alone."""
    zones = source.names(_POWERCAP, r"intel-rapl(?:-mmio)?:\d+")
    if not zones:
        exists = source.exists(_POWERCAP)
        return _no(f"{_POWERCAP} has no intel-rapl zone" if exists else f"{_POWERCAP} is not there")
    names = []
    for zone in zones:
        if why := _unreadable(source, f"{_POWERCAP}/{zone}/energy_uj"):
            return _no(why)
        names.append(source.text(f"{_POWERCAP}/{zone}/name") or zone)
    return _yes(", ".join(names))


def _powermetrics(source: FactSource) -> Facts:
    """Apple's own sampler; it answers to the administrator alone."""
    try:
        source.run(("powermetrics", "--samplers", "cpu_power", "-n", "1", "-i", "1"))
    except (OSError, subprocess.SubprocessError) as problem:
        return _no(f"powermetrics: {problem}")
    return _yes("powermetrics")


def _temperature(source: FactSource) -> Facts:
    sensors: list[str] = []
    refused = ""
    for zone in source.names(_THERMAL, r"thermal_zone\d+"):
        if why := _unreadable(source, f"{_THERMAL}/{zone}/temp"):
            refused = refused or why
        else:
            sensors.append(source.text(f"{_THERMAL}/{zone}/type") or zone)
    for chip in source.names(_HWMON, r"hwmon\d+"):
        inputs = source.names(f"{_HWMON}/{chip}", r"temp\d+_input")
        if any(source.number(f"{_HWMON}/{chip}/{name}") is not None for name in inputs):
            sensors.append(source.text(f"{_HWMON}/{chip}/name") or chip)
    if sensors:
        return _yes(", ".join(dict.fromkeys(sensors)))
    return _no(refused or "neither a thermal zone nor a sensor of hwmon is there")


def _unreadable(source: FactSource, path: str) -> str:
    """Why no number can be read from a file; empty where one can."""
    try:
        int(source.bytes(path))
    except OSError as problem:
        return why_not(problem, path)
    except ValueError:
        return f"{path} holds no number"
    return ""


def _throttle(source: FactSource) -> Facts:
    """Counters or flags that tell when heat or a weak supply slowed the processor."""
    cores = [
        core
        for core in source.names(_CPUS, r"cpu\d+")
        if source.number(f"{_CPUS}/{core}/thermal_throttle/core_throttle_count") is not None
    ]
    if cores:
        return _yes(f"core_throttle_count of {len(cores)} CPUs")
    if source.text(_FIRMWARE_THROTTLE):
        return _yes(_FIRMWARE_THROTTLE)
    if "raspberry" in source.text("/proc/device-tree/model").lower():
        output = source.command("vcgencmd", "get_throttled", fact="probes.throttle")
        if output.startswith("throttled="):
            return _yes("vcgencmd get_throttled")
        return _no(source.absent.pop("probes.throttle", f"vcgencmd says {output[:40]!r}"))
    return _no("the kernel counts no throttling here, as in most virtual machines and on most ARM boards")


def _file(source: FactSource, path: str) -> Facts:
    try:
        return _yes(path) if source.bytes(path, 65_536).strip() else _no(f"{path} is empty")
    except OSError as problem:
        return _no(why_not(problem, path))


def _yes(by: str) -> Facts:
    return {"works": True, "by": by}


def _no(why: str) -> Facts:
    return {"works": False, "why": why}


# What abilities are called before people.
_TITLES = {
    "cpu": "processor time", "memory": "memory", "disk": "disks", "network": "network", "gpu": "GPUs",
    "energy_rapl": "energy of the processor", "energy_powermetrics": "energy by powermetrics",
    "temperature": "temperature", "throttle": "throttling",
}  # fmt: skip
_READABLE = "sudo chmod a+r /sys/class/powercap/*/energy_uj    # until the next start"


@dataclass(frozen=True, slots=True)
class ProbeSupport:
    """Something that can be watched while a job runs, or why it cannot."""

    name: str
    works: bool
    detail: str
    fix: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    """What each source answered, where several were asked without success."""


def probes(
    reader: GpuReader, detection: Detection, root: str | Path = "/", system: str = sys.platform
) -> tuple[ProbeSupport, ...]:
    return (*_of_machine(FactSource(root=Path(root), system=system), detection), *_of_boards(reader, detection))


def _of_machine(source: FactSource, detection: Detection) -> Iterator[ProbeSupport]:
    for name, ability in abilities(source, detection).items():
        facts = ability if isinstance(ability, dict) else {}
        works = facts.get("works") is True
        why = str(facts.get("by" if works else "why", ""))
        sources = facts.get("sources")
        answers = {source: str(answer) for source, answer in sources.items()} if isinstance(sources, dict) else {}
        yield ProbeSupport(_TITLES.get(name, name), works, why, () if works else _fix(name, why), answers)


def _fix(name: str, why: str) -> tuple[str, ...]:
    """What would help; nothing where the machine has no such thing."""
    if name == "energy_rapl" and "may not be read" in why:
        return (_READABLE,)
    return ("sudo assay run FILE    # it answers to an administrator alone",) if name == "energy_powermetrics" else ()


def _of_boards(reader: GpuReader, detection: Detection) -> Iterator[ProbeSupport]:
    """How the energy of each board of NVIDIA's can be known."""
    boards = [gpu for gpu in detection.gpus if gpu.vendor == "nvidia"]
    if reader.absent and boards:
        yield ProbeSupport("energy of the GPUs", False, reader.absent, ("pip install 'assay-bench[gpu]'",))
    for index in range(0 if reader.absent else reader.count):
        yield _energy(index, reader)


def _energy(index: int, reader: GpuReader) -> ProbeSupport:
    name = f"energy of GPU {index}"
    try:
        reading = reader.read(index)
    except Exception as problem:  # NVML has its own errors; the other boards are still reported
        return ProbeSupport(name, False, f"it does not answer: {problem}")
    if "energy_j" in reading:
        return ProbeSupport(name, True, "by its counter")
    if "power_w" in reading:
        return ProbeSupport(name, True, "by samples of its power")
    return ProbeSupport(name, False, reader.lost.get(index, "it tells neither its energy nor its power"))
