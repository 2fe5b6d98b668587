"""Why a GPU of NVIDIA holds its clocks down: NVML's bits and the names in nvidia-smi, in the same plain words."""

from __future__ import annotations

from collections.abc import Mapping

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
    """The reasons in NVML's bits; a bit without a known meaning is told by its number."""
    told = [word for bit, _, word in _REASONS if bits & bit]
    rest = bits & ~_HARMLESS & ~sum(bit for bit, _, _ in _REASONS)
    return (*told, f"unknown reason {rest:#x}") if rest else tuple(told)


def reasons_of_names(active: Mapping[str, str]) -> tuple[str, ...] | None:
    """The reasons in nvidia-smi's words (`hw_slowdown` → `Active`), None where it tells of none of them."""
    if not any(state in ("Active", "Not Active") for state in active.values()):
        return None
    return tuple(word for _, name, word in _REASONS if active.get(name) == "Active")
