import time

import numpy as np
import pytest
from benches.figures import order_statistic_interval
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from assay.analyse.intervals import (
    between_runs,
    median_interval_of_run,
    relative_half_width,
)
from assay.analyse.records import Interval

FINITE = st.floats(-1e6, 1e6)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_runs_have_no_interval(values: list[float]) -> None:
    assert between_runs(values) is None


@given(hnp.arrays(np.float64, st.integers(2, 30), elements=FINITE))
def test_between_runs_is_the_t_interval_of_scipy(values: np.ndarray) -> None:
    found = between_runs(values, 0.9)
    positive = bool((values > 0).all())
    scaled = np.log(values) if positive else values
    half = stats.t.ppf(0.95, values.size - 1) * float(scaled.std(ddof=1)) / np.sqrt(values.size)
    ends = np.array([scaled.mean() - half, scaled.mean() + half])
    low, high = np.exp(np.minimum(ends, 709.0)) if positive else ends
    assert found is not None
    assert found.low == pytest.approx(low, rel=1e-5, abs=1e-6)
    assert found.high == pytest.approx(high, rel=1e-5, abs=1e-6)
    assert found.level == 0.9
    assert found.low >= 0 or not positive


def test_order_statistics_of_a_textbook_example() -> None:
    # Ranks 6 and 15 of 20 hold the median with 95.9 %; 7 and 14 would hold it with 88.5 % only.
    found = order_statistic_interval(np.arange(1.0, 21.0), 0.5)
    assert found is not None
    assert (found.low, found.high) == (6, 15)


@pytest.mark.parametrize(("n", "q"), [(0, 0.5), (5, 0.5), (20, 0.99)])
def test_too_few_samples_for_a_quantile_have_no_interval(n: int, q: float) -> None:
    assert order_statistic_interval(np.arange(float(n)), q) is None


@given(hnp.arrays(np.float64, st.integers(6, 300), elements=FINITE))
def test_interval_of_the_median_holds_the_median_of_the_sample(values: np.ndarray) -> None:
    for found in (order_statistic_interval(values, 0.5), median_interval_of_run(values)):
        assert found is None or found.low <= np.median(values) <= found.high


def test_memory_makes_the_interval_of_the_median_wider() -> None:
    values = np.random.default_rng(2).standard_normal(2000)
    shuffled, remembering = median_interval_of_run(values), median_interval_of_run(np.sort(values))
    assert shuffled is not None
    assert remembering is None or remembering.half_width > 2 * shuffled.half_width


@pytest.mark.parametrize("values", [np.array([]), np.array([3.0]), np.arange(5.0)])
def test_five_samples_promise_no_median(values: np.ndarray) -> None:
    assert median_interval_of_run(values) is None


def test_equal_durations_have_an_interval_of_no_width() -> None:
    found = median_interval_of_run(np.full(100, 42, dtype=np.int64))
    assert found is not None
    assert found.half_width == 0


def test_a_million_durations_take_little_time() -> None:
    durations = np.random.default_rng(0).integers(900, 1100, 1_000_000)
    began = time.process_time()
    median_interval_of_run(durations)
    assert time.process_time() - began < 0.5  # 0.02 s on a quiet machine


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.5, 2.0, 1.0), (1.0, 100.0, 9.0), (-11.0, -9.0, 0.1), (0.0, 0.0, 0.0), (-1.0, 3.0, 2.0), (-1.0, 1.0, np.inf)],
)
def test_relative_half_width(low: float, high: float, expected: float) -> None:
    assert relative_half_width(Interval(low, high, 0.95, "")) == pytest.approx(expected)
