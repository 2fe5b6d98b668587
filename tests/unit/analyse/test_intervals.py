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
    median_of_runs,
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


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_runs_have_no_middle_run(values: list[float]) -> None:
    assert median_of_runs(values) is None


@given(hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(-1e6, 1e6)))
def test_the_interval_of_the_middle_run_holds_it(values: np.ndarray) -> None:
    found = median_of_runs(values)
    assert found is not None
    middle, rounding = float(np.median(values)), 1e-9 * (1 + abs(float(np.median(values))))
    assert found.low <= middle + rounding
    assert found.high >= middle - rounding


def test_the_middle_of_few_runs_is_known_as_students_t_tells_and_never_better_than_the_runs() -> None:
    found = median_of_runs([10.0, 10.2, 10.1])
    expected = between_runs([10.0, 10.2, 10.1])
    assert found is not None
    assert expected is not None
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    two_speeds = median_of_runs([1.0, 1.0, 1.0, 2.0, 2.0])
    assert two_speeds is not None
    assert two_speeds.high >= 2.0


def test_the_middle_of_many_runs_lies_between_order_statistics() -> None:
    found = median_of_runs(np.arange(1.0, 21.0))
    assert found is not None
    # Ranks 6 and 15 hold it with 95.9 %, ranks 7 and 14 with 88.5 %.
    assert 6 <= found.low < 7
    assert 14 < found.high <= 15


def test_the_interval_of_runs_whose_spread_decided_their_number_is_wider() -> None:
    values = [10.0, 10.2, 10.1, 9.9, 10.05, 10.1, 9.95]
    plain, wide = median_of_runs(values), median_of_runs(values, widened=1.2)
    assert plain is not None
    assert wide is not None
    assert np.log(wide.high / 10.05) == pytest.approx(1.2 * np.log(plain.high / 10.05))
    assert np.log(wide.low / 10.05) == pytest.approx(1.2 * np.log(plain.low / 10.05))
    assert "widened by 20%" in wide.method


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
