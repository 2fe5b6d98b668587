import numpy as np
import pytest

from assay.analyse.summary import summarise


def _stats(*runs: list[float]):
    return summarise("m", "ms", "lower", {run: np.array(values) for run, values in enumerate(runs)})


@pytest.mark.parametrize("odd", [0.0, 5.0, 15.0, 1000.0])
def test_an_obvious_outlier_among_five_numbers_is_flagged(odd: float) -> None:
    found = _stats([10.0], [10.1], [odd], [9.9], [10.05])
    assert [(one.run, one.sample, one.value) for one in found.outliers] == [(2, None, odd)]
    assert found.outlier_count == 1


def test_an_outlier_keeps_its_run_and_sample_id_past_values_that_are_not_finite() -> None:
    values = np.random.default_rng(0).normal(10, 0.1, (3, 50))
    values[1, 3] = np.nan
    values[1, 30] = 99.0
    found = _stats(*values.tolist())
    assert [(one.run, one.sample) for one in found.outliers] == [(1, 30)]
    assert found.max == 99.0  # flagged, not dropped


def test_equal_values_and_one_other_are_judged_by_the_mean_distance() -> None:
    assert [one.value for one in _stats([5.0, 5.0, 5.0, 5.0, 9.0]).outliers] == [9.0]


@pytest.mark.parametrize("values", [[5.0] * 10, [100.0] * 95 + [101.0] * 5, [1.0 + 1e-12 * i for i in range(50)]])
def test_constant_values_with_rounding_have_no_outliers(values: list[float]) -> None:
    assert _stats(values).outlier_count == 0


@pytest.mark.parametrize("values", [[1.0], [1.0, 1000.0]])
def test_one_or_two_values_cannot_say_which_is_odd(values: list[float]) -> None:
    assert _stats(values).outlier_count == 0


def test_only_the_most_extreme_are_kept_and_all_are_counted() -> None:
    values = np.random.default_rng(1).normal(10, 0.1, 5000)
    odd = np.arange(30)
    values[odd] = 20.0 + odd
    found = _stats(values.tolist())
    assert found.outlier_count >= 30
    assert len(found.outliers) == 20
    assert [one.sample for one in found.outliers] == list(range(29, 9, -1))
    assert [one.score for one in found.outliers] == sorted((one.score for one in found.outliers), reverse=True)


def test_scores_are_robust_deviations() -> None:
    values = np.random.default_rng(2).normal(0, 1, 20_001)
    values[7] = 50.0
    worst = _stats(values.tolist()).outliers[0]
    assert worst.sample == 7
    assert worst.score == pytest.approx(50, rel=0.05)
