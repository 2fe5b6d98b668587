import heapq

import numpy as np
import pytest

from assay.analyse.capacity import saturated


def series(rate, seconds, rng, *, capacity=None, latency=None, stall=(0.0, 0.0), tick=0.25):
    """Counts as a load loop sees them: a queue of a capacity, or answers of a latency each."""
    due = np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds)))
    if capacity is None:
        ended = due + latency(due.size)
    else:
        free, ended = [0.0], np.empty(due.size)
        for place, at in enumerate(due.tolist()):
            begin = max(heapq.heappop(free), at)
            begin = max(begin, stall[1]) if stall[0] <= begin < stall[1] else begin
            ended[place] = begin + rng.exponential(1 / capacity)
            heapq.heappush(free, float(ended[place]))
    t = np.arange(tick, seconds, tick)
    came, went = np.searchsorted(due, t), np.searchsorted(np.sort(ended), t)
    return t, came - went, came, went


def answers(t, in_flight, came, went, latency_s=0.0):
    looks = range(4, len(t) + 1, 4)
    return [saturated(t[:n], in_flight[:n], came[:n], went[:n], latency_s) for n in looks]


@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("rate", [5.0, 80.0])
def test_no_false_alarm_below_capacity(utilisation, rate) -> None:
    rng = np.random.default_rng(1)
    alarms = [True in answers(*series(rate, 60.0, rng, capacity=rate / utilisation)) for _ in range(50)]
    assert sum(alarms) == 0


@pytest.mark.parametrize(("overload", "within_s"), [(1.25, 30.0), (2.0, 12.0), (10.0, 8.0)])
def test_overload_is_seen_soon(overload, within_s) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        found = answers(*series(100.0 * overload, 60.0, rng, capacity=100.0))
        assert True in found
        assert found.index(True) <= within_s


def test_a_stall_is_not_the_end() -> None:
    rng = np.random.default_rng(3)
    for begin in (3.0, 12.0, 20.0):
        seen = series(100.0, 40.0, rng, capacity=200.0, stall=(begin, begin + 2.0))
        assert True not in answers(*seen)


def test_a_pipe_that_fills_is_not_a_queue_that_grows() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        seen = series(20.0, 120.0, rng, latency=lambda n: rng.exponential(8.0, n))
        found = answers(*seen, latency_s=8.0)
        assert True not in found
        assert found[-1] is False


def test_a_short_look_cannot_tell() -> None:
    t = np.arange(0.25, 4.0, 0.25)
    assert saturated(t, t * 100, t * 100, t * 0) is None
