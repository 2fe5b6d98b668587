"""Every condition says why it matters and what would help; nothing that ends another's work is ever proposed."""

from __future__ import annotations

import re

import pytest

from assay.analyse.checks.table import CONDITIONS
from assay.hardware.fitness.remedies import WHY, remedies

CROWDED = {
    "processor": {"turbo": "on", "turbo_switch": "/sys/devices/system/cpu/intel_pstate/no_turbo"},
    "memory": {"swap_used_bytes": 10**9},
    "clock": {"source": "hpet", "available": ["hpet", "tsc", "acpi_pm"]},
    "gpus": [
        {"index": 0, "headroom_c": 2.0, "throttle": ["power cap"], "foreign": [{"pid": 12, "name": "python"}]},
        {"index": 1, "headroom_c": 40.0, "throttle": [], "foreign": []},
    ],
}


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("state", [{}, CROWDED], ids=["nothing known", "crowded"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_has_a_reason_and_a_remedy(name, state, system):
    assert WHY[name]
    found = remedies(name, state, ["make (pid 7, 90 % of a core)"], system)
    assert found
    assert all(line and "\n" not in line for line in found)
    assert not any(re.search(r"\bp?kill", line) for line in found)


def test_no_reason_without_a_condition():
    assert set(WHY) == set(CONDITIONS)


def test_who_is_busy_is_named():
    assert "make (pid 7)" in remedies("machine quiet", {}, ["make (pid 7)"])[0]


@pytest.mark.parametrize(
    ("switch", "command"),
    [
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "echo 1 | sudo tee"),
        ("/sys/devices/system/cpu/cpufreq/boost", "echo 0 | sudo tee"),
    ],
)
def test_the_switch_of_turbo_is_the_one_that_is_there(switch, command):
    assert remedies("turbo off or steady", {"processor": {"turbo_switch": switch}})[0] == f"{command} {switch}"


def test_a_better_clock_is_proposed_only_where_there_is_one():
    there = remedies("clock source steady", CROWDED)
    assert any(line.startswith("echo tsc | sudo tee") for line in there)
    assert not any("tee" in line for line in remedies("clock source steady", {"clock": {"available": ["hpet"]}}))


def test_a_free_gpu_is_proposed():
    assert any("cuda:1" in line for line in remedies("no foreign process on the device", CROWDED))


def test_swap_is_emptied_only_where_it_is_used():
    assert any("swapoff" in line for line in remedies("memory free", CROWDED, system="linux"))
    assert not any("swapoff" in line for line in remedies("memory free", {}, system="linux"))
