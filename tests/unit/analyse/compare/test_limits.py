"""One number against its limit: the three answers, and how often they are wrong."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from assay.analyse.compare.jobs import ResultPool
from assay.analyse.compare.many import believable
from assay.analyse.compare.metric import ResultReading, change_between_results
from assay.analyse.gate import (
    LimitDraft,
    LimitVerdict,
    RegressionLimits,
    draft_line,
    judged_line,
    no_samples,
)

LIMITS = RegressionLimits()
BASE = (10.0, 10.05, 9.95, 10.02)


def pooled(a, b) -> ResultPool:
    return ResultPool(tuple(a), tuple(b), (), (), ())


def drafted(result, stats, old, new, limits=LIMITS, **more) -> LimitDraft:
    """A draft of `m`: each side one set of runs, or several."""
    job = result(1.0, 1.0)

    def having(runs):
        return replace(job, metrics={"m": stats(*runs, **more)})

    olds = [old] if isinstance(old[0], float) else old
    return draft_line(pooled([having(one) for one in olds], [having(new)]), "m", limits, no_samples)


def judged(draft: LimitDraft, limits=LIMITS) -> LimitVerdict:
    return judged_line(draft, limits, believed=draft.chance <= 0.025, looked_at=1)


def times(factor: float) -> tuple[float, ...]:
    return tuple(factor * one for one in BASE)


@pytest.mark.parametrize(
    ("factor", "better", "answer", "words"),
    [
        (1.10, "lower", "red", "worse by more than 5.0 %"),
        (1.02, "lower", "green", "any change for the worse is smaller than 5.0 %"),
        (0.80, "lower", "green", "better"),
        (0.90, "higher", "red", "worse by more than 5.0 %"),
        (1.20, "higher", "green", "better"),
        (1.048, "lower", "cannot tell", "worse, but it is undecided whether by more than 5.0 %"),
    ],
)
def test_the_answers(result, stats, factor, better, answer, words) -> None:
    line = judged(drafted(result, stats, BASE, times(factor), better=better))
    assert (line.answer, line.because.startswith(words)) == (answer, True)
    assert line.change == pytest.approx(factor - 1, abs=1e-6)
    assert line.interval.low < line.change < line.interval.high
    assert (line.baseline, line.results, line.limit) == (pytest.approx(10.01), 1, 0.05)


def test_a_red_line_says_what_one_baseline_result_does_not_tell(result, stats) -> None:
    assert "one result" in judged(drafted(result, stats, BASE, times(1.2))).because
    assert "one result" not in judged(drafted(result, stats, [BASE] * 5, times(1.2))).because


def test_a_wide_interval_cannot_report_and_says_what_would(result, stats) -> None:
    one = judged(drafted(result, stats, (10.0, 12.0, 8.0), (10.5, 12.9, 8.3)))
    assert one.answer == "cannot tell"
    assert one.because.startswith("the change may be none, or worse by more than 5.0 %; ")
    assert "a new comparison, planned with about " in one.because
    few = judged(drafted(result, stats, [(10.0, 10.1), (12.0, 12.1), (8.0, 8.1)], (11.0, 11.1)))
    assert "5 or more baseline results" in few.because
    many = judged(
        drafted(result, stats, [(float(level), level + 0.1) for level in (10, 12, 8, 11, 9, 13)], (11.0, 12.0))
    )
    assert many.because.endswith("more runs or a quieter machine would tell")


def test_what_only_many_looks_make_doubtful_says_so(result, stats) -> None:
    draft = drafted(result, stats, BASE, times(1.2))
    line = judged_line(draft, LIMITS, believed=False, looked_at=40)
    assert line.answer == "cannot tell"
    assert "40 numbers were looked at" in line.because


@pytest.mark.parametrize(
    ("old", "new", "more", "words"),
    [
        ((10.0,), (11.0,), {}, "1 run against 1 run: each side needs 3 or more"),
        (BASE, times(1.2), {"better": None}, "which direction is better was not declared"),
    ],
)
def test_what_cannot_be_decided_at_all(result, stats, old, new, more, words) -> None:
    line = judged(drafted(result, stats, old, new, **more))
    assert line.answer == "cannot tell"
    assert line.because.startswith(words)
    assert line.value is not None


def test_single_runs_are_enough_against_several_results(result, stats) -> None:
    line = judged(drafted(result, stats, [(value,) for value in BASE], (15.0,)))
    assert (line.answer, line.results) == ("red", 4)


def test_a_number_that_a_side_lacks_is_named(result) -> None:
    job = result(1.0, 1.0)
    without = replace(job, metrics={})
    assert draft_line(pooled([job], [without]), "latency_ms", LIMITS, no_samples).line.because == (
        "latency_ms was not measured"
    )
    assert draft_line(pooled([without], [job]), "latency_ms", LIMITS, no_samples).line.because == (
        "latency_ms was not measured in the baseline"
    )


def test_units_that_differ_are_not_held_against_each_other(result, stats) -> None:
    job = result(1.0, 1.0)
    old, new = (replace(job, metrics={"m": stats(*BASE, unit=unit)}) for unit in ("ms", "s"))
    assert draft_line(pooled([old], [new]), "m", LIMITS, no_samples).line.because == "the units differ: ms against s"


def test_a_percentile_needs_samples_of_runs_or_several_results(result) -> None:
    old, new = result(*BASE), result(*times(1.2))
    alone = draft_line(pooled([old], [new]), "latency_ms.p99", LIMITS, no_samples)
    assert alone.change is None
    assert "or a baseline of several results" in alone.line.because
    several = [result(*times(1 + shift)) for shift in (0.0, 0.002, -0.002, 0.001)]
    pool = draft_line(pooled(several, [new]), "latency_ms.p99", LIMITS, no_samples)
    assert judged(pool).answer == "red"
    by_run = draft_line(
        pooled([old], [new]),
        "latency_ms.p99",
        LIMITS,
        lambda job, *_: ({n: job.metrics["latency_ms"].p99 * one / 10 for n, one in enumerate(BASE)}),
    )
    assert judged(by_run).answer == "red"
    bare = replace(new, metrics={"latency_ms": replace(new.metrics["latency_ms"], p99=None, count=200)})
    unbacked = draft_line(pooled([old], [bare]), "latency_ms.p99", LIMITS, no_samples)
    assert unbacked.line.because == "latency_ms.p99 is not given: it needs 662 samples and 200 were taken"


@pytest.mark.parametrize(
    ("new", "answer", "words"),
    [
        ((0.0, 0.0, 0.0), "green", "it was 0 in the baseline and is 0"),
        ((0.05, 0.05, 0.05), "red", "worse: it was 0 in the baseline and is 0.05"),
        ((0.0, 0.0, 0.01), "cannot tell", "it was 0 in the baseline and is 0, which its runs do not show"),
    ],
)
def test_a_baseline_of_zero(result, stats, new, answer, words) -> None:
    line = judged(drafted(result, stats, (0.0, 0.0, 0.0), new, unit="", name="error_rate"))
    assert (line.answer, line.change) == (answer, None)
    assert line.because.startswith(words)


def test_equal_constants_are_green_and_other_ones_red(result, stats) -> None:
    assert judged(drafted(result, stats, (5.0, 5.0, 5.0), (5.0, 5.0, 5.0))).answer == "green"
    assert judged(drafted(result, stats, (5.0, 5.0, 5.0), (6.0, 6.0, 6.0))).answer == "red"


def test_limits_by_name_win() -> None:
    limits = RegressionLimits(0.05, {"ttft_ms.p99": 0.03, "speed": 0.1, "speed{batch=8}": 0.2})
    assert limits.limit_of("ttft_ms.p99") == 0.03
    assert limits.limit_of("ttft_ms") == 0.05
    assert limits.limit_of("speed{batch=1}") == 0.1
    assert limits.limit_of("speed{batch=8}") == 0.2


@given(st.lists(st.floats(0, 1), max_size=30), st.sampled_from([0.025, 0.05, 0.2]))
def test_luck_is_kept_out_as_scipy_does_it(chances, rate) -> None:
    kept = believable(chances, rate)
    assert len(kept) == len(chances)
    if chances:
        expected = reference.false_discovery_control(chances) <= rate
        # Rounding may differ right at the limit.
        near = np.abs(reference.false_discovery_control(chances) - rate) < 1e-12
        assert ((np.array(kept) == expected) | near).all()


# Calibration: how often the gate of one number is red, with the truth known.


def reading(runs) -> ResultReading:
    return ResultReading(float(np.median(runs)), tuple(runs))


def red_share(
    rng, *, change: float, results: int, runs: int, between: float, within: float, limit: float, rounds: int = 400
) -> float:
    def drawn(number: int, factor: float = 1.0) -> list[ResultReading]:
        levels = between * rng.standard_normal(number)
        return [reading(factor * np.exp(level + within * rng.standard_normal(runs))) for level in levels]

    limits = RegressionLimits(limit)
    red = 0
    for _ in range(rounds):
        found = change_between_results(drawn(results), drawn(1, 1 + change))
        draft = LimitDraft(LimitVerdict("m", "ms", "lower", limit, results=results), found)
        red += judged(draft, limits).answer == "red"
    return red / rounds


@pytest.mark.simulated
@pytest.mark.parametrize("limit", [0.0, 0.05])
@pytest.mark.parametrize(
    ("results", "between", "within"),
    [
        (1, 0.0, 0.02),
        (1, 0.0, 0.1),
        (2, 0.02, 0.02),
        (3, 0.02, 0.02),
        (5, 0.02, 0.02),
        (5, 0.05, 0.02),
        (10, 0.05, 0.0),
    ],
)
def test_equal_things_are_red_in_less_than_one_of_twenty(results, between, within, limit) -> None:
    rng = np.random.default_rng([results, round(1e4 * between), round(1e4 * within), round(100 * limit)])
    found = red_share(rng, change=0.0, results=results, runs=5, between=between, within=within, limit=limit)
    assert found <= 0.05


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("results", "between", "within", "least"),
    [
        (1, 0.0, 0.02, 0.95), (2, 0.0, 0.02, 0.80), (3, 0.0, 0.02, 0.95), (5, 0.0, 0.02, 0.95),
        (10, 0.02, 0.0, 0.95), (20, 0.02, 0.02, 0.93),
    ],
)  # fmt: skip
def test_ten_percent_worse_is_found_at_two_percent_spread(results, between, within, least) -> None:
    rng = np.random.default_rng([results, round(1e4 * between), round(1e4 * within)])
    found = red_share(rng, change=0.10, results=results, runs=5, between=between, within=within, limit=0.05)
    assert found >= least
