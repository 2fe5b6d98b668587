"""Recorded machines: trees of small files below a folder, and boards that play readings back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CPU = "sys/devices/system/cpu"


@pytest.fixture
def tree(tmp_path) -> Callable[[Mapping[str, str]], Path]:
    """Write files below a root of their own."""

    def _tree(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        (tmp_path / "root").mkdir(exist_ok=True)
        return tmp_path / "root"

    return _tree


def laptop(governor: str = "powersave", no_turbo: str = "0", cores: int = 4) -> dict[str, str]:
    """A laptop of Intel's, with intel_pstate, coretemp and the thermal zone of its package."""
    files = {f"{CPU}/intel_pstate/no_turbo": no_turbo}
    for core in range(cores):
        policy = f"{CPU}/cpufreq/policy{core}"
        files |= {
            f"{policy}/affected_cpus": str(core),
            f"{policy}/scaling_governor": governor,
            f"{policy}/scaling_driver": "intel_pstate",
            f"{policy}/energy_performance_preference": "balance_performance",
            f"{policy}/scaling_min_freq": "400000",
            f"{policy}/scaling_max_freq": "4700000",
            f"{CPU}/cpu{core}/thermal_throttle/core_throttle_count": "3",
        }
    return files | {
        "sys/class/thermal/thermal_zone0/type": "acpitz",
        "sys/class/thermal/thermal_zone0/temp": "27800",
        "sys/class/thermal/thermal_zone0/trip_point_0_type": "critical",
        "sys/class/thermal/thermal_zone0/trip_point_0_temp": "119000",
        "sys/class/thermal/thermal_zone1/type": "x86_pkg_temp",
        "sys/class/thermal/thermal_zone1/temp": "61000",
        "sys/class/thermal/thermal_zone1/trip_point_0_type": "passive",
        "sys/class/thermal/thermal_zone1/trip_point_0_temp": "0",
        "sys/class/hwmon/hwmon3/name": "coretemp",
        "sys/class/hwmon/hwmon3/temp1_input": "61000",
        "sys/class/hwmon/hwmon3/temp1_label": "Package id 0",
        "sys/class/hwmon/hwmon3/temp1_max": "80000",
        "sys/class/hwmon/hwmon3/temp1_crit": "100000",
    }


@dataclass
class Played:
    """Boards that say what was recorded of them."""

    readings: list[dict[str, float]]
    on_board: dict[int, list[tuple[int, int | None]]] = field(default_factory=dict)
    board_limits: dict[str, Any] = field(default_factory=lambda: {"slowdown_c": 87.0, "power_limit_w": 700.0})
    absent: str = ""
    lost: dict[int, str] = field(default_factory=dict)
    falls_off: frozenset[int] = frozenset()
    names: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.readings)

    @property
    def facts(self) -> list[dict[str, Any]]:
        names = self.names or ("NVIDIA H200",) * len(self.readings)
        return [{"index": n, "name": name, "uuid": f"GPU-00{n}-aa", "driver": "1"} for n, name in enumerate(names)]

    def read(self, index: int) -> dict[str, float]:
        if index in self.falls_off:
            raise RuntimeError("GPU is lost")
        return self.readings[index]

    def throttle_reasons(self, bits: int) -> tuple[str, ...]:
        return tuple(word for bit, word in ((4, "power cap"), (32, "thermal, by software")) if bits & bit)

    def processes(self, index: int) -> list[tuple[int, int | None]]:
        return self.on_board.get(index, [])

    def limits(self, index: int) -> dict[str, Any]:
        return self.board_limits


IDLE = {
    "gpu_util_pct": 0.0, "gpu_mem_bytes": 6e8, "power_w": 74.1, "sm_mhz": 345.0, "mem_mhz": 3201.0,
    "temperature_c": 36.0, "energy_j": 1.2e6, "throttle_bits": 1.0,
}  # fmt: skip


@pytest.fixture
def boards() -> Callable[..., Played]:
    """Boards at rest, as an H200 tells it, with any part replaced."""

    def _boards(*changes: dict[str, float], **parts: Any) -> Played:
        return Played([{**IDLE, **one} for one in changes or ({},)], **parts)

    return _boards
