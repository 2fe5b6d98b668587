"""Readings of NVIDIA's GPUs through NVML, again and again: what they do, what they use, what holds them down."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

from assay.hardware.gpu.asking import Unanswered
from assay.hardware.gpu.library import (
    GONE,
    GPU_SENSOR,
    MEMORY_CLOCK,
    NEVER,
    SLOWDOWN,
    SM_CLOCK,
    Load,
    Nvml,
    number_of,
    why,
)
from assay.hardware.gpu.throttle import reasons_of_bits

_NO_MEMORY_TOLD = 2**64 - 1
# One look without an answer happens while a driver is busy; three in a row are a GPU that does not come back.
_SILENT_LOOKS = 3

_Ways = tuple[tuple[str, tuple[int, ...]], ...]
"""Functions that tell the same, newest first, each with what else it is asked with."""


def _milli(told: Any) -> float:  # noqa: ANN401  (NVML has no types)
    return float(told) / 1e3


def _ways(*names: str, of: int | None = None) -> _Ways:
    return tuple((name, () if of is None else (of,)) for name in names)


_QUESTIONS: dict[str, tuple[_Ways, Callable[[Any], float]]] = {
    "gpu_util_pct": (_ways("nvmlDeviceGetUtilizationRates"), lambda told: float(told.gpu)),
    "gpu_mem_bytes": (_ways("nvmlDeviceGetMemoryInfo"), lambda told: float(told.used)),
    "power_w": (_ways("nvmlDeviceGetPowerUsage"), _milli),
    "sm_mhz": (_ways("nvmlDeviceGetClockInfo", of=SM_CLOCK), float),
    "mem_mhz": (_ways("nvmlDeviceGetClockInfo", of=MEMORY_CLOCK), float),
    "temperature_c": (_ways("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", of=GPU_SENSOR), float),
    "energy_j": (_ways("nvmlDeviceGetTotalEnergyConsumption"), _milli),
    "throttle_bits": (
        _ways("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        float,
    ),
}
_LIMITS: dict[str, tuple[_Ways, Callable[[Any], float]]] = {
    "power_limit_w": (_ways("nvmlDeviceGetEnforcedPowerLimit"), _milli),
    "slowdown_c": (_ways("nvmlDeviceGetTemperatureThreshold", of=SLOWDOWN), float),
    "max_sm_mhz": (_ways("nvmlDeviceGetMaxClockInfo", of=SM_CLOCK), float),
    "margin_c": (_ways("nvmlDeviceGetMarginTemperature"), float),
}
_RUNNING = tuple(
    _ways(*(f"nvmlDeviceGet{kind}RunningProcesses{version}" for version in ("_v3", "_v2", "")))
    for kind in ("Compute", "Graphics")
)
READINGS = tuple(_QUESTIONS)
"""Names of all readings."""


class GpuLost(Exception):  # noqa: N818  (it is told, not a mistake)
    """A GPU that answered before does so no more."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"GPU {index}: {reason}")
        self.index, self.reason = index, reason


class GpuReader:
    """All GPUs that NVML sees, or the reason why none can be read."""

    def __init__(self, load: Load = import_module, names: Collection[str] = READINGS) -> None:
        self.absent = ""
        self.facts: list[dict[str, str | int]] = []
        """Of each GPU its `index`, and `name`, `uuid`, `driver` and `memory_bytes` as far as it tells them."""
        self.lost: dict[int, str] = {}
        """GPU → why it cannot be read any more."""
        self._handles: list[Any | None] = []
        self._questions: list[dict[str, _Question]] = []
        try:
            self._nvml = Nvml(load)
            self._handles, self.lost = self._nvml.devices()
        except Unanswered as reason:
            self.absent = str(reason)
        for index, handle in enumerate(self._handles):
            self.facts.append(_facts(self._nvml, index, handle))
            self._questions.append({name: _Question(self._nvml, handle, *_QUESTIONS[name]) for name in names})
        self._silent = [0] * self.count

    @property
    def count(self) -> int:
        return len(self._handles)

    def read(self, index: int) -> dict[str, float]:
        """One reading of a GPU: only what the board tells, and nothing of one that is lost.

        Raises:
            GpuLost: it has stopped answering; told once, later readings of it are empty.
        """
        if index in self.lost:
            return {}
        told: dict[str, float] = {}
        failed: Exception | None = None
        questions = self._questions[index]
        for name, question in tuple(questions.items()):
            try:
                told[name] = float(question.ask())
            except Exception as failure:  # NVML has its own errors
                number = number_of(failure)
                if number in GONE:
                    raise self._lose(index, failure) from failure
                if number in NEVER:
                    del questions[name]
                else:
                    failed = failure
        self._silent[index] = 0 if told or failed is None else self._silent[index] + 1
        if failed is not None and self._silent[index] >= _SILENT_LOOKS:
            raise self._lose(index, failed) from failed
        return told

    def throttle_reasons(self, bits: float) -> tuple[str, ...]:
        """Why the clocks are held down; low clocks of an idle GPU and clocks set by a user are no reason."""
        return reasons_of_bits(int(bits))

    def processes(self, index: int) -> tuple[tuple[int, int | None], ...]:
        """Processes that compute or draw on a GPU, each with the memory it holds there, where that is told.

        Their numbers are the machine's, also in a container that counts its own.
        """
        held: dict[int, int | None] = {}
        for ways in _RUNNING if index not in self.lost else ():
            try:
                rows = _Question(self._nvml, self._handles[index], ways, list).ask()
            except Exception:  # noqa: S112  (not every board tells everything)
                continue
            for row in rows:
                pid, memory = int(row.pid), getattr(row, "usedGpuMemory", None)
                known = [one for one in (held.get(pid), memory) if one is not None and one != _NO_MEMORY_TOLD]
                held[pid] = max(known, default=None)  # one that computes and draws is told twice
        return tuple(sorted(held.items()))

    def limits(self, index: int) -> dict[str, float]:
        """`power_limit_w`, `slowdown_c`, `max_sm_mhz` and `margin_c` of a GPU, as far as it tells them.

        The margin is how much warmer it may become from now on until it slows itself down.
        """
        told: dict[str, float] = {}
        for name, question in _LIMITS.items() if index not in self.lost else ():
            try:
                told[name] = float(_Question(self._nvml, self._handles[index], *question).ask())
            except Exception:  # noqa: S112  (not every board tells everything)
                continue
        return told

    def close(self) -> None:
        """Let go of the driver; nothing can be read after it."""
        if not self.absent:
            self._nvml.close()

    def _lose(self, index: int, failure: Exception) -> GpuLost:
        self.lost[index] = why(failure)
        return GpuLost(index, self.lost[index])


class _Question:
    """One question to one GPU, in the newest of the ways that its driver knows."""

    def __init__(self, nvml: Nvml, handle: object, ways: _Ways, scale: Callable[[Any], Any]) -> None:
        self._nvml, self._handle, self._scale = nvml, handle, scale
        self._left = list(ways)

    def ask(self) -> Any:  # noqa: ANN401  (NVML has no types)
        """The answer; a way that the driver does not know is not tried twice."""
        while True:
            name, arguments = self._left[0]
            try:
                return self._scale(self._nvml.call(name, self._handle, *arguments))
            except Exception as failure:
                if number_of(failure) not in NEVER or len(self._left) == 1:
                    raise
                self._left.pop(0)


def _facts(nvml: Nvml, index: int, handle: Any) -> dict[str, str | int]:  # noqa: ANN401  (NVML has no types)
    facts: dict[str, str | int] = {"index": index}
    if handle is None:
        return facts
    words = {
        "name": nvml.text("nvmlDeviceGetName", handle),
        "uuid": nvml.text("nvmlDeviceGetUUID", handle),
        "driver": nvml.text("nvmlSystemGetDriverVersion"),
    }
    facts |= {name: word for name, word in words.items() if word}
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    return facts | ({"memory_bytes": int(memory.total)} if memory is not None else {})
