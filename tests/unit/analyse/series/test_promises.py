"""What is promised of 120 points with 2 % noise, on fewer series than the bench counts.

The seeds are fixed. A bound is missed by chance alone in one of a thousand cases if the promise just holds.
"""

import numpy as np
import pytest
from benches.series import sizes_held
from benches.series_laws import AFTER, LEVEL, NOISE, POINTS, SEVERAL, noise, series, several
from scipy.stats import binom

from assay.analyse.series import Series, detect

BY_CHANCE = 0.001


def findings(law: str, step: float, count: int):
    return [detect(Series(row)).findings for row in series(np.random.default_rng(77), law, step, count)]


@pytest.mark.simulated
@pytest.mark.parametrize("law", ["normal", "t3", "AR 0.3", "AR 0.6", "AR 0.8"])
def test_false_alarms_are_at_most_one_in_a_hundred(law) -> None:
    count = 1200
    flagged = sum(bool(found) for found in findings(law, 0, count))
    assert flagged <= binom.ppf(1 - BY_CHANCE, count, 0.01)


@pytest.mark.simulated
@pytest.mark.parametrize("points", [15, 30, 60, 300])
def test_other_lengths_keep_it_too(points) -> None:
    count = 600
    drawn = LEVEL * (1 + NOISE * noise(np.random.default_rng(78), "AR 0.6", count, points))
    flagged = sum(bool(detect(Series(row)).findings) for row in drawn)
    assert flagged <= binom.ppf(1 - BY_CHANCE, count, 0.01)


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("law", "step", "least", "covered"), [("normal", 1, 0.55, 0.9), ("normal", 2, 0.98, 0.95), ("AR 0.6", 2, 0.60, 0.9)]
)
def test_steps_are_caught_and_their_range_holds_the_place(law, step, least, covered) -> None:
    count = 500
    found = findings(law, step, count)
    caught = [one for one in found if one]
    assert len(caught) >= binom.ppf(BY_CHANCE, count, least)
    truth = POINTS - AFTER
    right = [f for one in caught for f in one if f.range[0] <= truth <= f.range[1]]
    assert len(right) >= binom.ppf(BY_CHANCE, len(caught), covered)
    size = NOISE * LEVEL * step
    held = sum(f.difference_interval.low <= size <= f.difference_interval.high for f in right)
    assert held >= binom.ppf(BY_CHANCE, len(right), 0.93)


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("points", [33, POINTS])
def test_errors_of_few_runs_change_nothing_of_it(runs, points) -> None:
    """All that differs between the results of a series is the error of few runs, which tell it badly."""
    count = 600
    drawn = np.random.default_rng(79).standard_normal((count, points, runs))
    values, errors = drawn.mean(axis=2), drawn.std(axis=2, ddof=1) / np.sqrt(runs)
    flagged = sum(bool(detect(Series(a, None, b)).findings) for a, b in zip(values, errors, strict=True))
    assert flagged <= binom.ppf(1 - BY_CHANCE, count, 0.01)
    values[:, points - 7 :] += 10 / np.sqrt(runs)
    caught = sum(bool(detect(Series(a, None, b)).findings) for a, b in zip(values[:60], errors[:60], strict=True))
    assert caught == 60


@pytest.mark.simulated
@pytest.mark.parametrize("law", ["normal", "AR 0.3", "AR 0.6"])
def test_intervals_hold_the_sizes_of_several_steps(law) -> None:
    """Neighbours that stay unseen are part of it, which is why a little less than 95 % is asked for."""
    held = [one for row in several(np.random.default_rng(80), law, 40) for one in sizes_held(row)]
    assert len(held) >= 0.8 * 40 * len(SEVERAL)
    assert sum(held) >= binom.ppf(BY_CHANCE, len(held), 0.93)
