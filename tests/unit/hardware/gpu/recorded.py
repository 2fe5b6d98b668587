"""Recordings played back: an NVML that answers what a board once answered, and programs that write what they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assay.hardware.gpu.record import LayerUnavailableError

FIXTURES = Path(__file__).parent / "fixtures"
_NUMBERS = {
    "Uninitialized": 1,
    "Invalid Argument": 2,
    "Not Supported": 3,
    "Insufficient Permissions": 4,
    "Not Found": 6,
    "Driver Not Loaded": 9,
    "NVML Shared Library Not Found": 12,
    "Function Not Found": 13,
    "GPU is lost": 15,
    "GPU requires restart": 16,
    "RM has detected an NVML/RM version mismatch.": 18,
    "Unknown Error": 999,
}
_WITH_ARGUMENT = {
    "nvmlDeviceGetClockInfo": {1: "clock_sm", 2: "clock_mem"},
    "nvmlDeviceGetMaxClockInfo": {1: "max_sm", 2: "max_mem"},
    "nvmlDeviceGetTemperature": {0: "temp"},
    "nvmlDeviceGetTemperatureThreshold": {1: "slow"},
}


class NvmlError(Exception):
    """As pynvml's: its number stands in `value`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.value = _NUMBERS[text]


def board(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def xml(name: str) -> str:
    return (FIXTURES / f"{name}.xml").read_text()


class Nvml:
    """An NVML with these boards; a board may be changed meanwhile, and a handle is the board itself."""

    def __init__(self, *boards: dict[str, Any] | str) -> None:
        self.boards = [board(one) if isinstance(one, str) else one for one in boards]
        self.open = 0
        self.asked: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        if "lost" in self.boards[index]:
            raise NvmlError("GPU is lost")
        return self.boards[index]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: dict[str, Any], index: int) -> dict[str, Any]:  # noqa: N802
        parts = handle.get("mig", [])
        if index >= len(parts) or parts[index] is None:
            raise NvmlError("Not Found")
        return parts[index]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def answer(handle: dict[str, Any] | None = None, *arguments: int) -> Any:
            self.asked.append(name)
            told = (self.boards[0] if handle is None else handle).get(_key(name, arguments), {"error": "Not Supported"})
            if isinstance(told, dict) and "error" in told:
                raise NvmlError(told["error"])
            return _as_nvml(told)

        return answer

    def load(self, name: str) -> Nvml:
        assert name == "pynvml"
        return self


def _key(name: str, arguments: tuple[int, ...]) -> str:
    if name in _WITH_ARGUMENT:
        return _WITH_ARGUMENT[name].get(arguments[0], "none")
    return f"{name}:{arguments[0]}" if arguments else name


def _as_nvml(told: Any) -> Any:
    if isinstance(told, dict):
        return SimpleNamespace(**told)
    return [_as_nvml(one) for one in told] if isinstance(told, list) else told


def failing_init(text: str) -> Callable[[str], SimpleNamespace]:
    """A pynvml whose begin fails in this way."""

    def init() -> None:
        raise NvmlError(text)

    return lambda name: SimpleNamespace(nvmlInit=init)


def not_installed(name: str) -> Any:
    raise ImportError(f"No module named {name!r}")


def programs(told: Mapping[tuple[str, ...], str]) -> Callable[[Sequence[str]], str]:
    """A machine on which these commands, told by their first words, write these texts, and no other is installed."""

    def run(command: Sequence[str]) -> str:
        for words, text in told.items():
            if tuple(command[: len(words)]) == words:
                return text
        raise LayerUnavailableError(f"{command[0]} is not installed")

    return run


def nvidia_smi(name: str, capability: str | None) -> Callable[[Sequence[str]], str]:
    """An nvidia-smi that writes this recording."""
    told = {("nvidia-smi", "-q", "-x"): xml(name)}
    if capability:
        told[("nvidia-smi", "--query-gpu=index,compute_cap")] = f"0, {capability}\n"
    return programs(told)
