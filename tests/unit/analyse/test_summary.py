import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from assay.analyse.records import MetricStatistics
from assay.analyse.summary import measured_values, summarise
from assay.run.records import SampleSet

VALUES = hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e9, 1e9))
RUNS = st.dictionaries(st.integers(0, 99), VALUES, min_size=1, max_size=5)


def _stats(by_run: dict[int, np.ndarray]) -> MetricStatistics:
    return summarise("latency_ms", "ms", "lower", by_run)


@given(RUNS)
def test_statistics_keep_their_order(by_run: dict[int, np.ndarray]) -> None:
    found = _stats(by_run)
    tail = [value for value in (found.p50, found.p90, found.p95, found.p99, found.p99_9) if value is not None]
    assert [found.min, *tail, found.max] == sorted([found.min, *tail, found.max])
    assert found.min <= found.mean <= found.max
    assert min(found.run_values.values()) <= found.median <= max(found.run_values.values())
    assert found.mad >= 0
    assert found.outlier_count >= len(found.outliers)


@given(RUNS)
def test_statistics_agree_with_numpy(by_run: dict[int, np.ndarray]) -> None:
    found = _stats(by_run)
    pooled = np.concatenate(list(by_run.values()))
    assert found.count == pooled.size
    assert found.p50 == pytest.approx(np.median(pooled), rel=1e-9, abs=1e-9)
    assert found.median == pytest.approx(np.median([np.median(v) for v in by_run.values()]), rel=1e-9, abs=1e-9)
    assert found.run_values == {run: pytest.approx(np.median(v), rel=1e-9, abs=1e-9) for run, v in by_run.items()}
    assert found.mad == pytest.approx(np.median(np.abs(pooled - np.median(pooled))), rel=1e-9, abs=1e-6)
    for value, q in ((found.p90, 0.9), (found.p95, 0.95), (found.p99, 0.99)):
        assert value is None or value == pytest.approx(np.quantile(pooled, q), rel=1e-9, abs=1e-9)


@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_of_samples_and_runs_does_not_matter(by_run, random) -> None:
    ids = list(by_run)
    random.shuffle(ids)
    shuffled = {run: np.array(random.sample(by_run[run].tolist(), by_run[run].size)) for run in ids}
    one, other = _stats(by_run), _stats(shuffled)
    for name in ("count", "median", "min", "max", "mad", "p90", "p99", "outlier_count", "run_values"):
        assert getattr(one, name) == getattr(other, name)
    assert one.mean == pytest.approx(other.mean, rel=1e-9, abs=1e-6)


@given(RUNS)
def test_the_interval_lies_around_the_mean_of_run_medians(by_run: dict[int, np.ndarray]) -> None:
    found = _stats(by_run)
    if len(by_run) == 1:
        assert found.interval is None
    else:
        assert found.interval is not None
        values = np.array(list(found.run_values.values()))
        centre = np.exp(np.log(values).mean()) if (values > 0).all() else values.mean()
        slack = 1e-6 + 1e-9 * abs(centre)
        assert found.interval.low - slack <= centre <= found.interval.high + slack


@pytest.mark.parametrize(
    ("n", "given_"), [(63, ()), (64, ("p90",)), (661, ("p90", "p95")), (662, ("p90", "p95", "p99"))]
)
def test_percentiles_are_given_where_samples_back_them(n: int, given_: tuple[str, ...]) -> None:
    found = _stats({0: np.arange(float(n))})
    assert tuple(name for name in ("p90", "p95", "p99", "p99_9") if getattr(found, name) is not None) == given_


def test_values_that_are_not_finite_are_counted_and_left_out() -> None:
    found = _stats({0: np.array([1.0, np.nan, 3.0]), 1: np.array([np.inf, -np.inf]), 2: np.array([2.0])})
    assert (found.count, found.non_finite, found.runs) == (3, 3, 2)
    assert found.mean == 2.0
    assert found.run_values == {0: 2.0, 2: 2.0}


def test_one_value_has_no_deviation_and_no_interval() -> None:
    found = _stats({0: np.array([7.0])})
    assert (found.std, found.interval, found.mad) == (None, None, 0.0)
    assert (found.mean, found.median, found.min, found.max) == (7.0, 7.0, 7.0, 7.0)


def test_nothing_finite_cannot_be_summarised() -> None:
    with pytest.raises(ValueError, match="latency_ms has no finite value"):
        _stats({0: np.array([np.nan]), 1: np.array([])})


def test_a_million_samples_take_less_than_a_second() -> None:
    runs = dict(enumerate(np.split(np.random.default_rng(0).lognormal(0, 0.3, 1_000_000), 5)))
    began = time.process_time()
    found = _stats(runs)
    assert time.process_time() - began < 1.0  # 0.06 s on a quiet machine
    assert found.count == 1_000_000


def test_only_the_measured_phase_counts_and_sets_of_one_metric_are_joined() -> None:
    at = np.zeros(1, dtype=np.int64)
    sets = [
        SampleSet("a", "warmup", at, np.array([9.0])),
        SampleSet("a", "measure", at, np.array([1.0])),
        SampleSet("b", "measure", at, np.array([5.0])),
        SampleSet("a", "measure", at, np.array([2.0])),
    ]
    assert {name: values.tolist() for name, values in measured_values(sets).items()} == {"a": [1.0, 2.0], "b": [5.0]}
