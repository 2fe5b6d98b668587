import time

import numpy as np
import pytest

from assay.analyse.settling import course_of, lasting

NOTHING = np.empty(0)


def _noise(n: int, share: float = 0.02, seed: int = 0) -> np.ndarray:
    return np.exp(share * np.random.default_rng(seed).standard_normal(n))


def _steps(n: int, *changes: tuple[int, float], share: float = 0.02, seed: int = 0) -> np.ndarray:
    values = _noise(n, share, seed)
    for at, factor in changes:
        values[at:] *= factor
    return values


def test_a_level_run_is_flat_and_settled() -> None:
    found = course_of(NOTHING, _noise(600))
    assert (found.shape, found.settled, found.changes) == ("flat", True, ())


@pytest.mark.parametrize(
    ("changes", "shape", "levels"),
    [
        (((300, 0.5),), "warm-up", (2.0, 1.0)),
        (((40, 0.5), (300, 2 / 3)), "warm-up", (3.0, 1.5, 1.0)),
        (((300, 1.3),), "slow-down", (0.769, 1.0)),
        (((60, 0.5), (300, 1.3)), "slow-down", (1.538, 0.769, 1.0)),
    ],
)
def test_the_shape_of_a_run_and_where_its_levels_change(changes, shape, levels) -> None:
    found = course_of(NOTHING, _steps(600, *changes))
    assert found.shape == shape
    assert found.changes == pytest.approx([at for at, _ in changes], abs=5)
    assert found.levels == pytest.approx(levels, rel=0.02)


def test_what_came_before_the_window_does_not_unsettle_it() -> None:
    values = _steps(600, (100, 0.5))
    found = course_of(values[:100], values[100:])
    assert (found.shape, found.settled) == ("warm-up", True)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_window_in_which_the_level_moves_is_not_settled(factor) -> None:
    values = _steps(600, (400, factor))
    assert course_of(values[:100], values[100:]).settled is False
    assert lasting(values[:100], values[100:]) == "moved"


def test_a_window_after_the_change_is_watched_until_the_change_is_long_ago() -> None:
    values = _steps(8000, (300, 0.8))
    assert lasting(values[:310], values[310:900]) == "recent"
    assert lasting(values[:310], values[310:]) == "level"


def test_a_slow_warm_up_has_not_settled_though_its_window_hardly_moves() -> None:
    n = np.arange(3000)
    values = _noise(n.size) * (1 + 0.5 * np.exp(-n / 2000))
    assert course_of(values[:2000], values[2000:]).settled is False


def test_cycles_that_are_short_beside_the_run_are_found() -> None:
    values = _noise(10_000) * np.where(np.arange(10_000) // 200 % 2, 1.2, 0.8)
    found = course_of(NOTHING, values)
    assert (found.shape, found.settled) == ("inconsistent", False)


def test_what_goes_up_and_down_is_inconsistent_and_not_measured_again() -> None:
    values = _steps(3000, *((500 * k, 1.3 if k % 2 else 1 / 1.3) for k in range(1, 6)))
    found = course_of(NOTHING, values)
    assert (found.shape, found.settled) == ("inconsistent", False)
    assert lasting(NOTHING, values) == "recent"


def test_single_slow_calls_and_small_steps_are_no_levels() -> None:
    values = _steps(600, (300, 1.01))
    values[[5, 150, 151, 400, 599]] *= 30
    assert course_of(NOTHING, values).shape == "flat"


@pytest.mark.parametrize("values", [np.ones(49), np.full(60, np.nan), np.zeros(100)])
def test_too_few_samples_cannot_tell(values: np.ndarray) -> None:
    found = course_of(NOTHING, values)
    assert (found.shape, found.settled) == (None, None)
    assert lasting(NOTHING, values) == "level"


def test_constant_samples_and_values_below_zero_have_levels_too() -> None:
    assert course_of(NOTHING, np.full(100, 5.0)).shape == "flat"
    assert course_of(NOTHING, _steps(600, (300, 2.0)) - 5).shape == "slow-down"


def test_ten_thousand_samples_take_milliseconds() -> None:
    values = _steps(10_000, (40, 0.5), (600, 0.7))
    began = time.process_time()
    course_of(values[:1000], values[1000:])
    assert time.process_time() - began < 0.1  # 0.004 s on a quiet machine
