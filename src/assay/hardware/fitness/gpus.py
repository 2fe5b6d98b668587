"""The state of the GPUs that a job may use: temperature, throttling, and who else computes on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import psutil
from pydantic import JsonValue

from assay.spec.devices import split_index

# The namespace that holds all processes of a Linux system. Elsewhere NVML's numbers are those of the host.
_FIRST_NAMESPACE = "pid:[4026531836]"
# Readings of a board that a state keeps; energy belongs to a stretch of time, not to a moment.
_KEPT = ("temperature_c", "gpu_util_pct", "gpu_mem_bytes", "sm_mhz", "power_w")


class GpuStateReader(Protocol):
    """What reads the boards; see `assay.hardware.gpu.nvml.GpuReader`."""

    @property
    def absent(self) -> str:
        """Why there is nothing to read."""
        ...

    @property
    def count(self) -> int:
        """How many boards there are."""
        ...

    @property
    def facts(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def lost(self) -> Mapping[int, str]:
        """Boards that do not answer any more, and why."""
        ...

    def read(self, index: int, /) -> Mapping[str, float]:
        """One reading of everything that the board tells."""
        ...

    def throttle_reasons(self, bits: int, /) -> Sequence[str]:
        """The reasons for which a clock is held down, in words."""
        ...

    def processes(self, index: int, /) -> Sequence[tuple[int, int | None]]:
        """Who computes on the board: number of the process, and its memory there."""
        ...

    def limits(self, index: int, /) -> Mapping[str, Any]:
        """The temperatures, powers and clocks that the board keeps to."""
        ...


def gpus(
    device: str | None,
    reader: GpuStateReader,
    *,
    environment: Mapping[str, str] | None = None,
    own: Callable[[], Collection[int]] | None = None,
    describe: Callable[[int], Mapping[str, JsonValue]] | None = None,
) -> tuple[list[JsonValue], dict[str, str]]:
    """Read the state of the GPUs that a job may use.

    Args:
        environment: Variables of the job's processes, which choose and order boards; ours by default.

    Returns:
        One entry for each GPU, and for what was not read, the reason.
    """
    if reader.absent:
        return [], {"gpu": reader.absent}
    known = os.environ if environment is None else environment
    indices = range(reader.count) if device is None else _index_of(device, known, reader.facts)
    if indices is None:
        return [], {"gpu": f"which board {device} is cannot be told: {_settings(known) or 'boards differ'}"}
    ours = set((own or _our_tree)())
    found: list[JsonValue] = []
    absent: dict[str, str] = {}
    for index in indices:
        try:
            found.append(_state(index, reader, ours, describe or named))
        except Exception as problem:  # NVML has its own errors, and no state of a board may end a job
            absent[f"gpu:{index}"] = f"GPU {index} does not answer: {problem}"
    return found, absent


def _index_of(
    device: str, environment: Mapping[str, str], facts: Sequence[Mapping[str, Any]]
) -> tuple[int, ...] | None:
    """The number by which the driver knows a device such as `cuda:1`; None where it cannot be told."""
    _, place = split_index(device)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    words = None if visible is None else [one.strip() for one in visible.split(",")]
    word = str(place) if words is None else words[place] if place < len(words) else ""
    if not word.isdecimal():
        found = [index for index, one in enumerate(facts) if word and str(one.get("uuid", "")).startswith(word)]
        return (found[0],) if len(found) == 1 else None
    # CUDA counts the fastest board first, the driver counts along the bus: the same only where all are alike.
    alike = len({one.get("name") for one in facts}) <= 1
    return (int(word),) if alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else None


def _settings(environment: Mapping[str, str]) -> str:
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return ", ".join(f"{name}={environment[name]}" for name in names if name in environment)


def _state(
    index: int, reader: GpuStateReader, ours: Collection[int], describe: Callable[[int], Mapping[str, JsonValue]]
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
        if pid not in ours:
            size: dict[str, JsonValue] = {} if memory_bytes is None else {"memory_bytes": memory_bytes}
            used.append({"pid": pid, **describe(pid), **size})
    return {**state, "foreign": used}


def _room(reading: Mapping[str, float], limits: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Degrees up to the slowdown: as the board tells them, else from its temperature and its limit."""
    warm, limit = reading.get("temperature_c"), limits.get("slowdown_c")
    margin = reading.get("margin_c", limits.get("margin_c"))
    known: dict[str, JsonValue] = {} if limit is None else {"slowdown_c": float(limit)}
    if margin is not None:
        return {**known, "headroom_c": float(margin)}
    return {**known, "headroom_c": float(limit) - warm} if limit is not None and warm is not None else known


def named(pid: int, namespace: Callable[[], str] | None = None) -> dict[str, JsonValue]:
    """Name and user of a process; empty where its number may be that of another process."""
    if (namespace or _namespace)() not in ("", _FIRST_NAMESPACE):
        return {}  # the driver counts the processes of the host, of which a container sees none or others
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return {"name": process.name(), "user": process.username()}
    except (psutil.Error, OSError, KeyError):  # gone, or its user has no name
        return {}


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  (a name that leads to no file)
    except OSError:
        return ""


def _our_tree() -> set[int]:
    try:
        return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    except psutil.Error:
        return {os.getpid()}
