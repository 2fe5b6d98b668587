"""Rates: true where every scrape is there, and no number at all where a counter began again or scrapes are missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.telemetry import broken, rate, total


def test_a_steady_counter_has_its_rate():
    course = rate(np.arange(10.0), 7.0 * np.arange(10.0), 1.0)
    assert course.value.tolist() == [7.0] * 9
    assert (course.resets, course.gaps) == (0, 0)


def test_a_counter_that_began_again_has_no_rate_in_that_step():
    course = rate(np.arange(6.0), np.array([10.0, 20.0, 30.0, 4.0, 14.0, 24.0]), 1.0)
    assert np.isnan(course.value[2])
    assert course.finite.tolist() == [10.0] * 4
    assert course.resets == 1


def test_a_gap_is_no_rate_and_is_counted():
    course = rate(np.array([0.0, 1.0, 2.0, 9.0, 10.0]), np.array([0.0, 5.0, 10.0, 45.0, 50.0]), 1.0)
    assert course.finite.tolist() == [5.0] * 3
    assert course.gaps == 1


def test_a_late_scrape_is_no_gap():
    assert rate(np.array([0.0, 1.0, 3.2]), np.array([0.0, 1.0, 3.2]), 1.0).gaps == 0


def test_a_gauge_is_broken_in_the_middle_of_a_gap():
    course = broken(np.array([0.0, 1.0, 11.0, 12.0]), np.array([1.0, 2.0, 3.0, 4.0]), 1.0)
    assert course.at_s.tolist() == [0.0, 1.0, 6.0, 11.0, 12.0]
    assert np.isnan(course.value[2])
    assert course.gaps == 1


def test_what_is_added_up_has_the_moments_that_all_have():
    left = broken(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 1.0)
    right = broken(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0]), 1.0)
    both = total([left, right])
    assert both.at_s.tolist() == [1.0, 2.0]
    assert both.value.tolist() == [11.0, 21.0]


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=60),
    st.lists(st.floats(0.05, 20), min_size=60, max_size=60),
)
def test_no_rate_is_ever_negative_and_what_is_reported_adds_up(values, steps):
    at = np.cumsum(steps[: len(values)])
    value = np.array(values)
    course = rate(at, value, 1.0)
    assert (course.finite >= 0).all()
    seconds, risen = np.diff(at), np.diff(value)
    good = (risen >= 0) & (seconds <= 2.5)
    assert course.finite.size == np.count_nonzero(good)
    assert float(np.sum(course.finite * seconds[good])) == pytest.approx(float(risen[good].sum()), rel=1e-9, abs=1e-6)
    assert course.resets == np.count_nonzero(risen < 0)
