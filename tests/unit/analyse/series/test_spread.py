"""What is usual in a series."""

import numpy as np
import pytest

from assay.analyse.series.scan import counted, louder_side
from assay.analyse.series.spread import bursts, middle_and_spread, relative_spreads, standardised, without_wild


def test_the_spread_of_normal_noise_is_its_deviation() -> None:
    values = 5 + 3 * np.random.default_rng(0).standard_normal(4000)
    middle, spread = middle_and_spread(values)
    assert middle == pytest.approx(5, abs=0.2)
    assert spread == pytest.approx(3, rel=0.05)


def test_equal_but_for_rounding_has_no_spread() -> None:
    assert middle_and_spread(np.array([0.1 + 0.2, 0.3, 0.3]))[1] == 0
    assert middle_and_spread(np.array([1.0, 1.0, 1.0, 2.0]))[1] > 0


def test_wild_values_are_held_back_and_weighed() -> None:
    values = np.random.default_rng(1).standard_normal(100)
    values[3] = 50.0
    weights = np.ones(100)
    assert standardised(values, weights)[0].max() == 3
    weights[3] = 0.1
    assert standardised(values, weights)[0][3] == pytest.approx(30)


def test_known_errors_count_beside_what_differs_anyway() -> None:
    rng = np.random.default_rng(2)
    errors = np.where(np.arange(200) % 2, 1.0, 4.0)
    values = rng.standard_normal(200) * np.hypot(errors, 2.0)
    ratio = relative_spreads(values, errors)
    assert 1.1 < ratio[0] / ratio[1] < np.hypot(4, 2) / np.hypot(1, 2)
    assert (relative_spreads(values, None) == 1).all()
    assert (relative_spreads(values, np.full(200, np.nan)) == 1).all()


def test_no_error_makes_a_point_count_alone_or_not_at_all() -> None:
    rng = np.random.default_rng(5)
    errors = 10.0 ** rng.uniform(-8, 8, 300)
    ratio = relative_spreads(rng.standard_normal(300), errors)
    assert ratio.min() >= 0.5
    assert ratio.max() <= 3
    few = np.std(rng.standard_normal((300, 3)), axis=1, ddof=1) / np.sqrt(3)
    ratio = relative_spreads(rng.standard_normal(300) / np.sqrt(3), few)
    assert np.quantile(ratio, 0.95) / np.quantile(ratio, 0.05) < 1.6


def test_three_wild_values_in_a_row_are_held_back_and_four_keep_their_height() -> None:
    values, ones = np.random.default_rng(6).standard_normal(60), np.ones(60)
    values[30:33] = values[57:] = 40.0
    assert standardised(values, ones)[0].max() == 3
    values[30:34] = 40.0
    held = standardised(values, ones)[0]
    assert held[30:34].min() > 20
    assert held[57:].max() == 3


def test_between_known_changes_the_wild_are_drawn_near() -> None:
    values = np.random.default_rng(7).standard_normal(60)
    values[40:] += 30
    assert without_wild(values, np.ones(60), [40]) is values
    values[50] = 500.0
    calm = without_wild(values, np.ones(60), [40])
    assert 30 < calm[50] < 50
    assert (np.delete(calm, 50) == np.delete(values, 50)).all()


def test_noise_without_a_burst_has_none() -> None:
    rng = np.random.default_rng(3)
    seen = sum(bool(bursts(rng.standard_normal(120), np.ones(120))) for _ in range(300))
    assert seen <= 3


def test_the_louder_side_is_distinguished_from_an_equal_one() -> None:
    values = np.random.default_rng(4).standard_normal(120)
    assert louder_side(values, np.ones(120), [100]) is None
    values[100:] *= 6
    side, factor = louder_side(values, np.ones(120), [100])
    assert (side.start, side.stop) == (100, 120)
    assert 2 < factor < 10


def test_counts_report_rare_values_from_a_change() -> None:
    rare = np.zeros(100)
    rare[[10, 50, 98, 99]] = 1
    changed = np.zeros(100)
    changed[90:] = 1
    assert counted(rare, [98]) < 15 < 40 < counted(changed, [90])
