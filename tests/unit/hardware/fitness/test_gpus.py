"""The state of boards that are played back: heat, throttling, and processes of others."""

from __future__ import annotations

import os

import pytest

from assay.hardware.fitness.gpus import gpus, named


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


def test_throttling_is_told_in_words(boards):
    (state,), _ = gpus("cuda", boards({"throttle_bits": 4.0 + 32.0, "temperature_c": 86.0}), own=set)
    assert state["throttle"] == ["power cap", "thermal, by software"]
    assert state["headroom_c"] == 1.0


def test_a_margin_that_the_board_tells_itself_wins(boards):
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


def test_a_number_that_no_board_has_is_told(boards):
    found, absent = gpus("cuda:4", boards({}, {}), environment={}, own=set)
    assert found == []
    assert "there are 2" in absent["gpu:4"]


def test_no_driver_no_boards(boards):
    assert gpus("cuda", boards(absent="NVML is not there")) == ([], {"gpu": "NVML is not there"})


def test_a_container_names_no_process_of_its_host():
    assert named(os.getpid(), lambda: "pid:[4026532999]") == {}
    assert named(os.getpid(), lambda: "")["name"]
    assert named(2**22 + 7, lambda: "") == {}
