"""The gate over whole results: what counts, what it answers, and the exit code."""

from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.gate import RegressionLimits, gate, unknown_numbers
from assay.analyse.records import CampaignRecord, Check
from assay.analyse.summary import summarise
from assay.run.records import Failure

SAME = (1.0, 1.001, 0.999, 1.0005)
SLOWER = tuple(1.2 * one for one in SAME)
WILD = (1.0, 1.3, 0.75, 1.1)


def campaign(*jobs, name: str = "c") -> CampaignRecord:
    return CampaignRecord(name, "demo", "2026-01-01T00:00:00+00:00", "done", jobs)


def headline(job) -> tuple[str, ...]:
    return tuple(name for name in job.metrics if name == "latency_ms")


def judge(new, *old, limits=RegressionLimits(), **more):  # noqa: B008
    return gate(campaign(*new), [campaign(*jobs) for jobs in old], limits, headline, **more)


def at(job, batch: int):
    return replace(job, point={"workload.batch": batch}, job=f"j{batch}", digest=f"d{batch}", index=batch)


@pytest.mark.parametrize(
    ("new", "answer", "code", "strict"),
    [(SAME, "green", 0, 0), (SLOWER, "red", 1, 1), (WILD, "cannot tell", 0, 3)],
)
def test_one_job_against_one(result, new, answer, code, strict) -> None:
    found = judge([result(*new)], [result(*SAME)])
    assert found.answer == answer
    assert (found.exit_code(), found.exit_code(strict=True)) == (code, strict)
    assert found.because


def test_reasons_are_counted_the_worst_first(result) -> None:
    old = [at(result(*SAME), 1), at(result(*SAME), 2), at(result(*SAME), 4)]
    new = [at(result(*SLOWER), 1), at(result(*WILD), 2), at(replace(result(*SAME), state="failed"), 4)]
    found = judge(new, old)
    assert found.answer == "red"
    assert found.because == (
        "1 of 2 numbers worse than the limit",
        "1 of 3 jobs not measured",
        "1 of 2 numbers undecided",
    )
    assert [job.answer for job in found.jobs] == ["red", "cannot tell", "nothing"]


def test_a_job_that_was_not_measured_is_neither_red_nor_green(result) -> None:
    failure = Failure("crashed", "the process died", phase="load")
    failed = replace(
        result(*SAME), state="failed", metrics={}, error=failure, gates=(Check("latency_ms.p99", None, "x"),)
    )
    found = judge([failed], [result(*SAME)])
    assert (found.answer, found.exit_code()) == ("nothing", 3)
    assert found.jobs[0].because == ("the new result is not a measurement: its job is failed", "the process died")
    assert found.jobs[0].objectives == ()


def test_an_invalid_result_is_red(result) -> None:
    bad = replace(
        result(*SAME), verdict="invalid", checks=(Check("errors below the limit", False, "2 of 3 runs failed"),)
    )
    found = judge([bad], [result(*SAME)])
    assert (found.answer, found.jobs[0].kind) == ("red", "invalid")
    assert found.jobs[0].because == ("the new result is invalid: 2 of 3 runs failed",)


@pytest.mark.parametrize(("passed", "answer"), [(True, "green"), (False, "red"), (None, "cannot tell")])
def test_objectives_count_with_and_without_a_baseline(result, passed, answer) -> None:
    job = replace(result(*SAME), gates=(Check("latency_ms.p99", passed, "9 ms"),))
    assert judge([job], [result(*SAME)]).answer == answer
    assert gate(campaign(job), None, RegressionLimits(), headline).answer == answer


def test_what_may_not_be_compared_is_neither_red_nor_green_unless_it_is_asked_about(result) -> None:
    other = result(*SAME, workload={"batch": 8})
    found = judge([result(*SLOWER)], [other])
    assert (found.answer, found.exit_code()) == ("nothing", 3)
    assert found.jobs[0].because == ("different batch: 8 against not set",)
    assert judge([result(*SLOWER)], [other], anyway=True).answer == "red"


def test_no_earlier_result_is_neither_red_nor_green_and_may_be_allowed(result) -> None:
    found = gate(campaign(result(*SAME)), [], RegressionLimits(), headline)
    assert (found.answer, found.has_no_baseline) == ("nothing", True)
    assert (found.exit_code(), found.exit_code(allow_missing=True)) == (3, 0)
    failed = gate(campaign(replace(result(*SAME), state="failed")), [], RegressionLimits(), headline)
    assert failed.exit_code(allow_missing=True) == 3


def test_an_empty_result_measured_nothing(result) -> None:
    found = gate(campaign(), [campaign(result(*SAME))], RegressionLimits(), headline)
    assert (found.answer, found.because[0]) == ("nothing", "1 of 1 job of the baseline not in the new result")
    assert gate(campaign(), None, RegressionLimits(), headline).answer == "nothing"


def test_unmatched_jobs_are_reported_and_not_green(result) -> None:
    one, two, four = (at(result(*SAME), batch) for batch in (1, 2, 4))
    found = judge([one, four], [one, two])
    assert found.answer == "cannot tell"
    assert [job.kind for job in found.jobs] == ["judged", "no baseline"]
    assert [job.job for job in found.missing] == ["j2"]
    assert judge([one], [one, two], part=True).answer == "green"
    # Only the newest baseline says what there should be.
    assert judge([one], [one], [one, two]).answer == "green"


def test_a_pool_uses_what_is_comparable_and_says_what_is_not(result) -> None:
    found = judge([result(*SLOWER)], [result(*SAME)], [result(*SAME, workload={"batch": 8})], [result(*SAME)])
    (job,) = found.jobs
    assert (len(job.baseline), job.lines[0].results) == (2, 2)
    assert job.left_out == ("1 result left out: different batch: 8 against not set",)


def test_a_number_that_is_no_longer_measured_does_not_pass_unseen(result) -> None:
    gone = replace(result(*SAME), metrics={"load_ms": result(*SAME).metrics["load_ms"]})
    found = judge([gone], [result(*SAME)])
    assert found.answer == "cannot tell"
    assert found.jobs[0].lines[0].because == "latency_ms was not measured"


def test_limits_name_numbers_that_count(result) -> None:
    old, new = [result(*SAME)], [result(*SLOWER)]
    named = judge(new, old, limits=RegressionLimits(numbers=("load_ms",)))
    assert [line.name for line in named.jobs[0].lines] == ["load_ms"]
    assert named.answer == "green"
    added = judge(new, old, limits=RegressionLimits(of={"load_ms": 0.01, "latency_ms": 0.5}))
    assert [(line.name, line.limit) for line in added.jobs[0].lines] == [("latency_ms", 0.5), ("load_ms", 0.01)]
    assert added.answer == "green"


def test_misspelt_numbers_are_found(result) -> None:
    limits = RegressionLimits(of={"latncy_ms.p99": 0.1, "load_ms": 0.1}, numbers=("nothing",))
    assert unknown_numbers(limits, [result(*SAME)]) == ("nothing", "latncy_ms")
    assert unknown_numbers(limits, [replace(result(*SAME), metrics={})]) == ()


def made(template, rng, metrics: int, change: float):
    """A result with many metrics, each of five runs that spread by 5 %."""
    drawn = {f"m{n}_ms": (1 + change) * np.exp(0.05 * rng.standard_normal(5)) for n in range(metrics)}
    return replace(
        template,
        metrics={
            name: summarise(name, "ms", "lower", {run: values[run : run + 1] for run in range(5)})
            for name, values in drawn.items()
        },
    )


@pytest.mark.simulated
@pytest.mark.parametrize("metrics", [1, 10])
def test_a_gate_on_equal_things_is_red_in_less_than_one_of_twenty_however_much_it_looks_at(result, metrics) -> None:
    template, rng = result(*SAME), np.random.default_rng(metrics)
    rounds, red, alone = 120, 0, 0
    for _ in range(rounds):
        old, new = (made(template, rng, metrics, 0.0) for _ in range(2))
        found = gate(campaign(new), [campaign(old)], RegressionLimits(0.0), lambda job: tuple(job.metrics))
        red += found.answer == "red"
        alone += any(line.chance <= 0.025 for line in found.jobs[0].lines)
    assert red / rounds <= 0.06
    if metrics > 1:  # without the correction luck would turn one gate of four red
        assert alone / rounds > 0.12


@pytest.mark.simulated
def test_a_change_of_everything_is_found_although_much_is_checked(result) -> None:
    template, rng = result(*SAME), np.random.default_rng(0)
    red = 0
    for _ in range(60):
        old, new = (made(template, rng, 12, change) for change in (0.0, 0.2))
        red += gate(campaign(new), [campaign(old)], RegressionLimits(), lambda job: tuple(job.metrics)).answer == "red"
    assert red >= 58


def of_day(job, day: str):
    return replace(job, started_at=f"{day}T10:00:00+00:00")


def test_red_against_one_result_of_another_day_says_that_its_promise_does_not_hold(result) -> None:
    old, new = of_day(result(*SAME), "2026-01-01"), of_day(result(*SLOWER), "2026-01-03")
    found = judge([new], [old])
    assert found.answer == "red"
    told = found.because[-1]
    assert told.startswith("the baseline is one result of 2026-01-01, and the new one of 2026-01-03: days differ")
    assert "more than one of forty gates red" in told
    assert "5 or more baseline results" in told
    assert told in found.jobs[0].warnings


def test_the_promise_of_red_is_not_doubted_on_the_same_day_or_with_several_results(result) -> None:
    old, new = of_day(result(*SAME), "2026-01-01"), of_day(result(*SLOWER), "2026-01-03")
    same_day = judge([of_day(new, "2026-01-01")], [old])
    several = judge([new], [old], [old], [old], [old], [old])
    for found in (same_day, several):
        assert found.because == ("1 of 1 number worse than the limit",)
        assert found.jobs[0].warnings == ()


def controlled(took: float) -> dict:
    return {
        "environment": {
            "machine": {"name": "bench-1", "cpu": "EPYC 7763", "cores": 8},
            "before": {"fitness": {"control": {"version": 1, "integer_ms": took, "memory_ms": 7.0}}},
        }
    }


@pytest.mark.parametrize(("took", "answer"), [(13.0, "cannot tell"), (7.0, "cannot tell"), (11.0, "red")])
def test_a_number_is_not_red_where_the_machine_moved_as_much(result, took, answer) -> None:
    found = judge([result(*SLOWER, **controlled(took))], [result(*SAME, **controlled(10.0))])
    assert found.answer == answer
    assert ("the machine itself moved" in found.jobs[0].lines[0].because) is (answer == "cannot tell")


@pytest.mark.parametrize(("took", "answer"), [(8.0, "cannot tell"), (9.8, "green"), (12.0, "green")])
def test_a_machine_that_became_faster_does_not_turn_a_number_green(result, took, answer) -> None:
    assert judge([result(*SAME, **controlled(took))], [result(*SAME, **controlled(10.0))]).answer == answer
