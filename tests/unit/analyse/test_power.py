"""The power of a comparison, held against scipy where it has it, and against the comparison itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from assay.analyse.compare.metric import change_between
from assay.analyse.intervals import power, smallest_effect

LEVEL = 0.95


def exact_power(effect: float, n: int) -> float:
    """The same average over the ratio of the variances, by scipy: noncentral t against Welch's limit."""

    def told(ratio: float) -> float:
        limit = stats.t.ppf(1 - (1 - LEVEL) / 2, (n - 1) / (ratio**2 + (1 - ratio) ** 2))
        shift, df = effect * np.sqrt(n / 2), 2 * n - 2
        tails = stats.nct.sf(limit, df, shift) + stats.nct.cdf(-limit, df, shift)
        return float(tails * stats.beta.pdf(ratio, (n - 1) / 2, (n - 1) / 2))

    return 2 * integrate.quad(told, 0, 0.5, limit=200)[0]


@pytest.mark.parametrize("n", [3, 4, 5, 10, 20, 50])
@pytest.mark.parametrize("effect", [0.2, 0.6, 1.0])
def test_power_agrees_with_scipy(effect: float, n: int) -> None:
    assert power(effect, n) == pytest.approx(exact_power(effect, n), abs=2e-6)


@pytest.mark.parametrize("n", [300, 2000])
def test_power_of_many_runs_is_that_of_the_noncentral_t(n: int) -> None:
    effect = 3 / np.sqrt(n)
    limit = stats.t.ppf(0.975, 2 * n - 2)
    expected = stats.nct.sf(limit, 2 * n - 2, effect * np.sqrt(n / 2))
    assert power(effect, n) == pytest.approx(expected, abs=1e-4)


def told_share(rng: np.random.Generator, effect: float, n: int, pairs: int) -> float:
    """How often the product's own interval of the change leaves out zero."""
    told = 0
    for _ in range(pairs):
        a, b = np.exp(0.01 * rng.standard_normal((2, n)))
        change = change_between(a, b * np.exp(0.01 * effect)).interval(LEVEL)
        told += not change.low <= 0 <= change.high
    return told / pairs


@pytest.mark.simulated
@pytest.mark.parametrize("n", [2, 3, 5, 10, 50])
def test_a_change_of_exactly_that_size_is_reported_in_four_of_five(n: int) -> None:
    pairs = 3000  # a share of 80 % to 0.7 %
    share = told_share(np.random.default_rng(n), smallest_effect(n), n, pairs)
    assert share == pytest.approx(0.8, abs=0.025)


@pytest.mark.simulated
@pytest.mark.parametrize("n", [2, 3, 10])
def test_no_change_is_reported_in_one_of_twenty_or_fewer(n: int) -> None:
    assert told_share(np.random.default_rng(n), 0.0, n, 2500) <= 0.05 + 0.01
    assert power(0.0, n) <= 0.05 + 1e-4


@settings(max_examples=25)
@given(n=st.integers(2, 300), more=st.integers(1, 300))
def test_more_runs_report_smaller_changes(n: int, more: int) -> None:
    assert smallest_effect(n + more) < smallest_effect(n)


@settings(max_examples=25)
@given(n=st.integers(2, 60), effect=st.floats(0, 6), more=st.floats(0.01, 3))
def test_a_larger_change_is_reported_more_often(n: int, effect: float, more: float) -> None:
    assert power(effect, n) <= power(effect + more, n) + 1e-12
    assert 0 <= power(effect, n) <= 1 + 1e-12


@settings(max_examples=25)
@given(n=st.integers(2, 100), chance=st.floats(0.1, 0.99))
def test_the_smallest_effect_has_just_that_power(n: int, chance: float) -> None:
    assert power(smallest_effect(n, chance=chance), n) == pytest.approx(chance, abs=1e-6)


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="2 runs or more"):
        power(1.0, 1)
    with pytest.raises(ValueError, match="between"):
        smallest_effect(5, chance=0.01)
