import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.run.load.shape import ClosedShape, OpenShape, RateLevel, arrivals, level_at, shape_of
from assay.spec.workload import Load, LoadStage


def times(levels, process="constant", seed=0, burstiness=1.0, at_most=200_000):
    blocks = list(itertools.islice(arrivals(levels, process, seed, burstiness), 100))
    return np.concatenate([block.at_ns for block in blocks])[:at_most] / 1e9, np.concatenate(
        [block.stage for block in blocks]
    )[:at_most]


def test_constant_arrivals_are_even():
    at, _ = times([RateLevel(math.inf, 200, 200)], at_most=1000)
    assert np.allclose(np.diff(at), 1 / 200)


@pytest.mark.parametrize(
    ("process", "burstiness", "cv"), [("poisson", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5)]
)
def test_gaps_have_the_spread_that_was_requested(process, burstiness, cv):
    at, _ = times([RateLevel(math.inf, 50, 50)], process, burstiness=burstiness)
    gaps = np.diff(at)
    assert np.mean(gaps) == pytest.approx(1 / 50, rel=0.02)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(cv, rel=0.03)


def test_a_ramp_has_the_area_under_its_line_and_its_shape():
    at, stage = times([RateLevel(10, 0, 100), RateLevel(5, 100, 100)], "poisson")
    assert len(at) == pytest.approx(1000, abs=110)
    # Half of the ramp's requests fall into the last 29 % of its time: 1 - 1/sqrt(2).
    ramp = at[stage == 0]
    assert np.mean(ramp > 10 / math.sqrt(2)) == pytest.approx(0.5, abs=0.07)
    assert ramp.max() <= 10 <= at[stage == 1].min()
    assert at.max() <= 15


@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(0, 500), st.floats(0, 500)), min_size=1, max_size=4))
def test_due_times_rise_and_stay_inside_their_stage(parts):
    levels = [RateLevel(*part) for part in parts]
    blocks = list(itertools.islice(arrivals(levels, "constant", 0), 20))
    if not blocks:
        return
    at = np.concatenate([block.at_ns for block in blocks])
    stage = np.concatenate([block.stage for block in blocks])
    bounds = np.cumsum([0, *(level.duration_s for level in levels)]) * 1e9
    assert (np.diff(at) >= 0).all()
    assert (at >= bounds[stage] - 2).all()
    assert (at <= bounds[stage + 1] + 2).all()


def test_the_same_seed_gives_the_same_times():
    assert (
        times([RateLevel(5, 100, 100)], "poisson", seed=3)[0] == times([RateLevel(5, 100, 100)], "poisson", seed=3)[0]
    ).all()
    assert len(times([RateLevel(5, 100, 100)], "poisson", seed=4)[0]) > 0


def test_levels_between_their_ends():
    levels = [RateLevel(10, 0, 100), RateLevel(5, 20, 20)]
    assert [level_at(levels, at) for at in (0, 5, 10, 14, 99)] == [0, 50, 20, 20, 20]


def test_shapes_of_the_file():
    assert shape_of(Load()) == ClosedShape((RateLevel(math.inf, 1, 1),), 0.0)
    assert shape_of(Load(concurrency=4, think="1s")).think_s == 1.0
    ramped = shape_of(Load(concurrency=8, ramp="2s"))
    assert isinstance(ramped, ClosedShape)
    assert ramped.levels[0] == RateLevel(2, 1, 8)
    assert ramped.most == 8
    opened = shape_of(Load(rate=5.0, arrivals="gamma", burstiness=0.5))
    assert isinstance(opened, OpenShape)
    assert (opened.process, opened.burstiness) == ("gamma", 0.5)
    stages = shape_of(Load(stages=(LoadStage(duration="5s", rate=1.0, to=9.0),)))
    assert isinstance(stages, OpenShape)
    assert stages.levels == (RateLevel(5, 1, 9),)
    trace = shape_of(Load(trace="t.jsonl"), trace_s=[0, 0.5])
    assert next(iter(trace.due(0))).at_ns.tolist() == [0, 500_000_000]
