"""Throttle reasons: bits and names say the same, and low clocks alone are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.hardware.gpu.nvml import reasons_of_bits, reasons_of_names

BITS = {"sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
        "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80}  # fmt: skip


@pytest.mark.parametrize("bits", [0, 0x1, 0x2, 0x100, 0x103])
def test_idle_and_clocks_set_by_a_user_are_no_throttling(bits):
    assert reasons_of_bits(bits) == ()


@given(st.sets(st.sampled_from(sorted(BITS))), st.sets(st.sampled_from([0x1, 0x2, 0x100])))
def test_bits_and_names_say_the_same(active, harmless):
    names = {name: "Active" if name in active else "Not Active" for name in BITS} | {"gpu_idle": "Active"}
    told = reasons_of_bits(sum(BITS[name] for name in active) + sum(harmless))
    assert told == reasons_of_names(names)
    assert len(told) == len(active)


def test_a_bit_without_a_known_meaning_is_told_by_its_number():
    assert reasons_of_bits(0x804) == ("power cap", "unknown reason 0x800")


def test_names_of_which_none_is_told():
    assert reasons_of_names({"hw_slowdown": "N/A", "gpu_idle": "N/A"}) is None
    assert reasons_of_names({}) is None
