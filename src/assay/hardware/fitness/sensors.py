"""The state of processor, memory, sensors and GPUs before and after a job: from small files of the system and NVML."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pydantic import JsonValue

from assay.hardware.fitness.lock_files import pid_namespace
from assay.hardware.source import number_of, text_of
from assay.spec.section import split_index

if TYPE_CHECKING:
    from assay.hardware.gpu.nvml import GpuReader


# Trip points at which the kernel begins to slow the machine down or ends it; `active` ones only start a fan.
_TRIPS = ("passive", "hot", "critical")
# What is outside is no temperature of a machine that runs: sensors that are off say −274 or 65,261 °C.
_COLDEST_C, _HOTTEST_C = -40.0, 150.0


@dataclass(frozen=True, slots=True)
class Sensor:
    """One temperature, with its limit where it is known."""

    name: str
    celsius: float
    limit_c: float | None = None
    limit: str = ""
    """What happens there: `passive`, `hot`, `critical`."""

    @property
    def headroom_c(self) -> float | None:
        return None if self.limit_c is None else self.limit_c - self.celsius


def heat(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """The hottest sensor and the one nearest to its limit; and for what was not read, the reason."""
    sensors = [*_zones(root), *_chips(root)]
    if not sensors:
        return {}, {"temperature": "the system shows no temperature sensor"}
    hottest = max(sensors, key=lambda sensor: sensor.celsius)
    facts: dict[str, JsonValue] = {"sensors": len(sensors), "hottest": _sensor_facts(hottest)}
    limited = [(room, sensor) for sensor in sensors if (room := sensor.headroom_c) is not None]
    if not limited:
        return facts, {"thermal headroom": "no sensor tells at which temperature the machine slows down"}
    return {**facts, "nearest": _sensor_facts(min(limited, key=lambda pair: pair[0])[1])}, {}


def _sensor_facts(sensor: Sensor) -> dict[str, JsonValue]:
    facts: dict[str, JsonValue] = {"sensor": sensor.name, "celsius": sensor.celsius}
    if sensor.limit_c is not None and sensor.headroom_c is not None:
        room = round(sensor.headroom_c, 3)
        facts |= {"limit_c": sensor.limit_c, "limit": sensor.limit, "headroom_c": room}
    return facts


def _zones(root: Path) -> Iterator[Sensor]:
    """The thermal zones that the kernel itself acts on."""
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone[0-9]*")):
        celsius = _celsius(zone / "temp")
        if celsius is None or text_of(zone / "mode") == "disabled":
            continue
        trips = [
            (limit, kind)
            for path in zone.glob("trip_point_*_type")
            if (kind := text_of(path)) in _TRIPS
            and (limit := _limit(zone / path.name.replace("_type", "_temp"))) is not None
        ]
        name = text_of(zone / "type") or zone.name
        yield Sensor(name, celsius, *min(trips)) if trips else Sensor(name, celsius)


def _chips(root: Path) -> Iterator[Sensor]:
    """Sensors of chips, such as coretemp and k10temp of processors; `max` is left out, since it only starts a fan."""
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*")):
        name = text_of(chip / "name") or chip.name
        for path in sorted(chip.glob("temp[0-9]*_input")):
            celsius = _celsius(path)
            if celsius is None:
                continue
            stem = path.name.removesuffix("_input")
            label = text_of(chip / f"{stem}_label")
            limit = _limit(chip / f"{stem}_crit")
            yield Sensor(f"{name} {label}".rstrip(), celsius, limit, "" if limit is None else "critical")


def _celsius(path: Path) -> float | None:
    value = number_of(path)
    return value / 1e3 if value is not None and _COLDEST_C <= value / 1e3 <= _HOTTEST_C else None


def _limit(path: Path) -> float | None:
    """A limit; zero and what no chip survives are fillers."""
    celsius = _celsius(path)
    return celsius if celsius is not None and celsius > 0 else None


_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_SWAPPED = re.compile(r"^pswp(in|out) (\d+)$", re.MULTILINE)
# Version 2 of control groups, then version 1: limit, use, and the name of what the kernel may drop immediately.
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def memory(
    root: Path, memory: Callable[[], tuple[int, int, int, int]] | None = None
) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """How much memory is free and how much swap is used; and for what was not read, the reason.

    Args:
        memory: gives total, available, swap total and swap used in bytes where there is no `/proc/meminfo`.
    """
    lines = {name: int(kib) * 1024 for name, kib in _LINE.findall(text_of(root / "proc/meminfo"))}
    if "MemTotal" in lines and "MemAvailable" in lines:
        swap = lines.get("SwapTotal", 0)
        amounts = (lines["MemTotal"], lines["MemAvailable"], swap, swap - lines.get("SwapFree", swap))
    elif root == Path("/") or memory is not None:
        amounts = (memory or _by_psutil)()
    else:
        return {}, {"memory": "the system does not report how much memory is free"}
    total, available, swap, used = amounts
    facts: dict[str, JsonValue] = {
        "total_bytes": total,
        "available_bytes": available,
        "swap_total_bytes": swap,
        "swap_used_bytes": used,
    }
    moved = dict(_SWAPPED.findall(text_of(root / "proc/vmstat")))
    if len(moved) == 2:
        facts["swapped_pages"] = int(moved["in"]) + int(moved["out"])
    return facts | _of_group(root / "sys/fs/cgroup", total, available), {}


def _of_group(folder: Path, total: int, available: int) -> dict[str, JsonValue]:
    """What a container may use, where that is less than the machine has."""
    for limit_name, use_name, statistics, droppable in _GROUPS:
        limit, used = number_of(folder / limit_name), number_of(folder / use_name)
        if limit is None or used is None or limit >= total:
            continue
        match = re.search(rf"^{droppable} (\d+)$", text_of(folder / statistics), re.MULTILINE)
        free = max(0, limit - used + (int(match[1]) if match else 0))
        return {"limit_bytes": limit, "available_bytes": min(available, free)}
    return {}


def _by_psutil() -> tuple[int, int, int, int]:
    main, swap = psutil.virtual_memory(), psutil.swap_memory()
    return main.total, main.available, swap.total, swap.used


_CPU = "sys/devices/system/cpu"
# Switches of turbo: the file, and what it holds when turbo is on.
_SWITCHES = ((f"{_CPU}/intel_pstate/no_turbo", "0"), (f"{_CPU}/cpufreq/boost", "1"))
# The firmware of a Raspberry Pi holds its clock down for these reasons; higher bits tell of the time since its start.
_FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
_FIRMWARE_BITS = ("the supply voltage is low", "the frequency is capped", "the clock is throttled", "it is warm")


def processor(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """How the clock is set; and for what was not read, the reason."""
    facts, absent = _governors(root)
    facts |= (turbo := _turbo(root))
    if not turbo:
        absent["turbo"] = "the system shows no switch for turbo"
    if (events := throttle_events(root)) is not None:
        facts["throttle_events"] = events
    else:
        absent["throttle events"] = "the kernel counts no thermal throttling here"
    reasons = _held_down(root)
    return (facts if reasons is None else {**facts, "held_down": list(reasons)}), absent


def _governors(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    policies = sorted((root / _CPU).glob("cpufreq/policy[0-9]*")) or sorted((root / _CPU).glob("cpu[0-9]*/cpufreq"))
    if not policies:
        return {}, {"governor": "the system does not show how the clock is governed (no cpufreq)"}
    governors, preferences = Counter[str](), Counter[str]()
    fixed: set[int | None] = set()
    for policy in policies:
        cores = len(text_of(policy / "affected_cpus").split()) or 1
        if name := text_of(policy / "scaling_governor"):
            governors[name] += cores
        if preference := text_of(policy / "energy_performance_preference"):
            preferences[preference] += cores
        lowest, highest = number_of(policy / "scaling_min_freq"), number_of(policy / "scaling_max_freq")
        fixed.add(highest if lowest is not None and lowest == highest else None)
    facts: dict[str, JsonValue] = {"governors": dict(governors)} if governors else {}
    if preferences:
        facts["preferences"] = dict(preferences)
    if driver := text_of(policies[0] / "scaling_driver"):
        facts["driver"] = driver
    if len(fixed) == 1 and (only := fixed.pop()) is not None:
        facts["fixed_mhz"] = only / 1e3
    return facts, {} if governors else {"governor": "the governors of the clock cannot be read"}


def _turbo(root: Path) -> dict[str, JsonValue]:
    """Whether the clock may rise above its base, and the file that says so."""
    for name, on in _SWITCHES:
        if (value := text_of(root / name)) in ("0", "1"):
            return {"turbo": "on" if value == on else "off", "turbo_switch": f"/{name}"}
    own = [value for path in (root / _CPU).glob("cpufreq/policy[0-9]*/boost") if (value := text_of(path)) in ("0", "1")]
    if not own:
        return {}
    return {"turbo": "on" if "1" in own else "off", "turbo_switch": f"/{_CPU}/cpufreq/policy*/boost"}


def throttle_events(root: Path) -> int | None:
    """How often the kernel saw a core throttle for heat since it started; None where it does not count."""
    counts = [number_of(path) for path in (root / _CPU).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")]
    read_counts = [count for count in counts if count is not None]
    return sum(read_counts) if read_counts else None


def _held_down(root: Path) -> tuple[str, ...] | None:
    """Why the firmware of the board holds the clock down now; None where there is none that tells."""
    try:
        bits = int(text_of(root / _FIRMWARE), 16)
    except ValueError:
        return None
    return tuple(reason for place, reason in enumerate(_FIRMWARE_BITS) if bits >> place & 1)


# The namespace that holds all processes of a Linux system. Elsewhere NVML's numbers are those of the host.
_FIRST_NAMESPACE = "pid:[4026531836]"
# Readings of a board that a state keeps; energy belongs to a stretch of time, not to a moment.
_KEPT = ("temperature_c", "gpu_util_pct", "gpu_mem_bytes", "sm_mhz", "power_w")


def gpus(
    device: str | None,
    reader: GpuReader,
    *,
    environment: Mapping[str, str] | None = None,
    own: Callable[[], Collection[int]] | None = None,
    describe: Callable[[int], Mapping[str, JsonValue]] | None = None,
) -> tuple[list[JsonValue], dict[str, str]]:
    """The state of each GPU that a job may use; and for what was not read, the reason.

    Args:
        environment: variables of the job's processes, which choose and order boards; ours by default.
    """
    if reader.absent:
        return [], {"gpu": reader.absent}
    environ = os.environ if environment is None else environment
    indices = range(reader.count) if device is None else _index_of(device, environ, reader.facts)
    if indices is None:
        names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
        set_ = ", ".join(f"{name}={environ[name]}" for name in names if name in environ)
        return [], {"gpu": f"which board {device} is, is unknown: {set_ or 'boards differ'}"}
    own_pids = set((own or _our_tree)())
    states: list[JsonValue] = []
    absent: dict[str, str] = {}
    for index in indices:
        try:
            states.append(_state(index, reader, own_pids, describe or named))
        except Exception as problem:  # NVML has its own errors, and no state of a board may end a job
            absent[f"gpu:{index}"] = f"GPU {index} does not answer: {problem}"
    return states, absent


def _index_of(
    device: str, environment: Mapping[str, str], facts: Sequence[Mapping[str, Any]]
) -> tuple[int, ...] | None:
    """The driver's number of a device such as `cuda:1`; None where unknown."""
    _, place = split_index(device)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    words = None if visible is None else [part.strip() for part in visible.split(",")]
    word = str(place) if words is None else words[place] if place < len(words) else ""
    if not word.isdecimal():
        matches = [index for index, board in enumerate(facts) if word and str(board.get("uuid", "")).startswith(word)]
        return (matches[0],) if len(matches) == 1 else None
    # CUDA counts the fastest board first, the driver counts along the bus: the same only where all are alike.
    alike = len({board.get("name") for board in facts}) <= 1
    return (int(word),) if alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else None


def _state(
    index: int, reader: GpuReader, own_pids: Collection[int], describe: Callable[[int], Mapping[str, JsonValue]]
) -> dict[str, JsonValue]:
    if index >= reader.count:
        raise LookupError(f"there are {reader.count}")
    if index in reader.lost:
        raise LookupError(reader.lost[index])
    reading, limits = reader.read(index), reader.limits(index)
    facts = reader.facts[index]
    state: dict[str, JsonValue] = {"index": index}
    state |= {name: facts[name] for name in ("name", "uuid", "driver") if facts.get(name)}
    state |= {name: reading[name] for name in _KEPT if name in reading}
    state |= _room(reading, limits)
    if "throttle_bits" in reading:
        state["throttle"] = list(reader.throttle_reasons(int(reading["throttle_bits"])))
    used: list[JsonValue] = []
    for pid, memory_bytes in reader.processes(index):
        if pid not in own_pids:
            size: dict[str, JsonValue] = {} if memory_bytes is None else {"memory_bytes": memory_bytes}
            used.append({"pid": pid, **describe(pid), **size})
    return {**state, "foreign": used}


def _room(reading: Mapping[str, float], limits: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Degrees up to the slowdown: as the board tells them, else from its temperature and its limit."""
    warm, limit = reading.get("temperature_c"), limits.get("slowdown_c")
    margin = reading.get("margin_c", limits.get("margin_c"))
    degrees: dict[str, JsonValue] = {} if limit is None else {"slowdown_c": float(limit)}
    if margin is not None:
        return {**degrees, "headroom_c": float(margin)}
    return {**degrees, "headroom_c": float(limit) - warm} if limit is not None and warm is not None else degrees


def named(pid: int, namespace: Callable[[], str] | None = None) -> dict[str, JsonValue]:
    """Name and user of a process; empty where its number may be that of another process."""
    if (namespace or pid_namespace)() not in ("", _FIRST_NAMESPACE):
        return {}  # the driver counts the processes of the host, of which a container sees none or others
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return {"name": process.name(), "user": process.username()}
    except (psutil.Error, OSError, KeyError):  # gone, or its user has no name
        return {}


def _our_tree() -> set[int]:
    try:
        return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    except psutil.Error:
        return {os.getpid()}
