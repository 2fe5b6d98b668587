"""The search: few probes, near the truth, no false knee, and nothing claimed that was not measured."""

import numpy as np
import pytest
from tests.unit.analyse.capacity.queueing import probe, search_with, true_capacity

from assay.analyse.capacity import CapacityResult, ProbeJudgement, ProbeOutcome, ProbeStep, next_step
from assay.analyse.capacity.search import falling_fit
from assay.documents import to_json
from assay.spec.workload import Search

SEARCH = Search(lowest=1.0, highest=1000.0, probe=10.0, within=0.05, probes=12)


def told(rate: float, meets: bool | None, **changes) -> ProbeJudgement:
    return ProbeJudgement(rate, 10.0, meets, "because", leans=meets is not False, **changes)


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
def test_nine_of_ten_answers_are_near_the_truth() -> None:
    """Two hundred searches in five queues, most of which remember for seconds what came before."""
    near, rates, probes, held, above = [], [], [], [], []
    for capacity, servers, limit, statistic, share in SITUATIONS:
        truth = true_capacity(capacity, servers, limit, share)
        for seed in range(40):
            rng = np.random.default_rng(seed)
            done, found = search_with(
                lambda rate, seconds, rng=rng, at=(capacity, servers): probe(rate, seconds, *at, rng),
                {f"e2e_ms.{statistic}": limit},
            )
            answer = done.capacity or 0.0
            near.append(abs(answer / truth - 1) <= 0.10)
            above.append(answer > 1.10 * truth)
            held.append(answer / 1.1 <= truth <= (done.high or 1e9) * 1.1)
            rates.append(len({outcome.rate for outcome in found.outcomes}))
            probes.append(len(found.outcomes))
    figures = {"near": np.mean(near), "held": np.mean(held), "above": np.mean(above), "probes": np.mean(probes)}
    assert len(near) == 200
    assert np.mean(near) >= 0.9, figures
    assert np.mean(held) >= 0.95, figures
    assert np.mean(above) <= 0.05, figures
    assert max(rates) <= 12
    assert np.mean(rates) <= 11
    assert np.mean(probes) <= 16, figures


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


def test_the_first_probe_is_the_lowest_rate_and_rates_grow_until_one_misses() -> None:
    assert next_step([], SEARCH) == ProbeStep(1.0, 10.0)
    assert next_step([told(1.0, True)], SEARCH) == ProbeStep(4.0, 10.0)
    assert next_step([told(1.0, True), told(4.0, None)], SEARCH) == ProbeStep(16.0, 10.0)
    assert next_step([told(250.0, True), told(1000.0, True)], SEARCH) == CapacityResult(
        1000.0, 1000.0, None, "at least 1,000/s: the highest rate that may be tried, 1,000/s, still met the objective"
    )


def test_a_miss_that_a_passing_disturbance_explains_is_tried_again() -> None:
    history = [told(1.0, True), told(4.0, False)]
    assert next_step(history, SEARCH) == ProbeStep(4.0, 10.0)
    overload = [told(1.0, True), told(4.0, False, behind=True, delivered_per_s=3.0)]
    step = next_step(overload, SEARCH)
    assert isinstance(step, ProbeStep)
    assert 1.0 < step.rate < 3.0


def test_a_hit_above_a_miss_sends_both_back() -> None:
    history = [told(16.0, False, probes=2), told(64.0, True)]
    assert next_step(history, SEARCH) == ProbeStep(64.0, 10.0)
    assert next_step([told(16.0, False), told(64.0, True)], SEARCH) == ProbeStep(16.0, 10.0)


def test_evidence_that_stays_contradictory_ends_by_the_monotone_fit() -> None:
    history = [
        told(10.0, True, probes=3),
        told(16.0, False, probes=3),
        told(20.0, True, probes=3),
        told(21.0, False, probes=3),
    ]
    step = next_step(history, SEARCH)
    assert isinstance(step, ProbeStep | CapacityResult)
    if isinstance(step, CapacityResult):
        assert step.capacity in (10.0, 20.0)


@pytest.mark.parametrize(
    ("score", "fitted"),
    [([1, 1, 0, 0], [1, 1, 0, 0]), ([1, 0, 1, 0], [1, 0.5, 0.5, 0]), ([0, 1], [0.5, 0.5]), ([0, 0, 1], [1 / 3] * 3)],
)
def test_falling_fit(score, fitted) -> None:
    assert falling_fit(np.array(score, dtype=float), np.ones(len(score))) == pytest.approx(fitted)


def test_the_same_rate_is_requested_longer_where_it_cannot_be_decided() -> None:
    history = [
        told(1.0, True),
        told(4.0, True),
        told(16.0, False, behind=True, delivered_per_s=9.0),
        told(6.0, None, times=3.0),
    ]
    step = next_step(history, SEARCH)
    assert isinstance(step, ProbeStep)
    assert (step.rate, step.duration_s > 20.0) == (6.0, True)


def test_the_number_of_rates_is_kept() -> None:
    few = Search(lowest=1.0, highest=10_000.0, probe=10.0, probes=3)
    history = [told(1.0, True), told(4.0, True), told(16.0, True)]
    done = next_step(history, few)
    assert isinstance(done, CapacityResult)
    assert (done.capacity, done.high) == (16.0, None)
    assert "after 3 rates" in done.reason


def test_the_record_of_a_search_is_a_document() -> None:
    rng = np.random.default_rng(0)
    done, found = search_with(lambda rate, seconds: probe(rate, seconds, 100.0, 4, rng), {"e2e_ms.p90": 400.0})
    facts = found.facts()
    assert facts["capacity"] == done.capacity
    assert facts["reason"] == done.reason
    assert [one["rate"] for one in facts["probes"]] == [outcome.rate for outcome in found.outcomes]
    assert {"p50", "mean", "count"} <= set(facts["probes"][-1]["statistics"]["e2e_ms"])
    to_json(facts)
