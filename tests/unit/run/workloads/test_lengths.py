"""Drawn lengths have the mean and the bounds that were asked for."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run.workloads.synthetic import draw, draw_outputs
from assay.spec.workload import Tokens


def lengths(count=2000, seed=0, **asked):
    asked = {key: float(value) if key in ("mean", "std") else value for key, value in asked.items()}
    return draw(Tokens(**asked), count, np.random.default_rng(seed), "workload.input_tokens")


def test_one_number_is_the_length_of_all():
    assert draw(7, 3, np.random.default_rng(0), "").tolist() == [7, 7, 7]
    assert set(lengths(mean=7.4).tolist()) == {7}


@settings(max_examples=200)
@given(
    shape=st.sampled_from(["normal", "lognormal"]),
    mean=st.floats(20, 5000),
    spread=st.floats(0.01, 1.2),
    low=st.floats(0.0, 0.9),
    high=st.floats(1.2, 10),
    open_ended=st.booleans(),
)
def test_mean_and_bounds_are_kept(shape, mean, spread, low, high, open_ended):
    bounds = {"min": max(1, int(low * mean)), "max": None if open_ended else int(high * mean) + 1}
    # A spread as wide as the room between its mean and a bound cannot have that mean.
    possible = spread < 0.5 * min(1 - low, high - 1)
    with nullcontext() if possible else suppress(MeasureError):
        drawn = lengths(mean=mean, std=spread * mean, shape=shape, **bounds)
    assume("drawn" in locals())
    assert bounds["min"] <= drawn.min()
    assert bounds["max"] is None or drawn.max() <= bounds["max"]
    # Strata make the mean of 2000 draws exact to a small part of the spread; the far tail of lognormal is the worst.
    assert drawn.mean() == pytest.approx(mean, rel=0.02, abs=0.6)


def test_the_spread_is_the_one_requested_where_bounds_are_far():
    normal = lengths(mean=500, std=50)
    assert normal.std() == pytest.approx(50, rel=0.02)
    assert np.mean(np.abs(normal - 500) < 50) == pytest.approx(0.683, abs=0.02)
    skewed = lengths(mean=500, std=400, shape="lognormal", count=20_000)
    assert skewed.std() == pytest.approx(400, rel=0.05)
    assert np.median(skewed) == pytest.approx(500 / np.sqrt(1 + 0.64), rel=0.02)


def test_uniform_lengths_are_equally_frequent_and_reach_both_ends():
    drawn = lengths(mean=1, min=3, max=6, shape="uniform")
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [3, 4, 5, 6]
    assert counts.tolist() == pytest.approx([500] * 4, abs=2)


def test_the_seed_decides():
    assert lengths(mean=100, std=30, seed=1).tolist() == lengths(mean=100, std=30, seed=1).tolist()
    assert lengths(mean=100, std=30, seed=1).tolist() != lengths(mean=100, std=30, seed=2).tolist()
    assert draw_outputs(Tokens(mean=50.0, std=9.0), 8, 4) == draw_outputs(Tokens(mean=50.0, std=9.0), 8, 4)
    assert draw_outputs(None, 2, 0) == [None, None]
    assert draw_outputs(5, 2, 0) == [5, 5]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"mean": 512, "max": 256}, r"the mean length 512 does not lie between min \(1\) and max \(256\)"),
        ({"mean": 5, "std": 1, "min": 5}, r"the mean length 5 does not lie between min \(5\) and max \(None\)"),
        ({"mean": 10, "std": 500}, "no normal spread with std 500 has the mean 10 within min 1$"),
        (
            {"mean": 90, "std": 5000, "max": 1000},
            "no normal spread with std 5000 has the mean 90 within min 1 and max 1000",
        ),
    ],
)
def test_what_cannot_be_is_refused(asked, message):
    with pytest.raises(MeasureError) as caught:
        lengths(**asked)
    assert re.search(message, caught.value.problem.message)
    assert caught.value.problem.at == "workload.input_tokens"
