"""Which probes work here: each with what it reads, or with the reason why it cannot."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.hardware.reading import Source, why_not

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection

Facts = dict[str, JsonValue]

_POWERCAP = "/sys/class/powercap"
_THERMAL = "/sys/class/thermal"
_HWMON = "/sys/class/hwmon"
_CPUS = "/sys/devices/system/cpu"
_FIRMWARE_THROTTLE = "/sys/devices/platform/soc/soc:firmware/get_throttled"
_COUNTERS = {"cpu": "/proc/stat", "memory": "/proc/meminfo", "disk": "/proc/diskstats", "network": "/proc/net/dev"}


def abilities(source: Source, detection: Detection | None) -> Facts:
    """Each probe: whether it works, and by what or why not."""
    found: Facts = {name: _file(source, path) for name, path in _COUNTERS.items()}
    if source.system != "linux" and source.here:
        found = {name: _yes("psutil") for name in _COUNTERS}
    found["gpu"] = _gpu(detection)
    found["energy_rapl"] = _rapl(source)
    if source.system == "darwin":
        found["energy_powermetrics"] = _powermetrics(source)
    found["temperature"] = _temperature(source)
    found["throttle"] = _throttle(source)
    return found


def _gpu(detection: Detection | None) -> Facts:
    if detection is None:
        return _no("not looked for")
    if detection.gpus:
        return _yes(f"{detection.layer}, {len(detection.gpus)} GPU{'' if len(detection.gpus) == 1 else 's'}")
    reasons = "; ".join(f"{layer}: {reason}" for layer, reason in detection.tried.items())
    return _no(reasons or "no layer told of a GPU")


def _rapl(source: Source) -> Facts:
    """The processor's own energy counters, which most kernels show to the administrator alone."""
    zones = source.names(_POWERCAP, r"intel-rapl(?:-mmio)?:\d+")
    if not zones:
        there = source.exists(_POWERCAP)
        return _no(f"{_POWERCAP} has no intel-rapl zone" if there else f"{_POWERCAP} is not there")
    found = []
    for zone in zones:
        path = f"{_POWERCAP}/{zone}/energy_uj"
        try:
            int(source.bytes(path))
        except OSError as problem:
            return _no(why_not(problem, path))
        except ValueError:
            return _no(f"{path} holds no number")
        found.append(source.text(f"{_POWERCAP}/{zone}/name") or zone)
    return _yes(", ".join(found))


def _powermetrics(source: Source) -> Facts:
    """Apple's own sampler; it answers to the administrator alone."""
    try:
        source.run(("powermetrics", "--samplers", "cpu_power", "-n", "1", "-i", "1"))
    except (OSError, subprocess.SubprocessError) as problem:
        return _no(f"powermetrics: {problem}")
    return _yes("powermetrics")


def _temperature(source: Source) -> Facts:
    found: list[str] = []
    refused = ""
    for zone in source.names(_THERMAL, r"thermal_zone\d+"):
        path = f"{_THERMAL}/{zone}/temp"
        try:
            int(source.bytes(path))
        except OSError as problem:
            refused = refused or why_not(problem, path)
        except ValueError:
            refused = refused or f"{path} holds no number"
        else:
            found.append(source.text(f"{_THERMAL}/{zone}/type") or zone)
    for chip in source.names(_HWMON, r"hwmon\d+"):
        inputs = source.names(f"{_HWMON}/{chip}", r"temp\d+_input")
        if any(source.number(f"{_HWMON}/{chip}/{name}") is not None for name in inputs):
            found.append(source.text(f"{_HWMON}/{chip}/name") or chip)
    if found:
        return _yes(", ".join(dict.fromkeys(found)))
    return _no(refused or "neither a thermal zone nor a sensor of hwmon is there")


def _throttle(source: Source) -> Facts:
    """Counters or flags that tell when heat or a weak supply slowed the processor."""
    cores = [
        one
        for one in source.names(_CPUS, r"cpu\d+")
        if source.number(f"{_CPUS}/{one}/thermal_throttle/core_throttle_count") is not None
    ]
    if cores:
        return _yes(f"core_throttle_count of {len(cores)} CPUs")
    if source.text(_FIRMWARE_THROTTLE):
        return _yes(_FIRMWARE_THROTTLE)
    if any("raspberry" in source.text(f"{tree}/model").lower() for tree in ("/proc/device-tree",)):
        said = source.command("vcgencmd", "get_throttled", fact="probes.throttle")
        if said.startswith("throttled="):
            return _yes("vcgencmd get_throttled")
        return _no(source.absent.pop("probes.throttle", f"vcgencmd says {said[:40]!r}"))
    return _no("the kernel counts no throttling here, as in most virtual machines and on most ARM boards")


def _file(source: Source, path: str) -> Facts:
    try:
        return _yes(path) if source.bytes(path, 65_536).strip() else _no(f"{path} is empty")
    except OSError as problem:
        return _no(why_not(problem, path))


def _yes(by: str) -> Facts:
    return {"works": True, "by": by}


def _no(why: str) -> Facts:
    return {"works": False, "why": why}
