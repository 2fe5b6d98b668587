import numpy as np
import pytest

from assay.analyse.intervals import variance_inflation


def _remembering(n: int, rho: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    values = np.empty(n)
    values[0] = rng.standard_normal()
    for i in range(1, n):
        values[i] = rho * values[i - 1] + rng.standard_normal() * np.sqrt(1 - rho**2)
    return values


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_inflation_of_an_ar1_series_is_the_known_one(rho: float) -> None:
    assert variance_inflation(_remembering(20_000, rho)) == pytest.approx((1 + rho) / (1 - rho), rel=0.45)


def test_independent_values_are_inflated_little() -> None:
    series = np.random.default_rng(0).standard_normal((50, 4096))
    assert np.median([variance_inflation(row) for row in series]) < 1.2


def test_values_that_alternate_are_not_deflated() -> None:
    assert variance_inflation(np.tile([1.0, -1.0], 500)) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("series", [np.array([]), np.array([1.0]), np.ones(3), np.full(500, 7.0)])
def test_series_without_variance_have_no_inflation(series: np.ndarray) -> None:
    assert variance_inflation(series) == 1.0


def test_memory_longer_than_the_lags_is_seen_in_batches() -> None:
    blocks = np.repeat(np.random.default_rng(5).standard_normal(64), 500)
    noise = np.random.default_rng(6).standard_normal(blocks.size)
    assert variance_inflation(0.3 * blocks + noise) > 10
