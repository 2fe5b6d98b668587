"""The loop: moments in order, sockets, and a world that stops."""

from __future__ import annotations

import os
from time import perf_counter_ns

import pytest

from assay.sim.wire.loop import READ, Loop, SelectorPoll, find_alarm


class EndedError(Exception):
    pass


def end():
    raise EndedError


@pytest.fixture(params=["the system's", "a selector"])
def loop(request):
    return Loop() if request.param == "the system's" else Loop(SelectorPoll())


def test_moments_come_in_order_and_not_too_early(loop):
    seen = []
    now = loop.now()
    for wait_ms in (9, 3, 6, 3):
        loop.at(now + wait_ms * 1_000_000, lambda due=now + wait_ms * 1_000_000: seen.append((due, loop.now())))
    loop.at(now + 10_000_000, end)
    with pytest.raises(EndedError):
        loop.run()
    assert [due for due, _ in seen] == sorted(due for due, _ in seen)
    assert all(at >= due for due, at in seen)


def test_a_pipe_wakes_it(loop):
    read, write = os.pipe()
    said = []

    def on_read(mask):
        said.append(os.read(read, 10))
        raise EndedError

    loop.watch(read, READ, on_read)
    loop.at(loop.now() + 1_000_000, lambda: os.write(write, b"hello"))
    with pytest.raises(EndedError):
        loop.run()
    assert said == [b"hello"]
    loop.forget(read)
    loop.forget(read)  # a second time does nothing
    os.close(read)
    os.close(write)


def test_what_waits_while_the_world_is_stopped_waits_longer(loop):
    begin = perf_counter_ns()
    now = loop.now()
    ends = []
    loop.at(now + 5_000_000, lambda: ends.append(loop.stop_the_world(0.05)))
    loop.at(now + 10_000_000, end)
    with pytest.raises(EndedError):
        loop.run()
    assert perf_counter_ns() - begin >= 60_000_000
    assert ends[0][1] - ends[0][0] >= 50_000_000


def test_something_due_now_that_is_requested_again_and_again_does_not_starve_the_rest(loop):
    seen = []

    def again():
        seen.append(1)
        loop.at(loop.now(), again)

    loop.at(loop.now(), again)
    loop.at(loop.now() + 5_000_000, end)
    with pytest.raises(EndedError):
        loop.run()
    assert len(seen) > 10


@pytest.mark.skipif(find_alarm() is None, reason="this system has no timerfd")
def test_the_alarm_is_finer_than_a_millisecond():
    loop = Loop()
    late = []

    def step(due, left):
        late.append(loop.now() - due)
        if not left:
            raise EndedError
        loop.at(due + 300_000, lambda: step(due + 300_000, left - 1))

    due = loop.now() + 300_000
    loop.at(due, lambda: step(due, 100))
    with pytest.raises(EndedError):
        loop.run()
    # epoll's own timeouts are whole milliseconds: half of the steps would be later than this
    assert sorted(late)[20] < 300_000
