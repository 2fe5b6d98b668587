"""Heat, memory, processor and GPUs, read from recorded machines."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from tests.unit.hardware.fitness.conftest import CPU, laptop

from assay.hardware.fitness.sensors import gpus, heat, memory, named, processor

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


def test_k10temp_reports_no_limit_and_none_is_made_up(tree):
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


def test_the_heat_of_this_machine_is_read_or_it_is_said_why_not():
    facts, absent = heat(Path("/"))
    assert bool(facts) != ("temperature" in absent)


GIB = 2**30
PI = {
    "proc/meminfo": "MemTotal:        8245000 kB\nMemFree:  500000 kB\nMemAvailable:    6184000 kB\n"
    "SwapTotal:       2097152 kB\nSwapFree:        1048576 kB\n",
    "proc/vmstat": "nr_free_pages 100\npswpin 120\npswpout 400\n",
}


def test_swap_in_use(tree):
    facts, absent = memory(tree(PI))
    assert facts["total_bytes"] == 8245000 * 1024
    assert facts["available_bytes"] == 6184000 * 1024
    assert facts["swap_used_bytes"] == GIB
    assert facts["swapped_pages"] == 520
    assert not absent


def test_a_container_has_the_memory_of_its_group(tree):
    group = {
        "sys/fs/cgroup/memory.max": str(2 * GIB),
        "sys/fs/cgroup/memory.current": str(2 * GIB - 100_000_000),
        "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 40000000\n",
    }
    facts, _ = memory(tree(PI | group))
    assert facts["limit_bytes"] == 2 * GIB
    assert facts["available_bytes"] == 140_000_000


def test_a_group_of_the_first_version(tree):
    group = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(GIB),
        "sys/fs/cgroup/memory/memory.usage_in_bytes": str(GIB // 2),
    }
    assert memory(tree(PI | group))[0]["available_bytes"] == GIB // 2


def test_a_group_without_a_limit_is_the_whole_machine(tree):
    group = {"sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/memory.current": "1"}
    facts, _ = memory(tree(PI | group))
    assert "limit_bytes" not in facts
    huge = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}
    assert "limit_bytes" not in memory(tree(PI | huge))[0]


def test_another_system_is_asked_by_its_library(tree):
    facts, _ = memory(tree({}), lambda: (16 * GIB, 4 * GIB, 0, 0))
    assert (facts["total_bytes"], facts["available_bytes"], facts["swap_used_bytes"]) == (16 * GIB, 4 * GIB, 0)
    assert "swapped_pages" not in facts


def test_no_memory_is_made_up_where_none_is_shown(tree):
    facts, absent = memory(tree({}))
    assert facts == {}
    assert absent["memory"]


def test_this_machine():
    facts, _ = memory(Path("/"))
    assert facts["total_bytes"] == psutil.virtual_memory().total
    assert 0 < facts["available_bytes"] <= facts["total_bytes"]


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


def test_a_fixed_clock_is_reported_only_where_all_cores_have_the_same(tree):
    one = {f"{CPU}/cpufreq/policy0/{name}": "2400000" for name in ("scaling_min_freq", "scaling_max_freq")}
    assert processor(tree(one))[0]["fixed_mhz"] == 2400
    two = {f"{CPU}/cpufreq/policy1/{name}": "1800000" for name in ("scaling_min_freq", "scaling_max_freq")}
    assert "fixed_mhz" not in processor(tree(one | two))[0]


@pytest.mark.parametrize(
    ("told", "reasons"),
    [("0", []), ("50000", []), ("50005", ["the supply voltage is low", "the clock is throttled"]), ("not hex", None)],
)
def test_the_firmware_of_a_small_board_reports_why_it_is_slow_now(tree, told, reasons):
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


def test_a_board_at_rest(boards):
    (state,), absent = gpus("cuda", boards(), own=set, describe=lambda _: {}, environment={})
    assert (state["index"], state["name"], state["temperature_c"]) == (0, "NVIDIA H200", 36.0)
    assert (state["slowdown_c"], state["headroom_c"]) == (87.0, 51.0)
    assert (state["throttle"], state["foreign"]) == ([], [])
    assert not absent


def test_processes_of_others_are_named_and_ours_are_not(boards):
    crowded = boards(on_board={0: [(4711, 3 * 2**30), (8, None), (os.getpid(), 1)]})
    (state,), _ = gpus("cuda:0", crowded, describe=lambda pid: {"name": f"train-{pid}", "user": "alice"})
    assert state["foreign"] == [
        {"pid": 4711, "name": "train-4711", "user": "alice", "memory_bytes": 3 * 2**30},
        {"pid": 8, "name": "train-8", "user": "alice"},
    ]


def test_our_own_children_are_no_strangers(boards):
    import subprocess
    import sys

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (state,), _ = gpus("cuda", boards(on_board={0: [(child.pid, 1), (2**22 + 7, 1)]}))
        assert [one["pid"] for one in state["foreign"]] == [2**22 + 7]
    finally:
        child.stdin.close()
        child.wait()


def test_throttling_is_reported_in_words(boards):
    (state,), _ = gpus("cuda", boards({"throttle_bits": 4.0 + 32.0, "temperature_c": 86.0}), own=set)
    assert state["throttle"] == ["power cap", "thermal, by software"]
    assert state["headroom_c"] == 1.0


def test_a_margin_that_the_board_reports_itself_wins(boards):
    (state,), _ = gpus("cuda", boards(board_limits={"margin_c": 52}), own=set)
    assert state["headroom_c"] == 52.0


def test_without_a_limit_there_is_no_headroom(boards):
    (state,), _ = gpus("cuda", boards(board_limits={}), own=set)
    assert "headroom_c" not in state
    assert "slowdown_c" not in state


@pytest.mark.parametrize(
    ("device", "visible", "index"),
    [("cuda", None, 0), ("cuda:1", None, 1), ("cuda:0", "1,0", 1), ("tensorrt:1", "1,0", 0), ("cuda", "GPU-001", 1)],
)
def test_the_board_that_cuda_means(boards, device, visible, index):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    (state,), _ = gpus(device, boards({}, {}), environment=environment, own=set)
    assert state["index"] == index


@pytest.mark.parametrize("visible", ["", "GPU-00", "MIG-7", "x"])
def test_a_board_that_the_environment_hides_is_not_guessed(boards, visible):
    found, absent = gpus("cuda", boards({}, {}), environment={"CUDA_VISIBLE_DEVICES": visible}, own=set)
    assert found == []
    assert f"CUDA_VISIBLE_DEVICES={visible}" in absent["gpu"]


def test_among_boards_that_differ_a_number_means_one_only_along_the_bus(boards):
    mixed = boards({}, {}, names=("NVIDIA A100", "NVIDIA H200"))
    assert gpus("cuda:0", mixed, environment={}, own=set)[0] == []
    (state,), _ = gpus("cuda:1", mixed, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, own=set)
    assert state["name"] == "NVIDIA H200"


def test_all_boards_are_read_for_a_target_that_decides_by_itself_and_lost_ones_are_named(boards):
    reader = boards({}, {}, {}, falls_off=frozenset({1}), lost={2: "it fell off the bus"})
    found, absent = gpus(None, reader, own=set)
    assert [one["index"] for one in found] == [0]
    assert "GPU is lost" in absent["gpu:1"]
    assert "it fell off the bus" in absent["gpu:2"]


def test_a_number_that_no_board_has_is_reported(boards):
    found, absent = gpus("cuda:4", boards({}, {}), environment={}, own=set)
    assert found == []
    assert "there are 2" in absent["gpu:4"]


def test_no_driver_no_boards(boards):
    assert gpus("cuda", boards(absent="NVML is not there")) == ([], {"gpu": "NVML is not there"})


def test_a_container_names_no_process_of_its_host():
    assert named(os.getpid(), lambda: "pid:[4026532999]") == {}
    assert named(os.getpid(), lambda: "")["name"]
    assert named(2**22 + 7, lambda: "") == {}
