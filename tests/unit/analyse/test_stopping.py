"""How many runs a job gets, from values whose spread is known."""

import numpy as np
import pytest
from pydantic import ValidationError

from assay.analyse.stopping import RunsUntilPrecise, precise_metric, precision_of, widening
from assay.plan.job import Job
from assay.run.records import Failure, RunOutcome, SingleRunResult
from assay.spec.benchmark import Definition

PROGRAM = {"command": "true", "metrics": [{"name": "m", "pattern": "m (.*)", "unit": "ms", "better": "lower"}]}


def job(target=PROGRAM, **measure) -> Job:
    return Job("b", "d", 0, Definition.model_validate({"target": target, "measure": measure}))


def run(number: int, value: float | None, seconds: float = 1.0) -> RunOutcome:
    error = Failure("crashed", "it ended") if value is None else None
    metrics = {} if value is None else {"m": value}
    return RunOutcome(SingleRunResult(number, number == 0, "", "", seconds, metrics=metrics, error=error))


def runs_made(measured: Job, values, seconds: float = 1.0) -> int:
    rule = RunsUntilPrecise(measured)
    for number, value in enumerate(values):
        rule.add(run(number, value, seconds))
        if number + 1 >= measured.definition.measure.least_runs and not rule.more():
            return number + 1
    return len(values)


def normal(spread: float, number: int = 200, seed: int = 1) -> np.ndarray:
    return 100 * (1 + spread * np.random.default_rng(seed).standard_normal(number))


def test_steady_runs_end_with_the_five_that_every_job_has() -> None:
    assert runs_made(job(), normal(0.003)) == 5


def test_runs_that_differ_are_followed_by_more_until_the_interval_is_narrow() -> None:
    made = runs_made(job(), normal(0.03))
    assert 8 <= made <= 30


@pytest.mark.parametrize(("budget", "most"), [(20, 20), (10, 10)])
def test_no_run_begins_that_the_budget_does_not_cover(budget: int, most: int) -> None:
    assert runs_made(job(budget=budget), normal(0.06)) <= most


def test_a_budget_that_the_first_runs_have_spent_adds_none() -> None:
    assert runs_made(job(budget="3s"), normal(0.06)) == 5


def test_runs_that_could_not_bring_what_was_asked_for_are_not_made() -> None:
    # ±2 % would take thousands of runs; the budget has room for 60.
    assert runs_made(job(budget=60), normal(0.5)) == 10


def test_there_are_never_more_than_a_hundred_runs() -> None:
    assert runs_made(job(budget="1h"), normal(0.1)) == 100


def test_a_fixed_number_of_runs_is_what_it_says() -> None:
    fixed = job(runs=3)
    assert not fixed.definition.adds_runs
    assert runs_made(fixed, normal(0.2)) == 3
    assert widening(fixed.definition) == 1


@pytest.mark.parametrize(
    "sections",
    [
        {
            "load": {"hosts": 2, "concurrency": 2, "duration": "5s"},
            "target": {"endpoint": "http://127.0.0.1:1", "api": "http"},
        },
        {
            "load": {"rate": "search"},
            "target": {"endpoint": "http://127.0.0.1:1", "api": "http"},
            "objective": {"e2e_ms.p99": 5},
        },
        {"target": {**PROGRAM, "distributed": {"pods": 2}}},
    ],
)
def test_work_that_machines_share_and_a_search_have_five_runs(sections) -> None:
    definition = Definition.model_validate(sections)
    assert definition.measure.least_runs == definition.most_runs == 5


@pytest.mark.parametrize("precision", [0, 1, 2, "200%"])
def test_a_precision_that_is_no_part_of_the_value_is_refused(precision) -> None:
    with pytest.raises(ValidationError, match="two percent is written 2%"):
        job(precision=precision)


def test_failed_runs_give_no_value_and_cost_time() -> None:
    values = [*normal(0.06, 4), None, *normal(0.06, 100, seed=2)]
    assert runs_made(job(budget=12), values) <= 12


def test_a_job_without_any_value_adds_none() -> None:
    assert runs_made(job(), [None] * 20) == 5


def test_the_first_metric_of_the_headline_decides_and_never_a_score() -> None:
    served = Definition.model_validate({"target": {"endpoint": "http://127.0.0.1:1", "api": "http"}})
    assert precise_metric(served, ("recall", "e2e_ms", "throughput_per_s")) == "e2e_ms"
    assert precise_metric(served, ("recall",)) is None


def test_the_result_says_how_many_runs_would_do(stats) -> None:
    measured = job(budget=10)
    results = [run(number, value).result for number, value in enumerate(normal(0.2, 10))]
    metrics = {"m": stats(*normal(0.2, 10), name="m")}
    found = precision_of(measured.definition, metrics, results)
    assert found is not None
    assert not found.reached
    # The width falls with the root of the number of runs.
    assert found.runs_needed == pytest.approx(10 * (found.width / 0.02) ** 2, abs=1)
    assert found.spent_s == 10
