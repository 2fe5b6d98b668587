"""Blocks: long enough for the clock, as many as the time allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.hardware.bench.timing import (
    BLOCK_S,
    ENOUGH_BLOCKS,
    FEWEST_BLOCKS,
    OVERTIME,
    WallTimer,
    blocks,
    calibrate,
)


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
    timer = WallTimer(wait=lambda: story.append("wait"), clock=lambda: story.append("clock") or next(times))
    assert timer.timed(lambda: story.append("call"))(2) == pytest.approx(5.0)
    assert story == ["wait", "clock", "call", "call", "wait", "clock"]
