"""GPUs under the names of NVIDIA's DCGM exporter, read by NVML, so that the same dashboards show both."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from assay.monitoring.exporter.text import Family

if TYPE_CHECKING:
    from assay.hardware.gpu.nvml import GpuReader

_MIB = 2**20
# Reading of ours → DCGM's name, its kind, how our unit becomes DCGM's, its meaning.
_NAMES: dict[str, tuple[str, str, Callable[[float], float], str]] = {
    "gpu_util_pct": ("DCGM_FI_DEV_GPU_UTIL", "gauge", float, "GPU utilization (in %)."),
    "gpu_mem_bytes": ("DCGM_FI_DEV_FB_USED", "gauge", lambda told: told // _MIB,
                      "Framebuffer memory used (in MiB); NVML counts what the driver holds back as used."),
    "power_w": ("DCGM_FI_DEV_POWER_USAGE", "gauge", float, "Power draw (in W)."),
    "sm_mhz": ("DCGM_FI_DEV_SM_CLOCK", "gauge", float, "SM clock frequency (in MHz)."),
    "mem_mhz": ("DCGM_FI_DEV_MEM_CLOCK", "gauge", float, "Memory clock frequency (in MHz)."),
    "temperature_c": ("DCGM_FI_DEV_GPU_TEMP", "gauge", float, "GPU temperature (in C)."),
    "energy_j": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", lambda told: round(told * 1e3),
                 "Total energy consumption since boot (in mJ)."),
    "throttle_bits": ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", float, "Bits: why clocks are held down."),
}  # fmt: skip


def nvml_reader() -> GpuReader:
    """What reads the GPUs of this machine."""
    from assay.hardware.gpu.nvml import GpuReader

    return GpuReader()


class Gpus:
    """All GPUs of the machine, read when they are asked for."""

    def __init__(self, make: Callable[[], GpuReader] = nvml_reader) -> None:
        self._reader = make()
        self._lock = threading.Lock()  # two scrapes at once must not share one NVML call

    def families(self) -> list[Family]:
        """What they tell now; a GPU that is lost tells nothing."""
        rows: dict[str, list[tuple[dict[str, str], float]]] = {}
        with self._lock:
            for index in range(self._reader.count):
                labels = _labels(self._reader.facts[index], index)
                told: dict[str, float] = {}
                with suppress(Exception):  # one that was lost this moment; NVML has its own errors
                    told = self._reader.read(index)
                for name, value in told.items():
                    if name in _NAMES:
                        rows.setdefault(name, []).append((labels, _NAMES[name][2](value)))
        found = [Family(_NAMES[name][0], _NAMES[name][1], _NAMES[name][3], tuple(row)) for name, row in rows.items()]
        return [*found, *self._total()]

    def _total(self) -> list[Family]:
        rows = [
            (_labels(facts, index), float(facts["memory_bytes"]) // _MIB)
            for index, facts in enumerate(self._reader.facts)
            if "memory_bytes" in facts
        ]
        return [Family("DCGM_FI_DEV_FB_TOTAL", "gauge", "Framebuffer memory in all (in MiB).", tuple(rows))]


def _labels(facts: dict[str, Any], index: int) -> dict[str, str]:
    told = {
        "gpu": str(index),
        "UUID": facts.get("uuid", ""),
        "device": f"nvidia{index}",
        "modelName": facts.get("name", ""),
        "Hostname": platform.node(),
        "DCGM_FI_DRIVER_VERSION": facts.get("driver", ""),
    }
    return {name: str(value) for name, value in told.items() if value}
