"""Noise of real machines is no change, and a change in it is still found."""

import numpy as np
import pytest
from benches.series_noises import LAWS, unchanged

from assay.analyse.series import Series, detect
from assay.analyse.series.confirmation import normal_scores, returns, spread_varies

# Of 150 series without a change, at most so many have a finding with these seeds; the bench counts more of them.
MOST = {
    ("two levels, 80/20", 100): 3,
    ("two levels, 80/20", 300): 3,
    ("two levels that stay, 0.7", 100): 3,
    ("two levels that stay, 0.9", 300): 4,
    ("spread grows from 1 to 4", 300): 5,
    ("spread triples half-way", 300): 3,
    ("GARCH(0.2, 0.7)", 100): 6,
    ("AR 0.6 with t3 innovations", 300): 10,
    ("day and night, ±2 σ", 100): 2,
    ("long memory, d = 0.3", 300): 18,
    ("long memory, d = 0.45", 300): 24,
}


@pytest.mark.simulated
@pytest.mark.parametrize(("law", "points"), MOST)
def test_noise_of_real_machines_is_no_change(law, points) -> None:
    rows = unchanged(law, 150, points, 90)
    assert sum(bool(detect(Series(row)).findings) for row in rows) <= MOST[law, points]


@pytest.mark.simulated
def test_a_change_of_both_levels_is_found() -> None:
    rows = unchanged("two levels, 80/20", 20, 120, 91)
    rows[:, 80:] += 2 * 6.0
    found = [[one.index for one in detect(Series(row)).findings] for row in rows]
    assert sum(any(abs(place - 80) <= 3 for place in places) for places in found) >= 16


def test_levels_come_and_go_or_change_once() -> None:
    rng = np.random.default_rng(92)
    step = rng.standard_normal(100) + 8.0 * (np.arange(100) >= 60)
    assert not returns(step)
    assert returns(rng.standard_normal(100) + 8.0 * (np.arange(100) // 7 % 2))
    outliers = rng.standard_normal(100)
    outliers[[10, 30, 50]] += 20
    assert not returns(outliers)


def test_spread_that_grows_is_seen_and_a_step_is_no_spread() -> None:
    rng = np.random.default_rng(93)
    assert spread_varies(rng.standard_normal(200) * np.linspace(1, 4, 200), ())
    assert not spread_varies(rng.standard_normal(200) + 5.0 * (np.arange(200) >= 100), (100,))


def test_normal_scores_keep_the_order_and_share_ties() -> None:
    scores = normal_scores(np.array([3.0, 1.0, 2.0, 2.0, 90.0]))
    assert scores[1] < scores[2] == scores[3] < scores[0] < scores[4]
    assert scores[1] == pytest.approx(-scores[4])
    assert normal_scores(np.arange(99.0))[49] == pytest.approx(0.0, abs=1e-12)


def test_every_law_has_series_without_a_change() -> None:
    for law in LAWS:
        rows = unchanged(law, 3, 40, 94)
        assert rows.shape == (3, 40)
        assert np.isfinite(rows).all()
