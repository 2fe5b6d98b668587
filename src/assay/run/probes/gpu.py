"""GPUs of this machine as series: utilisation, memory and power of each, where NVML tells them."""

from __future__ import annotations

import time
from importlib import import_module

from assay.hardware.gpu.library import Load
from assay.hardware.gpu.readings import GpuLost, GpuReader
from assay.run.probes.series import Series

_NAMES = ("gpu_util_pct", "gpu_mem_bytes", "power_w")


class Gpus:
    """All GPUs, or the reason why none can be read."""

    def __init__(self, load: Load = import_module) -> None:
        self._reader = GpuReader(load, _NAMES)
        self.absent = self._reader.absent
        self.facts = self._reader.facts
        self.columns = [{name: Series(name, (), "gauge", name) for name in _NAMES} for _ in self.facts]

    def read(self) -> None:
        """Take one reading of each GPU; what one of them does not tell is left out."""
        for index, columns in enumerate(self.columns):
            at_ns = time.perf_counter_ns()
            try:
                told = self._reader.read(index)
            except GpuLost as lost:
                self.absent = "; ".join(filter(None, (self.absent, str(lost))))
                continue
            for name, value in told.items():
                columns[name].add(at_ns, value)

    def used_by(self, pids: set[int]) -> list[int]:
        """The GPUs on which one of these processes works."""
        return [
            index for index in range(self._reader.count) if any(pid in pids for pid, _ in self._reader.processes(index))
        ]
