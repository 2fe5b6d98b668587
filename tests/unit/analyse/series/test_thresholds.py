"""Scores and chances."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.series.records import probability_of
from assay.analyse.series.scan import AT, MEMORY_STEPS, SPANS, SPLITS

LIMITS = pytest.mark.parametrize("limits", [SPLITS, SPANS], ids=["steps", "spans"])


@LIMITS
@pytest.mark.parametrize("count", [20, 120, 1000])
@pytest.mark.parametrize("step", [0, 3, 6])
def test_the_tabled_score_has_the_tabled_chance(limits, count, step) -> None:
    assert limits.chance(limits.rows[count][step], count, MEMORY_STEPS[step]) == pytest.approx(AT)


@LIMITS
@given(st.integers(8, 5000), st.floats(0, 0.95), st.floats(-5, 60), st.floats(0.01, 20))
def test_a_clearer_change_is_never_more_likely_by_chance(limits, count, memory, score, more) -> None:
    first, second = limits.chance(score, count, memory), limits.chance(score + more, count, memory)
    assert 0 <= second <= first <= 1


@LIMITS
@given(st.integers(60, 2000), st.floats(0, 0.9), st.floats(0, 0.3), st.floats(0, 40))
def test_memory_requests_a_clearer_change(limits, count, memory, more, score) -> None:
    assert limits.chance(score, count, memory + more) >= limits.chance(score, count, memory) * (1 - 1e-9)


@LIMITS
def test_scores_beyond_numbers(limits) -> None:
    assert limits.chance(math.inf, 50, 0.1) == 0
    assert limits.chance(-math.inf, 50, 0.1) == 1


def test_a_chance_is_no_probability() -> None:
    assert probability_of(0.05) == pytest.approx(0.7107, abs=1e-3)  # the figures of the paper: 0.289 and 0.111
    assert probability_of(0.01) == pytest.approx(0.8887, abs=1e-3)
    assert probability_of(0.0) == 1
    assert probability_of(1.0) == 0.5
