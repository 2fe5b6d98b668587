"""A change that also brings more noise: it is found, at its place, and noise alone is still no change."""

import csv
from pathlib import Path

import numpy as np
import pytest
from benches.series_laws import LOUD, QUIET, QUIET_PARTS, RAISED, louder, noise
from scipy.stats import binom

from assay.analyse.series import Finding, Series, detect

LOUD_CSV = Path(__file__).parents[3] / "fixtures" / "series" / "loud.csv"
BY_CHANCE = 0.001


def large(values: np.ndarray) -> list[Finding]:
    return [one for one in detect(Series(values, "lower")).findings if one.difference > 20]


def test_a_regression_that_is_louder_than_what_was_before_is_found() -> None:
    """60 days at 100 to 103 ms, then 30 days at 160 ± 15 ms."""
    with LOUD_CSV.open() as file:
        values = np.array([float(row["value"]) for row in csv.DictReader(file)])
    (one,) = large(values)
    assert (one.kind, one.index, one.answer) == ("step", 60, "worse")
    assert one.range[0] <= 60 <= one.range[1]
    assert one.interval.low < values[60:].mean() / values[50:60].mean() - 1 < one.interval.high


@pytest.mark.simulated
@pytest.mark.parametrize("spread", [10, 15, 20])
@pytest.mark.parametrize("first", QUIET_PARTS)
def test_a_louder_level_is_found_at_its_place(first, spread) -> None:
    count = 40
    rows = louder(np.random.default_rng(81), first, spread, count)
    at_its_place = [[one for one in large(row) if abs(one.index - QUIET) <= 1] for row in rows]
    assert sum(map(bool, at_its_place)) >= binom.ppf(BY_CHANCE, count, 0.97)
    covered = sum(one[0].range[0] <= QUIET <= one[0].range[1] for one in at_its_place if one)
    assert covered >= binom.ppf(BY_CHANCE, sum(map(bool, at_its_place)), 0.95)


@pytest.mark.simulated
def test_the_interval_of_a_louder_level_holds_its_size() -> None:
    rows = louder(np.random.default_rng(82), "normal", 15, 60)
    ends = [one.difference_interval for row in rows for one in large(row)]
    held = sum(one.low <= RAISED - 100 <= one.high for one in ends)
    assert held >= binom.ppf(BY_CHANCE, len(ends), 0.93)


@pytest.mark.simulated
def test_a_step_is_not_placed_by_small_steps_of_the_quiet_side() -> None:
    """Rounded values that rise by one now and then, before a loud level."""
    rng = np.random.default_rng(83)
    count = 40
    quiet = np.round(100 + 0.3 * noise(rng, "normal", count, QUIET)) + np.arange(QUIET) // 12
    loud = RAISED + 15 * noise(rng, "normal", count, LOUD)
    found = [large(row) for row in np.hstack([quiet, loud])]
    right = sum(len(one) == 1 and abs(one[0].index - QUIET) <= 1 for one in found)
    assert right >= binom.ppf(BY_CHANCE, count, 0.97)


def test_a_louder_level_that_ends_again_is_two_steps() -> None:
    values = 100 + 0.3 * np.random.default_rng(84).standard_normal(120) + np.linspace(0, 3, 120)
    values[60:85] = 160 + 15 * np.random.default_rng(85).standard_normal(25)
    steps = [(one.index, one.answer) for one in detect(Series(values, "lower")).findings if abs(one.difference) > 20]
    assert steps == [(60, "worse"), (85, "better")]


@pytest.mark.simulated
@pytest.mark.parametrize("law", ["normal", "AR 0.6"])
def test_noise_alone_is_no_change_of_level(law) -> None:
    """20 points with four times the noise."""
    count = 150
    rows = noise(np.random.default_rng(86), law, count)
    rows[:, 60:80] *= 4
    quiet = sum(not detect(Series(100 + 2 * row)).findings for row in rows)
    assert quiet >= binom.ppf(BY_CHANCE, count, 0.95)
