"""One level and two, each with a known truth; how often the test errs is a matter of the calibration."""

import numpy as np
import pytest

from assay.analyse.levels import levels_of_runs, levels_of_samples

RNG = np.random.default_rng


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]])
def test_few_values_and_zero_tell_nothing(values) -> None:
    assert levels_of_runs(values) is None


def test_both_levels_of_runs_and_their_shares() -> None:
    found = levels_of_runs([100, 100.4, 110, 110.2, 100.1, 99.8, 100, 110.1])
    assert found is not None
    assert (found.low, found.high, found.share) == (100.0, 110.1, 3 / 8)
    assert found.apart == pytest.approx(0.101)


def test_one_run_apart_is_an_outlier_and_no_level() -> None:
    assert levels_of_runs([100, 100.4, 99.9, 100.2, 100.1, 99.8, 100, 130.0]) is None


def test_levels_that_hardly_differ_change_no_decision() -> None:
    assert levels_of_runs([100, 100.001, 101, 101.001, 100.002, 101.002, 100.0, 101.0]) is None


def test_equal_runs_are_on_one_level() -> None:
    assert levels_of_runs([5.0] * 10) is None


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_both_levels_of_samples_and_their_shares(share: float) -> None:
    rng = RNG(1)
    values = np.where(rng.random(4000) < share, 2.0, 1.0) * (1 + 0.03 * rng.standard_normal(4000))
    found = levels_of_samples(values)
    assert found is not None
    assert found.low == pytest.approx(1, rel=0.01)
    assert found.high == pytest.approx(2, rel=0.01)
    assert found.share == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    "values",
    [
        1 + 0.1 * RNG(2).standard_normal(3000),
        RNG(3).exponential(size=3000) + 1,
        np.round(1 + 0.02 * RNG(4).standard_normal(3000), 2),
        np.full(3000, 1.5),
        np.concatenate([np.full(2990, 1.0), np.full(10, 9.0)]),
    ],
    ids=["normal", "exponential", "a coarse clock", "equal", "ten pauses"],
)
def test_samples_on_one_level(values) -> None:
    assert levels_of_samples(values) is None
