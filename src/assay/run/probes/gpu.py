"""GPUs of this machine through NVML: utilisation, memory and power of each, where the library is installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from assay.run.probes.series import Series


class Gpus:
    """All GPUs, or the reason why none can be read."""

    def __init__(self, load: Callable[[str], Any] = import_module) -> None:
        self.absent = ""
        self.facts: list[dict[str, str | int]] = []
        self.columns: list[dict[str, Series]] = []
        self._devices: list[Any] = []
        self._questions: dict[str, Callable[[Any], float]] = {
            "gpu_util_pct": lambda one: float(self._nvml.nvmlDeviceGetUtilizationRates(one).gpu),
            "gpu_mem_bytes": lambda one: float(self._nvml.nvmlDeviceGetMemoryInfo(one).used),
            "power_w": lambda one: float(self._nvml.nvmlDeviceGetPowerUsage(one)) / 1e3,
        }
        try:
            self._nvml = load("pynvml")
        except ImportError:
            self.absent = "pynvml is not installed (pip install nvidia-ml-py)"
            return
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self._devices = [self._nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
            self.facts = [self._describe(number, device) for number, device in enumerate(self._devices)]
        except Exception as failure:  # NVML has its own errors, and none may end a run
            self.absent = f"NVML does not answer: {failure}"
            self._devices = []
        if not self._devices and not self.absent:
            self.absent = "NVML sees no GPU"
        self.columns = [{name: Series(name, (), "gauge", name) for name in self._questions} for _ in self._devices]

    def read(self) -> None:
        """Take one reading of each GPU; what one of them does not tell is left out."""
        for device, columns in zip(self._devices, self.columns, strict=True):
            at_ns = time.perf_counter_ns()
            for name, ask in self._questions.items():
                try:
                    columns[name].add(at_ns, ask(device))
                except Exception:  # noqa: S112  (not every board tells everything)
                    continue

    def used_by(self, pids: set[int]) -> list[int]:
        """The GPUs on which one of these processes computes."""
        found = []
        for number, device in enumerate(self._devices):
            try:
                if any(one.pid in pids for one in self._nvml.nvmlDeviceGetComputeRunningProcesses(device)):
                    found.append(number)
            except Exception:  # noqa: S112
                continue
        return found

    def _describe(self, number: int, device: Any) -> dict[str, str | int]:  # noqa: ANN401  (NVML has no types)
        def text(value: object) -> str:
            return value.decode() if isinstance(value, bytes) else str(value)

        return {
            "index": number,
            "name": text(self._nvml.nvmlDeviceGetName(device)),
            "uuid": text(self._nvml.nvmlDeviceGetUUID(device)),
            "driver": text(self._nvml.nvmlSystemGetDriverVersion()),
            "memory_bytes": int(self._nvml.nvmlDeviceGetMemoryInfo(device).total),
        }
