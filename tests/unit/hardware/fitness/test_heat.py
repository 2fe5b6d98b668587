"""Temperatures and their limits, read from recorded machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.hardware.fitness.conftest import laptop

from assay.hardware.fitness.sensors import heat

ZONE = "sys/class/thermal/thermal_zone0"
CHIP = "sys/class/hwmon/hwmon0"


def zone(celsius: float, **trips: float) -> dict[str, str]:
    files = {f"{ZONE}/type": "cpu-thermal", f"{ZONE}/temp": f"{celsius * 1e3:.0f}"}
    for place, (kind, limit) in enumerate(trips.items()):
        files[f"{ZONE}/trip_point_{place}_type"] = kind
        files[f"{ZONE}/trip_point_{place}_temp"] = f"{limit * 1e3:.0f}"
    return files


def test_the_sensor_nearest_to_its_limit_counts_not_the_hottest_zone(tree):
    facts, absent = heat(tree(laptop()))
    assert facts["sensors"] == 3
    assert facts["hottest"]["celsius"] == 61.0
    assert facts["nearest"] == {
        "sensor": "coretemp Package id 0",
        "celsius": 61.0,
        "limit_c": 100.0,
        "limit": "critical",
        "headroom_c": 39.0,
    }
    assert not absent


def test_a_zone_near_critical(tree):
    facts, _ = heat(tree(zone(98.5, active=60, critical=100)))
    assert facts["nearest"]["headroom_c"] == 1.5
    assert facts["nearest"]["limit"] == "critical"


def test_the_lowest_limit_that_slows_down_counts(tree):
    facts, _ = heat(tree(zone(70, active=50, passive=80, hot=95, critical=110)))
    assert (facts["nearest"]["limit"], facts["nearest"]["headroom_c"]) == ("passive", 10.0)


def test_k10temp_tells_no_limit_and_none_is_made_up(tree):
    files = {f"{CHIP}/name": "k10temp", f"{CHIP}/temp1_input": "54125", f"{CHIP}/temp1_label": "Tctl"}
    facts, absent = heat(tree(files | {f"{CHIP}/temp1_max": "70000"}))
    assert facts["hottest"] == {"sensor": "k10temp Tctl", "celsius": 54.125}
    assert "nearest" not in facts
    assert "slows down" in absent["thermal headroom"]


@pytest.mark.parametrize("celsius", ["-274000", "65261850", "", "warm"])
def test_what_is_no_temperature_is_no_sensor(tree, celsius):
    facts, absent = heat(tree({f"{CHIP}/name": "nvme", f"{CHIP}/temp1_input": celsius}))
    assert facts == {}
    assert absent["temperature"]


@pytest.mark.parametrize("limit", ["0", "-5000", "65261850"])
def test_fillers_are_no_limits(tree, limit):
    facts, _ = heat(tree({f"{CHIP}/name": "nvme", f"{CHIP}/temp1_input": "40000", f"{CHIP}/temp1_crit": limit}))
    assert "nearest" not in facts


def test_a_zone_that_is_off_is_left_out(tree):
    facts, _ = heat(tree(zone(98, critical=100) | {f"{ZONE}/mode": "disabled"}))
    assert facts == {}


def test_this_machine_is_read_or_says_why_not():
    facts, absent = heat(Path("/"))
    assert bool(facts) != ("temperature" in absent)
