"""The search: few probes, near the truth, no false knee, and nothing claimed that was not measured."""

import numpy as np
import pytest
from tests.unit.analyse.capacity.queueing import probe, search_with, true_capacity

from assay.analyse.capacity import ProbeOutcome, ProbeStep, RateSearch
from assay.documents import to_json
from assay.spec.workload import Search


def level(value: float = 50.0, noise: float = 0.1, stall: float = 0.0, seed: int = 0):
    """A service that no rate slows down; some probes meet a stall of two seconds."""
    rng = np.random.default_rng(seed)

    def look(rate: float, seconds: float) -> ProbeOutcome:
        values = value * np.exp(noise * rng.standard_normal(max(int(rate * seconds), 1)))
        if rng.random() < stall:
            values[: values.size // 5] = 2000.0
        return ProbeOutcome(rate, seconds, rate, rate, {"e2e_ms": values})

    return look


SITUATIONS = [(200.0, 8, 250.0, "p99", 0.99), (200.0, 1, 80.0, "p95", 0.95), (250.0, 16, 400.0, "p50", 0.5),
              (20.0, 8, 3000.0, "p90", 0.9), (100.0, 4, 400.0, "p99", 0.99)]  # fmt: skip


@pytest.mark.simulated
def test_answers_are_near_the_truth() -> None:
    """Searches in five queues, most of which remember for seconds what came before."""
    near, close, held, above, seconds = [], [], [], [], []
    for capacity, servers, limit, statistic, share in SITUATIONS:
        truth = true_capacity(capacity, servers, limit, share)
        for seed in range(8):
            rng = np.random.default_rng(seed)
            done, found = search_with(
                lambda rate, seconds, rng=rng, at=(capacity, servers): probe(rate, seconds, *at, rng),
                {f"e2e_ms.{statistic}": limit},
            )
            answer = done.capacity or 0.0
            near.append(abs(answer / truth - 1) <= 0.10)
            close.append(abs(answer / truth - 1) <= 0.05)
            above.append(answer > 1.05 * truth)
            held.append((done.low or 0.0) <= truth <= (done.high or 1e9))
            seconds.append(sum(outcome.duration_s for outcome in found.outcomes))
    figures = {"near": np.mean(near), "close": np.mean(close), "held": np.mean(held), "above": np.mean(above)}
    assert np.mean(near) >= 0.85, figures
    assert np.mean(close) >= 0.7, figures
    assert np.mean(held) >= 0.85, figures
    assert np.mean(above) <= 0.05, figures
    assert max(seconds) <= 360


@pytest.mark.parametrize("stall", [0.0, 0.1])
def test_noise_makes_no_knee(stall) -> None:
    answers = [
        search_with(level(stall=stall, seed=seed), {"e2e_ms.p99": 100.0}, highest=1000.0)[0] for seed in range(60)
    ]
    top = [done.capacity == 1000.0 and done.high is None for done in answers]
    assert np.mean(top) >= (1.0 if not stall else 0.9)
    assert all("at least" in done.reason for done, ok in zip(answers, top, strict=True) if ok)


def test_a_service_that_always_misses_has_no_capacity() -> None:
    done, found = search_with(level(500.0), {"e2e_ms.p50": 100.0})
    assert (done.capacity, done.low, done.high) == (None, None, 1.0)
    assert "even the lowest rate" in done.reason
    assert len(found.outcomes) == 2  # once more before it is believed


def test_what_cannot_be_decided_is_not_claimed() -> None:
    """Forty requests a probe never back a p99.9."""
    done, _ = search_with(level(), {"e2e_ms.p99_9": 100.0}, highest=4.0)
    assert done.capacity is None
    assert "no rate was shown to meet" in done.reason


def seen(rate: float, share: float, seconds: float = 10.0, seed: int = 0, **changes) -> ProbeOutcome:
    """A probe of which this share is beyond a limit of 100 ms, at random."""
    values = np.where(np.random.default_rng(seed).random(max(int(rate * seconds), 1)) < share, 200.0, 50.0)
    return ProbeOutcome(rate, seconds, **{"offered_per_s": rate, "delivered_per_s": rate, **changes},
                        values={"e2e_ms": values})  # fmt: skip


def begun(*outcomes: ProbeOutcome, **settings) -> RateSearch:
    found = RateSearch(Search(**{"lowest": 1.0, "highest": 1000.0, **settings}), {"e2e_ms.p90": 100.0})
    for outcome in outcomes:
        found.tell(outcome)
    return found


def next_rate(found: RateSearch) -> float:
    step = found.step()
    assert isinstance(step, ProbeStep)
    return step.rate


def test_rates_grow_from_the_lowest_until_one_is_too_much() -> None:
    found = begun()
    for rate in (1.0, 4.0, 16.0, 64.0):
        assert found.step() == ProbeStep(rate, 5.0)
        found.tell(seen(rate, 0.0, 5.0))
    found.tell(seen(256.0, 1.0, 5.0, delivered_per_s=100.0, saturated=True))
    assert 64 < next_rate(found) < 105, "between the last good rate and what the service delivered"


def test_one_stall_does_not_end_the_way_up() -> None:
    stalled = begun(*(seen(rate, 0.0) for rate in (1.0, 4.0, 16.0)), seen(64.0, 0.9), highest=10_000.0)
    assert next_rate(stalled) < 64
    for _ in range(3):
        stalled.tell(seen(64.0, 0.0))
    assert next_rate(stalled) > 64


def test_an_overload_is_believed_at_once() -> None:
    found = begun(seen(1.0, 0.01), seen(4.0, 0.5, delivered_per_s=3.0, saturated=True))
    assert 1.0 <= next_rate(found) < 3.2


def test_probes_near_the_capacity_and_of_slow_services_are_longer() -> None:
    rng = np.random.default_rng(0)
    _, quick = search_with(lambda rate, seconds: probe(rate, seconds, 100.0, 1, rng), {"e2e_ms.p90": 250.0})
    _, slow = search_with(lambda rate, seconds: probe(rate, seconds, 5.0, 1, rng), {"e2e_ms.p90": 2000.0})
    assert quick.outcomes[-2].duration_s == 40.0
    assert max(outcome.duration_s for outcome in slow.outcomes) > 40.0


def test_the_time_is_kept() -> None:
    rng = np.random.default_rng(0)
    done, found = search_with(lambda rate, seconds: probe(rate, seconds, 20.0, 1, rng), {"e2e_ms.p90": 500.0}, probes=4)
    assert sum(outcome.duration_s for outcome in found.outcomes) <= 3 * 4 * 10.0
    assert done.reason.startswith("the search ended after")


def test_the_answer_has_the_gap_between_met_and_missed() -> None:
    rng = np.random.default_rng(3)
    done, _ = search_with(lambda rate, seconds: probe(rate, seconds, 100.0, 1, rng), {"e2e_ms.p90": 250.0})
    assert done.capacity is not None
    assert done.low is not None
    assert done.high is not None
    assert done.low < done.capacity < done.high < 1.3 * done.low
    assert done.low < true_capacity(100.0, 1, 250.0, 0.9) < done.high
    assert f"missed at {done.high:.4g}" in done.reason


def test_a_search_whose_percentile_cannot_be_judged_ends_early() -> None:
    done, found = search_with(level(), {"e2e_ms.p99_9": 100.0}, highest=4.0)
    assert len(found.outcomes) == 1
    assert "e2e_ms.p99_9 needs 2,302 requests" in done.reason


def test_a_mean_can_be_searched_for() -> None:
    """M/M/1 with 100 a second: the mean is 1 / (100 - rate), which is 50 ms at 80 a second."""
    near = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        done, _ = search_with(lambda rate, seconds, rng=rng: probe(rate, seconds, 100.0, 1, rng), {"e2e_ms.mean": 50.0})
        near.append(abs((done.capacity or 0.0) / 80 - 1) < 0.1)
    assert np.mean(near) >= 0.8


def test_the_record_of_a_search_is_a_document() -> None:
    rng = np.random.default_rng(0)
    done, found = search_with(lambda rate, seconds: probe(rate, seconds, 100.0, 4, rng), {"e2e_ms.p90": 400.0})
    facts = found.facts()
    assert facts["capacity"] == done.capacity
    assert facts["reason"] == done.reason
    assert [one["rate"] for one in facts["probes"]] == [outcome.rate for outcome in found.outcomes]
    assert {"p50", "mean", "count"} <= set(facts["probes"][-1]["statistics"]["e2e_ms"])
    to_json(facts)
