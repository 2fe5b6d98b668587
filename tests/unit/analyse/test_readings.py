"""Which numbers of a result become points."""

import numpy as np
import pytest
from tests.support.histories import result

from assay.analyse.headline import readings, split_statistic
from assay.analyse.summary import summarise


def with_metrics(told, **values):
    from dataclasses import replace

    metrics = {
        name: summarise(name, "ms", "lower", {run: np.array(list(row)) for run, row in enumerate(rows)})
        for name, rows in values.items()
    }
    return replace(told, metrics={**told.metrics, **metrics})


def by_name(found):
    return {one.metric: one for one in found}


def test_the_headline_metric_is_watched_and_others_are_not():
    told = with_metrics(result(10.0, 1), load_ms=[[1.0], [2.0], [3.0]], peak_run_rss_mb=[[5.0]])
    assert set(by_name(readings(told))) == {"latency_ms"}


def test_statistics_of_the_objective_and_of_alerts_are_watched():
    rows = [np.linspace(9, 11, 2000)] * 3
    told = with_metrics(result(10.0, 1, objective={"latency_ms.p99": 20.0}), latency_ms=rows, load_ms=[[1.0], [2.0]])
    found = by_name(readings(told, ["load_ms", "latency_ms.p90"]))
    assert set(found) == {"latency_ms", "latency_ms.p99", "latency_ms.p90", "load_ms"}
    assert found["latency_ms.p99"].value == pytest.approx(10.98)
    assert found["latency_ms.p99"].standard_error is None


def test_the_median_by_name_is_no_second_series():
    told = with_metrics(result(10.0, 1, objective={"latency_ms.median": 20.0}), recall=[[0.8], [1.0]])
    found = by_name(readings(told, ["latency_ms.p50", "recall.median"]))
    assert set(found) == {"latency_ms", "recall", "recall.median"}  # of a score the mean is watched, not the median
    assert found["latency_ms"].standard_error is not None


def test_the_error_of_a_value_comes_from_its_runs():
    told = with_metrics(result(10.0, 1), latency_ms=[[10.0], [11.0], [12.0]])
    (one,) = readings(told)
    assert one.value == 11.0
    assert one.standard_error == pytest.approx(1 / np.sqrt(3))
    (alone,) = readings(with_metrics(result(10.0, 1), latency_ms=[[10.0]]))
    assert alone.standard_error is None


def test_the_error_of_a_mean_comes_from_the_means_of_the_runs():
    """Medians that differ widely beside means that agree, and the other way round."""
    rows = [[1.0, 1.0, 28.0], [5.0, 5.0, 20.6], [9.0, 9.0, 12.3]]
    found = by_name(readings(with_metrics(result(10.0, 1), latency_ms=rows), ["latency_ms.mean"]))
    assert found["latency_ms"].standard_error > 2
    assert found["latency_ms.mean"].standard_error == pytest.approx(
        np.std([10.0, 10.2, 10.1], ddof=1) / 3**0.5, rel=0.02
    )
    alone = by_name(readings(with_metrics(result(10.0, 1), latency_ms=[[1.0, 2.0]]), ["latency_ms.mean"]))
    assert alone["latency_ms.mean"].standard_error is None


def test_a_score_is_its_mean_and_the_spread_of_a_rate_is_better_lower():
    told = with_metrics(result(10.0, 1), recall=[[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert by_name(readings(told, ["recall"]))["recall"].value == pytest.approx(5 / 6)
    told = with_metrics(result(10.0, 1, better="higher"), latency_ms=[[10.0, 12.0], [11.0, 9.0]])
    assert by_name(readings(told, ["latency_ms.std"]))["latency_ms.std"].better == "lower"


def test_one_name_may_stand_for_many_metrics():
    told = with_metrics(result(10.0, 1), **{"speed{batch=1.5}": [[1.0]], "speed{batch=8}": [[2.0]]})
    assert set(by_name(readings(told, ["speed.mean"]))) == {
        "latency_ms",
        "speed{batch=1.5}.mean",
        "speed{batch=8}.mean",
    }
    assert set(by_name(readings(told, ["sp*"]))) == {"latency_ms", "speed{batch=1.5}", "speed{batch=8}"}
    assert set(by_name(readings(told, ["speed{batch=8}"]))) == {"latency_ms", "speed{batch=8}"}


def test_a_failed_job_has_no_value_in_the_series_that_it_has():
    found = readings(result(None, 1), ["latency_ms"], ["latency_ms", "latency_ms.p99"])
    assert [(one.metric, one.value) for one in found] == [("latency_ms", None), ("latency_ms.p99", None)]
    assert readings(result(None, 1), ["latency_ms"]) == ()


def test_a_metric_that_was_not_given_this_time_has_no_value():
    found = by_name(readings(result(10.0, 1), (), ["latency_ms", "gone_ms", "latency_ms.p99"]))
    assert found["gone_ms"].value is None
    assert found["latency_ms.p99"].value is None  # three samples do not back it
    assert found["latency_ms"].value is not None


@pytest.mark.parametrize(
    ("name", "parts"),
    [("ttft_ms.p99", ("ttft_ms", "p99")), ("ttft_ms", ("ttft_ms", "")), ("a.b", ("a.b", "")),
     ("loss.mean", ("loss.mean", "")), ("speed{b=1.5}", ("speed{b=1.5}", "")), (".p99", (".p99", ""))],
)  # fmt: skip
def test_names_are_metric_and_statistic(name, parts):
    assert split_statistic(name, ["loss.mean"]) == parts
