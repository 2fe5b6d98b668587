import numpy as np
import pytest
from benches.figures import percentile_estimate
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.intervals import backed, samples_needed, tolerated


@pytest.mark.parametrize(("p", "needed"), [(0.9, 64), (0.95, 130), (0.99, 662), (0.999, 6636)])
def test_minimum_samples_are_those_of_loadgen(p: float, needed: int) -> None:
    assert samples_needed(p) == needed
    assert backed(needed, p)
    assert not backed(needed - 1, p)


# "Would discard N highest latency queries" in published MLPerf logs, for the 90th percentile.
@pytest.mark.parametrize(("n", "discarded"), [(2048, 172), (2116, 178), (2145, 181), (7469, 685), (4_776_846, 476_158)])
def test_tolerated_samples_agree_with_published_mlperf_logs(n: int, discarded: int) -> None:
    assert tolerated(n, 0.9) - 1 == discarded


def test_estimate_is_the_sample_that_loadgen_takes() -> None:
    values = np.random.default_rng(1).permutation(np.arange(2048.0))
    assert percentile_estimate(values, 0.9) == 2048 - 173


def test_estimate_of_too_few_samples_is_absent() -> None:
    assert percentile_estimate(np.arange(661.0), 0.99) is None


@given(st.integers(64, 3000))
def test_estimate_is_never_below_the_plain_percentile(n: int) -> None:
    values = np.random.default_rng(n).exponential(size=n)
    estimate = percentile_estimate(values, 0.9)
    assert estimate is not None
    assert estimate >= np.quantile(values, 0.9, method="lower")
