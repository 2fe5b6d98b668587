"""NVML, the library of NVIDIA's driver: opened once for whoever reads it, its errors told in plain words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from assay.hardware.gpu.asking import Unanswered

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
# After these a question need not be asked again: not supported, no permission, no such function.
NEVER = frozenset({3, 4, 13})
# After these the GPU is gone.
GONE = frozenset({15, 16})
# NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
SM_CLOCK, MEMORY_CLOCK, GPU_SENSOR, SLOWDOWN = 1, 2, 0, 1


class NotInLibraryError(Exception):
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
            raise Unanswered(NOT_INSTALLED) from missing
        try:
            self._library.nvmlInit()
        except Exception as failure:  # NVML has its own errors, and none may end a run
            raise Unanswered(why(failure)) from failure

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  (NVML has no types)
        """Ask, and let NVML's error out."""
        function = getattr(self._library, name, None)
        if function is None:
            raise NotInLibraryError(f"this pynvml has no {name}")
        return function(*arguments)

    def ask(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  (NVML has no types)
        """Ask; None where this board, this driver or this pynvml does not tell."""
        try:
            return self.call(name, *arguments)
        except Exception:  # not every board tells everything
            return None

    def text(self, name: str, *arguments: object) -> str | None:
        """Ask for a name; older versions answer in bytes."""
        value = self.ask(name, *arguments)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return str(value) if value else None

    def number(self, name: str, *arguments: object) -> int | None:
        value = self.ask(name, *arguments)
        return int(value) if isinstance(value, (int, float)) else None

    def devices(self) -> tuple[list[Any | None], dict[int, str]]:
        """A handle of each GPU in NVML's order, and the reason for each that gives none.

        Raises:
            Unanswered: there is none at all.
        """
        try:
            count = int(self.call("nvmlDeviceGetCount"))
        except Exception as failure:
            raise Unanswered(why(failure)) from failure
        if not count:
            raise Unanswered("NVML sees no GPU")
        handles: list[Any | None] = []
        reasons: dict[int, str] = {}
        for index in range(count):
            try:
                handles.append(self.call("nvmlDeviceGetHandleByIndex", index))
            except Exception as failure:
                handles.append(None)
                reasons[index] = why(failure)
        if len(reasons) == count:
            raise Unanswered(reasons[0])
        return handles, reasons

    def close(self) -> None:
        """Let go of the driver."""
        with suppress(Exception):
            self._library.nvmlShutdown()
