import numpy as np
import pytest

from assay.analyse.capacity import ProbeOutcome
from assay.analyse.capacity import judge as judged

LIMIT = {"e2e_ms.p99": 100.0}


def outcome(values, rate: float = 100.0, seconds: float = 10.0, **changes) -> ProbeOutcome:
    offered = len(values) / seconds
    given = {"offered_per_s": offered, "delivered_per_s": offered, **changes}
    return ProbeOutcome(rate, seconds, values={"e2e_ms": np.asarray(values, dtype=float)}, **given)


def judge(probe: ProbeOutcome, objective: dict[str, float]) -> tuple[bool | None, str]:
    one = judged(probe, objective)
    return one.meets, one.why


def mixed(bad: int, of: int) -> np.ndarray:
    values = np.full(of, 50.0)
    values[np.random.default_rng(bad).permutation(of)[:bad]] = 200.0
    return values


@pytest.mark.parametrize(
    ("bad", "of", "meets"),
    [(0, 100, None), (0, 229, None), (0, 230, True), (3, 1000, True), (8, 1000, None), (10, 1000, None),
     (17, 1000, False), (3, 10, False), (1, 10, None)],
)  # fmt: skip
def test_a_percentile_is_a_binomial_question(bad, of, meets) -> None:
    assert judge(outcome(mixed(bad, of)), LIMIT)[0] is meets


def test_an_exact_boundary_is_decided_wrongly_as_rarely_as_promised() -> None:
    rng = np.random.default_rng(0)
    answers = [judge(outcome(np.where(rng.random(2000) < 0.01, 200.0, 50.0)), LIMIT)[0] for _ in range(400)]
    assert answers.count(True) / 400 <= 0.14
    assert answers.count(False) / 400 <= 0.14


def test_slow_requests_that_come_in_bunches_report_less() -> None:
    scattered, bunched = mixed(20, 1000), np.full(1000, 50.0)
    bunched[400:420] = 200.0
    assert judge(outcome(scattered), LIMIT)[0] is False
    assert judge(outcome(bunched), LIMIT)[0] is None


def test_all_objectives_count_and_the_sentence_names_the_missed_one() -> None:
    both = {"e2e_ms.p99": 100.0, "e2e_ms.median": 20.0}
    meets, why = judge(outcome(mixed(0, 1000)), both)
    assert meets is False
    assert "e2e_ms.median is 50 ms; at most 20 was asked for" in why
    assert "p99" not in why


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"delivered_per_s": 80.0}, "did not keep up"),
        ({"failed_share": 0.03}, "3.0 % of the requests failed"),
        ({"saturated": True}, "fell behind for good"),
    ],
)
def test_what_else_makes_a_miss(changes, told) -> None:
    meets, why = judge(outcome(mixed(0, 1000), **changes), LIMIT)
    assert meets is False
    assert told in why


def test_failed_requests_are_beyond_every_limit() -> None:
    assert judge(outcome(mixed(0, 1000)), LIMIT)[0] is True
    assert judge(outcome(mixed(0, 1000), failed_share=0.009), LIMIT)[0] is None


def test_answers_in_flight_at_the_end_are_not_missing() -> None:
    long = outcome(np.full(100, 4000.0), rate=10.0, seconds=50.0, offered_per_s=2.0, delivered_per_s=1.85)
    assert judge(long, {"e2e_ms.median": 5000.0})[0] is True


def test_a_probe_that_is_short_beside_the_limit_cannot_meet_it() -> None:
    meets, why = judge(outcome(mixed(0, 1000), seconds=10.0), {"e2e_ms.p99": 3000.0})
    assert meets is None
    assert "too short" in why
    assert judge(outcome(mixed(0, 1000), seconds=30.0), {"e2e_ms.p99": 3000.0})[0] is True


def test_latency_that_still_grows_is_no_answer() -> None:
    rising = np.linspace(10, 90, 1000) * np.exp(0.05 * np.random.default_rng(0).standard_normal(1000))
    meets, why = judge(outcome(rising), LIMIT)
    assert meets is None
    assert "still growing" in why


@pytest.mark.parametrize(("limit", "meets"), [(40.0, True), (60.0, False), (50.0, None)])
def test_more_may_be_better(limit, meets) -> None:
    speed = 50 + 5 * np.random.default_rng(0).standard_normal(500)
    probe = ProbeOutcome(10.0, 10.0, 50.0, 50.0, {"user_tokens_per_s": speed})
    assert judge(probe, {"user_tokens_per_s.p50": limit})[0] is meets
    assert judge(probe, {"user_tokens_per_s.mean": limit})[0] is meets


def test_objectives_without_samples_are_left_out_and_no_objective_asks_only_to_keep_up() -> None:
    assert judge(outcome(mixed(0, 1000)), {"rouge_l.mean": 0.3})[0] is True
    assert judge(outcome(mixed(0, 1000)), {})[0] is True
    assert judge(outcome(mixed(0, 1000), delivered_per_s=50.0), {})[0] is False


def test_millions_of_token_gaps_are_judged_fast() -> None:
    import time

    gaps = np.random.default_rng(0).lognormal(2.3, 0.3, 3_000_000)
    begin = time.process_time()
    meets, _ = judge(ProbeOutcome(50.0, 10.0, 50.0, 50.0, {"itl_ms": gaps}), {"itl_ms.p99": 50.0})
    assert meets is True
    assert time.process_time() - begin < 2.0
