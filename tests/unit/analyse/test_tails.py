"""Intervals of percentiles, against the binomial distribution and against known answers."""

import numpy as np
import pytest
from scipy import stats

from assay.analyse.summary import summarise
from assay.analyse.tails import tail_interval


def test_ranks_of_independent_samples_are_those_of_the_binomial_distribution() -> None:
    values = np.random.default_rng(1).permutation(np.arange(1.0, 2001.0))
    found = tail_interval([values], 0.9, 1800.5)
    assert found is not None
    low, high = stats.binom.ppf([0.025, 0.975], 2000, 0.9)
    inflation = 2000 / float(found.method.rpartition(" ")[2].replace(",", ""))
    assert inflation < 1.3
    assert found.low == pytest.approx(1800.5 - (1800.5 - low) * inflation**0.5, abs=3)
    assert found.high == pytest.approx(1800.5 + (high - 1800.5) * inflation**0.5, abs=3)


@pytest.mark.parametrize("n", [5, 100, 300])
def test_samples_that_do_not_reach_beyond_a_percentile_give_no_interval(n: int) -> None:
    values = np.random.default_rng(2).exponential(size=n)
    assert tail_interval([values], 0.99, float(np.quantile(values, 0.99))) is None


def test_runs_that_differ_make_the_interval_wider() -> None:
    rng = np.random.default_rng(3)
    alike = [rng.exponential(size=2000) for _ in range(5)]
    apart = [values * scale for values, scale in zip(alike, (0.8, 0.9, 1.0, 1.1, 1.2), strict=True)]
    widths = []
    for parts in (alike, apart):
        found = tail_interval(parts, 0.9, float(np.quantile(np.concatenate(parts), 0.9)))
        assert found is not None
        widths.append(found.high / found.low)
    assert widths[1] > 1.1 * widths[0]


def test_samples_that_remember_make_the_interval_wider() -> None:
    rng = np.random.default_rng(4)
    bursts = np.repeat(rng.exponential(size=500), 20)
    single = rng.permutation(bursts)
    widths = []
    for values in (single, bursts):
        found = tail_interval([values], 0.9, float(np.quantile(values, 0.9)))
        assert found is not None
        widths.append(found.high - found.low)
    assert widths[1] > 2 * widths[0]


def test_the_statistics_of_a_metric_have_an_interval_for_each_percentile_that_is_known() -> None:
    rng = np.random.default_rng(5)
    found = summarise("latency_ms", "ms", "lower", {run: rng.exponential(size=500) for run in range(5)})
    assert set(found.tails) == {"p90", "p95", "p99"}
    for name, interval in found.tails.items():
        assert interval.low <= getattr(found, name) <= interval.high
    assert summarise("latency_ms", "ms", "lower", {run: rng.exponential(size=3) for run in range(5)}).tails == {}
