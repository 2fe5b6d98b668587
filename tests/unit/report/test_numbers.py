from __future__ import annotations

import pytest

from assay.analyse.records import Interval
from assay.report.numbers import decimals_for, name_with_unit, show, show_count, show_percent, show_spread, tail_needs


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (12.0876, 0.0965, "12.09"),
        (12.0876, 0.0123, "12.088"),
        (5542.0, 61.0, "5,542"),
        (1234567.0, 61000.0, "1,230,000"),
        (0.000312, 0.00002, "0.000312"),
        (0.0, 0.5, "0.0"),
        (-3.25, 0.4, "-3.2"),
        (4.71, 11.0, "4.7"),
        (12.0876, None, "12.09"),
        (12.0876, 0.0, "12.09"),
        (3.0e12, 1.0e9, "3e+12"),
    ],
)
def test_a_number_has_no_more_digits_than_its_doubt_allows(value, half, expected):
    assert show(value, decimals_for(value, half)) == expected


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_not_a_number_is_a_dash_and_never_zero(value):
    assert show(value) == "-"


def test_a_small_value_never_becomes_zero_by_rounding():
    assert show(0.0004, 2) == "0.0004"


def test_spread_is_the_number_that_the_checks_judge():
    assert show_spread(Interval(100 / 1.05, 105.0, 0.95, "")) == "±5.0 %"
    assert show_spread(Interval(-4.0, 18.0, 0.95, "")) == "±157 %"
    assert show_spread(Interval(-1.0, 1.0, 0.95, "")) == "±?"
    assert show_spread(None) == "±?"


def test_percentages():
    assert show_percent(0.042, signed=True) == "+4.2 %"
    assert show_percent(-0.31, signed=True) == "-31 %"
    assert show_percent(0.0001) == "<0.1 %"
    assert show_percent(0.0) == "0.0 %"


def test_counts():
    assert show_count(5, 11550) == "5×2,310"
    assert show_count(5, 11551) == "5×~2,310"
    assert show_count(0, 0) == "-"


def test_units_are_reported_once():
    assert name_with_unit("latency_ms", "ms") == "latency_ms"
    assert name_with_unit("speed", "img/s") == "speed (img/s)"


def test_an_unbacked_percentile_says_what_it_needs():
    assert tail_needs("p99") == "p99 needs 662 samples"
