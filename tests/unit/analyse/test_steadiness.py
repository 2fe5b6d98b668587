import numpy as np
import pytest

from assay.analyse.steady_state import drift


def _level(n: int = 500, share: float = 0.02) -> np.ndarray:
    return 1 + share * np.random.default_rng(0).standard_normal(n)


def test_level_samples_are_steady() -> None:
    found = drift(_level())
    assert found.steady
    assert abs(found.share) < 0.02


@pytest.mark.parametrize("end", [0.85, 1.15])
def test_a_trend_is_seen_with_its_direction(end: float) -> None:
    found = drift(_level() * np.linspace(1, end, 500))
    assert found.steady is False
    assert np.sign(found.share) == np.sign(end - 1)
    assert "%" in found.detail


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_a_step_is_seen_wherever_it_is(at: float) -> None:
    found = drift(_level() * np.where(np.arange(500) < at * 500, 1, 1.1))
    assert found.steady is False
    assert f"{100 * at:.0f} %" in found.detail
    assert found.share == pytest.approx(0.1, abs=0.02)


def test_shifts_below_the_tolerance_are_no_alarm() -> None:
    assert drift(_level(50_000) * np.linspace(1, 1.03, 50_000)).steady


def test_outliers_are_no_drift() -> None:
    values = _level()
    values[-20:] *= np.tile([30.0, 1.0], 10)
    assert drift(values).steady


@pytest.mark.parametrize("values", [np.array([]), np.ones(49), np.full(200, np.nan)])
def test_too_few_samples_cannot_tell(values: np.ndarray) -> None:
    found = drift(values)
    assert found.steady is None
    assert "too few" in found.detail


def test_constant_samples_are_steady_and_zeros_cannot_tell() -> None:
    assert drift(np.full(100, 5.0)).steady
    assert drift(np.zeros(100)).steady is None
