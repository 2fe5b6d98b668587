"""Running totals against generalised least squares written out in full."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.series.search import ramps
from assay.analyse.series.whitening import MEMORIES, Whitened, evidence, seeded


def dense(values, weights, column, memory):
    """Size, information and rest of a change by matrices: noise of each point is one over its weight."""
    n = values.size
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    covariance = memory**lag / (1 - memory**2) / np.outer(weights, weights)
    inverse = np.linalg.inv(covariance)
    design = np.column_stack([np.ones(n), column])
    normal = design.T @ inverse @ design
    level, size = np.linalg.solve(normal, design.T @ inverse @ values)
    rest = values - level - size * column
    return size, 1 / np.linalg.inv(normal)[1, 1], rest @ inverse @ rest


@pytest.fixture(params=[0, 1])
def piece(request):
    rng = np.random.default_rng(request.param)
    values = rng.standard_normal(23)
    weights = np.ones(23) if request.param == 0 else rng.uniform(0.3, 1.5, 23)
    return values, weights, Whitened.of(values, weights)


@pytest.mark.parametrize("row", [0, 3, 8, 10])
def test_steps_are_generalised_least_squares(piece, row) -> None:
    values, weights, white = piece
    gain = white.splits()
    for place in (1, 2, 11, 22):
        column = (np.arange(23) >= place).astype(float)
        expected = dense(values, weights, column, MEMORIES[row])
        assert np.allclose([part[row, place - 1] for part in gain], expected)


@pytest.mark.parametrize("row", [0, 3, 8, 10])
def test_spans_are_generalised_least_squares(piece, row) -> None:
    values, weights, white = piece
    first, end = seeded(23, 3)
    gain = white.spans(first, end)
    for number in (0, 5, first.size - 1):
        column = np.zeros(23)
        column[first[number] : end[number]] = 1
        expected = dense(values, weights, column, MEMORIES[row])
        assert np.allclose([part[row, number] for part in gain], expected)


@pytest.mark.parametrize("row", [0, 3, 8, 10])
def test_ramps_are_generalised_least_squares(piece, row) -> None:
    values, weights, white = piece
    columns = ramps(np.array([[0, 22], [5, 12]]), 23)
    gain = white.shapes(columns)
    for number in (0, 1):
        expected = dense(values, weights, columns[number], MEMORIES[row])
        assert np.allclose([part[row, number] for part in gain], expected)


@given(st.floats(0.1, 3.0), st.integers(0, 100))
def test_evidence_for_a_step_grows_with_it(size, seed) -> None:
    noise = np.random.default_rng(seed).standard_normal(60)
    step = (np.arange(60) >= 30) * 5.0
    small, large = (Whitened.of(noise + factor * step, np.ones(60)) for factor in (1.0, 1.0 + size))
    at = 29
    assert evidence(large, large.splits()).score[at] > evidence(small, small.splits()).score[at] - 1e-9


def test_a_change_without_any_noise_is_finite_evidence() -> None:
    exact = Whitened.of(np.repeat([0.0, 1.0], 20), np.ones(40))
    score = evidence(exact, exact.splits()).score
    assert np.isfinite(score).all()
    assert score.argmax() == 19
