"""Blocks, bare loops and whole sweeps, on simulated devices whose speed is known."""

from __future__ import annotations

import math
import random
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.hardware.bench.outcome import absent_result, gemm_result, memory_result, too_long
from assay.hardware.bench.records import GB, TERA, Accuracy, SizePoint
from assay.hardware.bench.sweep import (
    BLOCK_S,
    ENOUGH_BLOCKS,
    FEWEST_BLOCKS,
    FEWEST_PAIRS,
    OVERTIME,
    PreparedTest,
    blocks,
    by_wall,
    calibrate,
    is_memory,
    median_rank,
    reason_of,
    sweep,
    versus,
)

pytestmark = pytest.mark.simulated
MIB = 2**20


class Simulated:
    """A device with a latency of each call and a speed; some sizes fail."""

    def __init__(self, per_s, call_s=0.0, work=lambda size: 2.0 * size, fails=None, errors=None):
        self.per_s, self.call_s, self.work = per_s, call_s, work
        self.fails, self.errors = fails or {}, errors or {}
        self.open: list[int] = []
        self.closed: list[int] = []

    @contextmanager
    def __call__(self, size):
        if size in self.fails:
            raise self.fails[size]
        self.open.append(size)
        speed = self.per_s(size) if callable(self.per_s) else self.per_s
        took = self.call_s + self.work(size) / speed
        try:
            check = (lambda: Accuracy(self.errors[size], 1e-3)) if size in self.errors else None
            yield PreparedTest(lambda calls: calls * took, self.work(size), check)
        finally:
            self.closed.append(size)


def test_a_known_speed_is_reported_exactly():
    device = Simulated(250 * GB)
    found = sweep((64 * MIB, 256 * MIB), device, each_s=0.5, unit=GB)
    assert [point.value for point in found.points] == pytest.approx([250.0, 250.0])
    assert all(point.spread < 1e-9 for point in found.points)
    assert found.points[1].call_s == pytest.approx(2 * 256 * MIB / (250 * GB))
    assert device.closed == device.open == [64 * MIB, 256 * MIB]


def test_a_known_speed_of_products_is_reported_exactly_with_the_cost_of_a_launch():
    device = Simulated(900 * TERA, call_s=5e-6, work=lambda n: 2.0 * n**3)
    found = sweep((512, 4096, 16384), device, each_s=0.5, unit=TERA)
    expected = [2 * n**3 / (5e-6 + 2 * n**3 / (900 * TERA)) / TERA for n in (512, 4096, 16384)]
    assert [point.value for point in found.points] == pytest.approx(expected)
    best = gemm_result("bf16", found, 0, {}).reported
    assert best.size == 16384
    assert best.value == pytest.approx(expected[-1])


def test_the_plateau_of_a_known_curve_is_reported():
    cache = 32 * MIB
    device = Simulated(lambda size: (800 if size <= cache else 200) * GB)
    found = sweep((MIB, 16 * MIB, 4 * cache, 8 * cache, 16 * cache), device, each_s=0.1, unit=GB)
    result = memory_result("copy", found, cache, 0, {"counted": "2"})
    assert result.metric == "copy_gb_per_s"
    assert result.reported.value == pytest.approx(200)
    facts = result.facts()
    assert facts["best"] == {"bytes": MIB, "value": pytest.approx(800)}
    assert facts["plateau"]["bytes"] == [4 * cache, 8 * cache, 16 * cache]
    assert [row["bytes"] for row in facts["curve"]] == [MIB, 16 * MIB, 4 * cache, 8 * cache, 16 * cache]
    assert facts["how"] == {"cache_bytes": cache, "counted": "2"}


def test_memory_that_runs_out_at_one_size_leaves_that_size_out_alone():
    freed = []
    device = Simulated(GB, fails={2048: RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore")})
    found = sweep((1024, 2048, 4096), device, each_s=0.1, unit=GB, after_trouble=lambda: freed.append(1) or "")
    assert [point.size for point in found.points] == [1024, 4096]
    assert found.left_out == {"2048": "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB"}
    assert (found.lost, freed) == ("", [1])


def test_a_lost_device_ends_the_sweep_and_keeps_what_was_measured():
    device = Simulated(GB, fails={2048: RuntimeError("CUDA error: unspecified launch failure")})
    found = sweep((1024, 2048, 4096), device, each_s=0.1, unit=GB, after_trouble=lambda: "it does not answer")
    assert [point.size for point in found.points] == [1024]
    assert found.lost == "it does not answer"
    assert device.open == [1024]
    # A product keeps its best shape so far; bandwidth, which has no size beyond the cache then, has none.
    assert gemm_result("fp32", found, 0, {}).reported.size == 1024
    assert memory_result("copy", found, 32 * MIB, 0, {}).reported is None


def test_a_wrong_result_makes_the_metric_absent_with_its_figure():
    device = Simulated(TERA, errors={512: 1e-5, 1024: 0.25})
    result = gemm_result("fp32", sweep((512, 1024), device, each_s=0.1, unit=TERA), 0, {})
    assert result.reported is None
    assert "0.25" in result.absent
    assert "0.001" in result.absent
    assert len(result.facts()["curve"]) == 2
    assert result.facts()["check"] == {"largest_error": 0.25, "tolerance": 1e-3, "sizes": 2}


def test_a_result_that_is_no_number_is_wrong():
    assert Accuracy(float("nan"), 1.0).wrong
    assert Accuracy(float("inf"), 1.0).wrong
    assert not Accuracy(0.0, 0.0).wrong
    assert "higher precision" in Accuracy(1e-7, 1e-2, at_least=3e-5).wrong


def test_shapes_that_would_take_too_long_are_left_out_with_the_estimate():
    device = Simulated(0.05 * TERA, work=lambda n: 2.0 * n**3)
    found = sweep((512, 1024, 2048, 4096), device, each_s=0.5, unit=TERA, skip=too_long(0.5))
    assert [point.size for point in found.points] == [512, 1024, 2048]  # 0.34 s
    assert found.left_out["4096"] == "one product would take about 2.7 s, and a shape is given 500 ms"


def test_an_absent_test_has_its_metric_and_reason():
    one = absent_result("int8", "no such unit")
    assert (one.metric, one.absent, one.facts()["absent"]) == ("int8_tops", "no such unit", "no such unit")
    assert absent_result("to_device_pinned", "x").metric == "to_device_pinned_gb_per_s"
    assert absent_result("scaling", "x").metric == "core_scaling"
    assert absent_result("storage", "x").metric == "storage_read_gb_per_s"


def test_every_metric_of_a_test_is_a_known_one():
    from assay.hardware.bench.outcome import TRANSFERS, metric_of
    from assay.metrics import METRICS

    names = (
        "copy",
        "copy_one",
        "read",
        "write",
        "triad",
        "triad_one",
        "fp64",
        "fp32",
        "tf32",
        "fp16",
        "bf16",
        "int8",
        "fp8",
        "scaling",
        "storage",
        *TRANSFERS,
    )
    assert {metric_of(name) for name in names} <= METRICS.keys()


@pytest.mark.parametrize(
    ("problem", "memory"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED"), False),
        (ValueError("n must be divisible by 8"), False),
    ],
)
def test_memory_that_ran_out_is_known_by_what_libraries_say(problem, memory):
    assert is_memory(problem) is memory
    assert reason_of(problem).startswith("out of memory") is memory


def test_a_point_is_the_median_of_its_blocks():
    point = SizePoint(1, (1.0, 9.0, 2.0, 3.0), (0, 1, 2, 3), 1.0)
    assert point.value == 2.5
    assert point.spread == pytest.approx(8 / 2.5)
    assert point.facts("n") == {"n": 1, "value": 2.5, "blocks": 4, "spread": pytest.approx(3.2)}


def steady(call_s: float, first_s: float | None = None):
    """A device on which every call takes the same time; the first one, longer."""
    seen: list[int] = []

    def timed(calls: int) -> float:
        seen.append(calls)
        extra = first_s if first_s is not None and len(seen) == 1 else 0.0
        return calls * call_s + extra

    return timed, seen


@given(st.floats(1e-7, 10.0))
def test_a_block_is_long_enough_and_not_much_longer(call_s):
    timed, _ = steady(call_s)
    calls = calibrate(timed)
    assert calls * call_s >= BLOCK_S or calls == 1_000_000
    assert calls == 1 or (calls - 1) * call_s <= 1.3 * BLOCK_S  # the last call may reach over it


def test_a_slow_first_call_does_not_make_blocks_short():
    timed, _ = steady(1e-5, first_s=3.0)
    assert calibrate(timed) * 1e-5 >= BLOCK_S


def test_a_clock_that_shows_nothing_ends_too():
    assert calibrate(lambda _calls: 0.0) == 1_000_000


@given(st.floats(1e-6, 3.0), st.floats(0.01, 2.0))
def test_blocks_fill_their_time_and_are_enough(call_s, each_s):
    timed, _ = steady(call_s)
    found = blocks(timed, each_s)
    total, count = sum(found.seconds), len(found.seconds)
    assert count >= FEWEST_BLOCKS
    assert total >= each_s
    assert count >= ENOUGH_BLOCKS or total >= OVERTIME * each_s
    # Without its last block it would not have been enough.
    less, fewer = total - found.seconds[-1], count - 1
    assert not (less >= each_s and fewer >= ENOUGH_BLOCKS)
    assert not (less >= OVERTIME * each_s and fewer >= FEWEST_BLOCKS)


def test_blocks_remember_when_they_began():
    at = iter(range(1000, 100_000, 7))
    found = blocks(lambda calls: calls * 0.05, 0.2, clock=lambda: next(at))
    assert found.at_ns[:3] == (1000, 1007, 1014)
    assert len(found.at_ns) == len(found.seconds)


def test_the_wall_timer_waits_for_the_device_at_both_ends():
    story: list[str] = []
    times = iter([100, 5_000_000_100])
    timed = by_wall(
        lambda: story.append("call"),
        wait=lambda: story.append("wait"),
        clock=lambda: story.append("clock") or next(times),
    )
    assert timed(2) == pytest.approx(5.0)
    assert story == ["wait", "clock", "call", "call", "wait", "clock"]


def test_a_known_share_is_found_exactly():
    found = versus(lambda calls: calls * 1.04e-3, lambda calls: calls * 1e-3, 0.5)
    assert found.ratio == pytest.approx(1 / 1.04)
    assert (found.low, found.high) == pytest.approx((1 / 1.04, 1 / 1.04))
    facts = found.facts(2e9, 1e12)
    assert facts["bare"] == pytest.approx(2.0)
    assert facts["ours"] == pytest.approx(2.0 / 1.04)
    assert facts["level"] == pytest.approx(0.95)


def test_a_machine_that_slows_down_hits_both_alike():
    clock = [0.0]

    def drifting(call_s):
        def timed(calls):
            took = calls * call_s * (1 + clock[0] / 2)
            clock[0] += took
            return took

        return timed

    found = versus(drifting(1e-3), drifting(1e-3), 0.5)
    assert found.low <= 1 <= found.high
    assert found.ratio == pytest.approx(1, abs=0.02)


def test_slow_blocks_still_give_enough_pairs():
    found = versus(lambda calls: calls * 5.0, lambda calls: calls * 5.0, 0.1)
    assert found.pairs == FEWEST_PAIRS


@pytest.mark.parametrize("n", [1, 5, 6, 9, 20, 101])
def test_the_rank_is_the_largest_that_keeps_the_promise(n):
    rank = median_rank(n)
    below = sum(math.comb(n, k) for k in range(rank + 1)) / 2**n
    more = sum(math.comb(n, k) for k in range(rank + 2)) / 2**n
    assert below <= 0.025 or rank == 0  # few pairs promise less, and all of them are used then
    assert more > 0.025


def test_the_interval_holds_the_truth_as_often_as_it_promises():
    draw = random.Random(1)
    held = 0
    for _ in range(400):
        noisy = [lambda calls: calls * 1e-2 * math.exp(draw.gauss(0, 0.1)) for _ in range(2)]
        found = versus(noisy[0], noisy[1], 0.1)
        held += found.low <= 1 <= found.high
    assert held >= 0.92 * 400
