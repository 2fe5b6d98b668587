import numpy as np
import pytest

from assay.analyse.checks import gates_of
from assay.analyse.summary import summarise


def _gate(job, objective, metrics):
    (found,) = gates_of(job(objective=objective), metrics)
    return found


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
