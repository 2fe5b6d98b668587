"""NVML, the library of NVIDIA's driver: opened once per process, read repeatedly, its errors in plain words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from assay.hardware.gpu.record import LayerBrokenError, LayerUnavailableError

Load = Callable[[str], Any]
NOT_INSTALLED = "pynvml is not installed (pip install nvidia-ml-py)"
# The numbers of NVML's errors; each has a cause of its own, and something that helps.
_CAUSES = {
    4: "NVML may not be asked: no permission (let this user read and write /dev/nvidiactl and /dev/nvidia*)",
    9: "the NVIDIA driver is not loaded (sudo modprobe nvidia; dmesg says why where that fails)",
    12: "the driver's library libnvidia-ml.so.1 is not here: there is no NVIDIA driver, "
    "or this container was started without it (docker run --gpus all)",
    15: "a GPU is lost: it has fallen off the bus or does not answer (dmesg tells the Xid; restart the machine)",
    16: "a GPU needs a reset (sudo nvidia-smi --gpu-reset, or restart the machine)",
    17: "the operating system blocks NVML (look for what confines this process: container, cgroup, AppArmor)",
    18: "the loaded driver and its library are of different versions: the driver was updated since the start "
    "(restart the machine, or unload and load the nvidia modules)",
}
_NO_LIBRARY = 12
# After these a question need not be asked again: not supported, no permission, no such function.
NEVER = frozenset({3, 4, 13})
# After these the GPU is gone.
GONE = frozenset({15, 16})
# NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
SM_CLOCK, MEMORY_CLOCK, GPU_SENSOR, SLOWDOWN = 1, 2, 0, 1


class NvmlSymbolMissingError(Exception):
    """The installed pynvml has no such function."""

    value = 13


def why(failure: BaseException) -> str:
    """The cause of an NVML error, and what to do about it."""
    return _CAUSES.get(number_of(failure), f"NVML does not answer: {failure}")


def number_of(failure: BaseException) -> int:
    """NVML's number of an error, −1 where it has none."""
    number = getattr(failure, "value", None)
    return number if isinstance(number, int) else -1


class Nvml:
    """The library, ready to be asked."""

    def __init__(self, load: Load = import_module) -> None:
        try:
            self._library = load("pynvml")
        except ImportError as missing:
            raise LayerUnavailableError(NOT_INSTALLED) from missing
        try:
            self._library.nvmlInit()
        except Exception as failure:  # NVML has its own errors, and none may end a run
            error = LayerUnavailableError if number_of(failure) == _NO_LIBRARY else LayerBrokenError
            raise error(why(failure)) from failure

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  (NVML has no types)
        """Ask, and let NVML's error out."""
        function = getattr(self._library, name, None)
        if function is None:
            raise NvmlSymbolMissingError(f"this pynvml has no {name}")
        return function(*arguments)

    def query(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  (NVML has no types)
        """Ask; None where this board, this driver or this pynvml does not say."""
        try:
            return self.call(name, *arguments)
        except Exception:  # not every board tells everything
            return None

    def text(self, name: str, *arguments: object) -> str | None:
        """Ask for a name; older versions answer in bytes."""
        value = self.query(name, *arguments)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return str(value) if value else None

    def number(self, name: str, *arguments: object) -> int | None:
        value = self.query(name, *arguments)
        return int(value) if isinstance(value, (int, float)) else None

    def devices(self) -> tuple[list[Any | None], dict[int, str]]:
        """A handle of each GPU in NVML's order, and the reason for each that gives none."""
        try:
            count = int(self.call("nvmlDeviceGetCount"))
        except Exception as failure:
            raise LayerBrokenError(why(failure)) from failure
        if not count:
            raise LayerUnavailableError("NVML sees no GPU")
        handles: list[Any | None] = []
        reasons: dict[int, str] = {}
        for index in range(count):
            try:
                handles.append(self.call("nvmlDeviceGetHandleByIndex", index))
            except Exception as failure:
                handles.append(None)
                reasons[index] = why(failure)
        if len(reasons) == count:
            raise LayerBrokenError(reasons[0])
        return handles, reasons

    def close(self) -> None:
        """Let go of the driver."""
        with suppress(Exception):
            self._library.nvmlShutdown()


# Bit of NVML, name in the XML of nvidia-smi, our word.
_REASONS: tuple[tuple[int, str, str], ...] = (
    (0x004, "sw_power_cap", "power cap"),
    (0x008, "hw_slowdown", "hardware slowdown"),
    (0x010, "sync_boost", "sync boost"),
    (0x020, "sw_thermal_slowdown", "thermal, by software"),
    (0x040, "hw_thermal_slowdown", "thermal, by hardware"),
    (0x080, "hw_power_brake_slowdown", "power brake"),
    (0x200, "board_limit", "board limit"),
    (0x400, "reliability", "voltage reliability"),
)
# Idle, clocks set by a user, clocks set for a display: the clocks are low, but nothing holds them down.
_HARMLESS = 0x001 | 0x002 | 0x100


def reasons_of_bits(bits: int) -> tuple[str, ...]:
    """The reasons in NVML's bits; an unknown bit is shown as its number."""
    reasons = [word for bit, _, word in _REASONS if bits & bit]
    rest = bits & ~_HARMLESS & ~sum(bit for bit, _, _ in _REASONS)
    return (*reasons, f"unknown reason {rest:#x}") if rest else tuple(reasons)


def reasons_of_names(active: Mapping[str, str]) -> tuple[str, ...] | None:
    """The reasons in nvidia-smi's words (`hw_slowdown` → `Active`), None where it tells of none of them."""
    if not any(state in ("Active", "Not Active") for state in active.values()):
        return None
    return tuple(word for _, name, word in _REASONS if active.get(name) == "Active")


_NO_MEMORY = 2**64 - 1
# One look without an answer happens while a driver is busy; three in a row are a GPU that does not come back.
_SILENT_READS = 3

_Ways = tuple[tuple[str, tuple[int, ...]], ...]
"""Functions that tell the same, newest first, each with what else it is asked with."""


def _milli(value: Any) -> float:  # noqa: ANN401  (NVML has no types)
    return float(value) / 1e3


def _ways(*names: str, of: int | None = None) -> _Ways:
    return tuple((name, () if of is None else (of,)) for name in names)


_QUESTIONS: dict[str, tuple[_Ways, Callable[[Any], float]]] = {
    "gpu_util_pct": (_ways("nvmlDeviceGetUtilizationRates"), lambda rates: float(rates.gpu)),
    "gpu_mem_bytes": (_ways("nvmlDeviceGetMemoryInfo"), lambda memory: float(memory.used)),
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


class GpuLostError(Exception):
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
        """GPU → why it can no longer be read."""
        self._handles: list[Any | None] = []
        self._questions: list[dict[str, _Question]] = []
        try:
            self._nvml = Nvml(load)
            self._handles, self.lost = self._nvml.devices()
        except LayerUnavailableError as reason:
            self.absent = str(reason)
        for index, handle in enumerate(self._handles):
            self.facts.append(_facts(self._nvml, index, handle))
            self._questions.append({name: _Question(self._nvml, handle, *_QUESTIONS[name]) for name in names})
        self._silent = [0] * self.count

    @property
    def count(self) -> int:
        return len(self._handles)

    def read(self, index: int) -> dict[str, float]:
        """One reading of a GPU: only what the board tells, and nothing of one that is lost."""
        if index in self.lost:
            return {}
        readings: dict[str, float] = {}
        failed: Exception | None = None
        questions = self._questions[index]
        for name, question in tuple(questions.items()):
            try:
                readings[name] = float(question.query())
            except Exception as failure:  # NVML has its own errors
                number = number_of(failure)
                if number in GONE:
                    raise self._lose(index, failure) from failure
                if number in NEVER:
                    del questions[name]
                else:
                    failed = failure
        self._silent[index] = 0 if readings or failed is None else self._silent[index] + 1
        if failed is not None and self._silent[index] >= _SILENT_READS:
            raise self._lose(index, failed) from failed
        return readings

    def throttle_reasons(self, bits: float) -> tuple[str, ...]:
        """Why the clocks are held down; low clocks of an idle GPU and clocks set by a user are no reason."""
        return reasons_of_bits(int(bits))

    def processes(self, index: int) -> tuple[tuple[int, int | None], ...]:
        """Processes that compute or draw on a GPU, each with the memory it holds there, where known.

        Their numbers are the machine's, also in a container that counts its own.
        """
        held: dict[int, int | None] = {}
        for ways in _RUNNING if index not in self.lost else ():
            try:
                rows = _Question(self._nvml, self._handles[index], ways, list).query()
            except Exception:  # noqa: S112  (not every board tells everything)
                continue
            for row in rows:
                pid, memory = int(row.pid), getattr(row, "usedGpuMemory", None)
                sizes = [size for size in (held.get(pid), memory) if size is not None and size != _NO_MEMORY]
                held[pid] = max(sizes, default=None)  # one that computes and draws is listed twice
        return tuple(sorted(held.items()))

    def limits(self, index: int) -> dict[str, float]:
        """`power_limit_w`, `slowdown_c`, `max_sm_mhz` and `margin_c` of a GPU, as far as it tells them.

        The margin is how much warmer it may become from now on until it slows itself down.
        """
        limits: dict[str, float] = {}
        for name, question in _LIMITS.items() if index not in self.lost else ():
            try:
                limits[name] = float(_Question(self._nvml, self._handles[index], *question).query())
            except Exception:  # noqa: S112  (not every board tells everything)
                continue
        return limits

    def close(self) -> None:
        """Let go of the driver; nothing can be read after it."""
        if not self.absent:
            self._nvml.close()

    def _lose(self, index: int, failure: Exception) -> GpuLostError:
        self.lost[index] = why(failure)
        return GpuLostError(index, self.lost[index])


class _Question:
    """One question to one GPU, in the newest of the ways that its driver knows."""

    def __init__(self, nvml: Nvml, handle: object, ways: _Ways, scale: Callable[[Any], Any]) -> None:
        self._nvml, self._handle, self._scale = nvml, handle, scale
        self._left = list(ways)

    def query(self) -> Any:  # noqa: ANN401  (NVML has no types)
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
    memory = nvml.query("nvmlDeviceGetMemoryInfo", handle)
    return facts | ({"memory_bytes": int(memory.total)} if memory is not None else {})
