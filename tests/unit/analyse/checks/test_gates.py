import numpy as np
import pytest

from assay.analyse.checks import gates_of
from assay.analyse.judge import judge
from assay.analyse.summary import summarise


def _gate(job, objective, metrics):
    (found,) = gates_of(job(objective=objective), metrics)
    return found


@pytest.fixture
def measured(job, outcome):
    """The gate of a job whose runs gave these samples."""

    def gate_of(objective, runs):
        (name,) = objective
        outcomes = [outcome(run, values, metric=name.rpartition(".")[0]) for run, values in enumerate(runs)]
        (found,) = judge(job(objective=objective), outcomes, {}).gates
        return found

    return gate_of


@pytest.mark.parametrize(
    ("better", "limit", "passed"),
    [("lower", 2.0, True), ("lower", 1.0, False), ("higher", 2.0, False), ("higher", 1.0, True), (None, 2.0, None)],
)
def test_a_limit_is_held_in_the_direction_of_the_metric(job, stats, better, limit, passed) -> None:
    found = _gate(job, {"m.median": limit}, {"m": stats(1.5, 1.5, 1.5, better=better)})
    assert found.passed is passed
    assert "1.5 ms" in found.detail


def test_a_percentile_without_backing_is_neither_met_nor_missed(job) -> None:
    metrics = {"latency_ms": summarise("latency_ms", "ms", "lower", {0: np.ones(100)})}
    found = _gate(job, {"latency_ms.p99": 20.0}, metrics)
    assert found.passed is None
    assert "662" in found.detail


def test_what_was_not_measured_is_neither_met_nor_missed(job) -> None:
    assert _gate(job, {"ttft_ms.p99": 20.0}, {}).passed is None


def test_the_deviation_of_one_value_is_not_given(job, stats) -> None:
    assert _gate(job, {"m.std": 1.0}, {"m": stats(1.0)}).passed is None


def test_an_objective_holds_for_every_label(job, stats) -> None:
    metrics = {"m{batch=1}": stats(1.0, 1.0), "m{batch=8}": stats(9.0, 9.0), "model": stats(99.0, 99.0)}
    assert _gate(job, {"m.median": 10.0}, metrics).passed is True
    found = _gate(job, {"m.median": 5.0}, metrics)
    assert found.passed is False
    assert "batch=8" in found.detail


def test_a_limit_inside_the_interval_is_named_as_doubtful(job, stats) -> None:
    found = _gate(job, {"m.median": 1.05}, {"m": stats(0.9, 1.0, 1.1)})
    assert found.passed is True
    assert "interval between runs" in found.detail


def test_an_objective_on_a_mean_is_doubted_with_the_interval_of_the_means(measured) -> None:
    """Runs whose medians differ widely around 100 and whose means are all far above it."""
    runs = [np.array([low] * 60 + [high] * 40) for low, high in ((70.0, 308.0), (100.0, 265.0), (135.0, 205.0))]
    found = measured({"latency_ms.mean": 100.0}, runs)
    assert found.passed is False
    assert "interval between runs" not in found.detail
    near = measured({"latency_ms.mean": 164.0}, runs)
    assert "interval between runs" in near.detail


@pytest.mark.parametrize(("limit", "passed"), [(1.05, True), (1.0, None), (0.95, False)])
def test_a_percentile_close_to_its_limit_cannot_be_decided(measured, limit, passed) -> None:
    """The limit beside, and on, the true p99 of latencies that nobody can tell apart from so few samples."""
    rng = np.random.default_rng(1)
    runs = [np.exp(0.05 * rng.standard_normal(3000)) for _ in range(5)]
    found = measured({"latency_ms.p99": limit * np.exp(0.05 * 2.3263)}, runs)
    assert found.passed is passed
    assert "samples beyond it" in found.detail
    assert ("too close to tell" in found.detail) is (passed is None)


def test_runs_that_differ_count_for_a_percentile(measured) -> None:
    """Each run has samples enough; that runs differ by 30 % is what makes it doubtful."""
    rng = np.random.default_rng(2)
    scales = (0.75, 1.3, 0.9, 1.15, 1.0)
    runs = [scale * np.exp(0.05 * rng.standard_normal(3000)) for scale in scales]
    alike = [np.exp(0.05 * rng.standard_normal(3000)) for _ in scales]
    assert measured({"latency_ms.p90": 1.25}, runs).passed is None
    assert measured({"latency_ms.p90": 1.25}, alike).passed is True


def test_a_percentile_of_something_that_is_better_high_is_held_too(measured) -> None:
    runs = 100 + np.random.default_rng(3).standard_normal((3, 2000))
    answers = [measured({"throughput_per_s.p90": limit}, runs).passed for limit in (101.0, 101.28, 101.6)]
    assert answers == [True, None, False]


@pytest.mark.simulated
@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_a_percentile_on_its_limit_is_seldom_called_missed(measured, spread) -> None:
    """The limit is the true p99 over all runs: each wrong answer must be rare, whether runs differ or not."""
    rng = np.random.default_rng(4)
    truth = np.quantile(np.exp(spread * rng.standard_normal(2_000_000)) * rng.exponential(size=2_000_000), 0.99)
    answers = []
    for _ in range(120):
        runs = [np.exp(spread * rng.standard_normal()) * rng.exponential(size=700) for _ in range(5)]
        answers.append(measured({"latency_ms.p99": float(truth)}, runs).passed)
    assert answers.count(False) <= 24
    assert answers.count(None) >= 60


def test_a_limit_that_no_run_comes_near_is_kept_however_the_runs_differ(measured) -> None:
    rng = np.random.default_rng(5)
    runs = [level * rng.lognormal(0, 0.1, 700) for level in (1.0, 2.0, 1.4)]
    assert measured({"latency_ms.p99": 1000}, runs).passed is True


def test_a_long_pause_of_the_machine_does_not_hide_that_a_limit_is_far_away(measured) -> None:
    """Calls of microseconds, slow ones in bunches, and one pause of 800 ms."""
    rng = np.random.default_rng(6)
    runs = [level * rng.lognormal(-4.5, 0.1, 700) for level in (1.0, 2.0, 1.4)]
    for values in runs:
        values[200:260] *= 5
    runs[1][350] = 800.0
    assert measured({"latency_ms.p99": 1000}, runs).passed is True
