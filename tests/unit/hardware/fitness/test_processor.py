"""How the clock is set, read from recorded machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.hardware.fitness.conftest import CPU, laptop

from assay.hardware.fitness.sensors import processor


def test_a_laptop_that_saves_power(tree):
    facts, absent = processor(tree(laptop()))
    assert facts["governors"] == {"powersave": 4}
    assert facts["preferences"] == {"balance_performance": 4}
    assert (facts["driver"], facts["turbo"]) == ("intel_pstate", "on")
    assert facts["turbo_switch"] == "/sys/devices/system/cpu/intel_pstate/no_turbo"
    assert facts["throttle_events"] == 12
    assert "fixed_mhz" not in facts
    assert not absent


@pytest.mark.parametrize(
    ("switch", "value", "turbo"),
    [
        ("intel_pstate/no_turbo", "1", "off"),
        ("intel_pstate/no_turbo", "0", "on"),
        ("cpufreq/boost", "0", "off"),
        ("cpufreq/boost", "1", "on"),
        ("cpufreq/policy0/boost", "1", "on"),
        ("cpufreq/policy0/boost", "0", "off"),
    ],
)
def test_the_switches_of_turbo(tree, switch, value, turbo):
    facts, _ = processor(tree({f"{CPU}/{switch}": value}))
    assert facts["turbo"] == turbo


def test_a_cluster_of_cores_counts_each_core(tree):
    policy = f"{CPU}/cpufreq/policy0"
    facts, _ = processor(tree({f"{policy}/affected_cpus": "0 1 2 3", f"{policy}/scaling_governor": "ondemand"}))
    assert facts["governors"] == {"ondemand": 4}


def test_a_fixed_clock_is_told_only_where_all_cores_have_the_same(tree):
    one = {f"{CPU}/cpufreq/policy0/{name}": "2400000" for name in ("scaling_min_freq", "scaling_max_freq")}
    assert processor(tree(one))[0]["fixed_mhz"] == 2400
    two = {f"{CPU}/cpufreq/policy1/{name}": "1800000" for name in ("scaling_min_freq", "scaling_max_freq")}
    assert "fixed_mhz" not in processor(tree(one | two))[0]


@pytest.mark.parametrize(
    ("told", "reasons"),
    [("0", []), ("50000", []), ("50005", ["the supply voltage is low", "the clock is throttled"]), ("not hex", None)],
)
def test_the_firmware_of_a_small_board_tells_why_it_is_slow_now(tree, told, reasons):
    facts, _ = processor(tree({"sys/devices/platform/soc/soc:firmware/get_throttled": told}))
    assert facts.get("held_down") == reasons


def test_nothing_is_made_up_where_nothing_is_shown(tree):
    facts, absent = processor(tree({}))
    assert facts == {}
    assert set(absent) == {"governor", "turbo", "throttle events"}
    assert all(absent.values())


def test_rubbish_in_the_files_is_no_reading(tree):
    files = {f"{CPU}/intel_pstate/no_turbo": "maybe", f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "many"}
    assert processor(tree(files))[0] == {}


def test_this_machine_is_read_or_says_why_not():
    facts, absent = processor(Path("/"))
    assert ("governors" in facts) != ("governor" in absent)
    assert ("turbo" in facts) != ("turbo" in absent)
