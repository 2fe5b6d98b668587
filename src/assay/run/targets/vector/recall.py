"""Recall: which of the returned vectors are true neighbours, ties counted as right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.run.targets.vector.oracle import Doubles, Neighbours, distances
from assay.run.workloads.corpus import Integers, VectorSet

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What a set of answers is worth."""

    recall: Doubles
    """One value per answer."""
    ties: int
    """Returned vectors that are none of the k nearest by number but as near as the k-th."""
    outside: int
    """Returned vectors that the filter forbids or that do not exist."""
    repeated: int
    """Vectors that one answer names twice; they count once."""
    short: int
    """Answers with fewer vectors than there are to find."""


def judge(vectors: VectorSet, truth: Neighbours, queries: Integers, answers: Integers) -> Judged:
    """Compare answers with the truth.

    Args:
        answers: answers × k numbers of vectors, -1 where an answer is shorter.
    """
    if not len(answers):
        return Judged(np.zeros(0), 0, 0, 0, 0)
    first, which = _distinct(queries, answers)
    asked, given = queries[first], np.sort(answers[first], axis=1)
    again = np.zeros(given.shape, dtype=np.bool_)
    again[:, 1:] = (given[:, 1:] == given[:, :-1]) & (given[:, 1:] >= 0)
    given[again] = -1
    inside = (given >= 0) & (given < vectors.corpus.vectors)
    allowed = inside & vectors.passes(np.where(inside, given, 0).ravel()).reshape(given.shape)
    right, ties = _right(truth, asked, np.where(allowed, given, -1))
    more = _right_beyond(vectors, truth, asked, np.where(allowed & ~right, given, -1))
    times = np.bincount(which, minlength=len(first))
    hits = np.minimum((right | more).sum(axis=1), truth.wanted)
    return Judged(
        recall=(hits / truth.wanted)[which],
        ties=int(((ties | more).sum(axis=1) * times).sum()),
        outside=int((((given >= 0) & ~allowed).sum(axis=1) * times).sum()),
        repeated=int((again.sum(axis=1) * times).sum()),
        short=int((((given >= 0).sum(axis=1) < truth.wanted) * times).sum()),
    )


def _distinct(queries: Integers, answers: Integers) -> tuple[Integers, Integers]:
    """Equal answers to equal queries are judged once: rows of the distinct ones, and which of them each row is."""
    factors = np.random.default_rng(1).integers(1, 2**63, answers.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    # A wrapped sum of products names a row; two different rows share a name once in 2⁶⁴.
    names = queries.astype(np.uint64) * factors[-1]
    for column in range(answers.shape[1]):
        names += answers[:, column].astype(np.uint64) * factors[column]
    _, first, which = np.unique(names, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.astype(np.int64)


def _right(truth: Neighbours, asked: Integers, given: Integers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which returned vectors are near enough, and which of these only by a tie."""
    near = np.where(truth.distances <= truth.limits[:, None], truth.ids, -2)
    right = np.zeros(given.shape, dtype=np.bool_)
    ties = np.zeros(given.shape, dtype=np.bool_)
    for begin in range(0, len(given), _ROWS_AT_ONCE):
        part = slice(begin, begin + _ROWS_AT_ONCE)
        same = given[part][:, :, None] == near[asked[part]][:, None, :]
        right[part] = same.any(axis=2)
        ties[part] = same[:, :, truth.wanted :].any(axis=2)
    return right, ties


def _right_beyond(vectors: VectorSet, truth: Neighbours, asked: Integers, rest: Integers) -> NDArray[np.bool_]:
    """Which of the other returned vectors are as near as the k-th though they are not among our candidates."""
    right = np.zeros(rest.shape, dtype=np.bool_)
    row, place = np.nonzero((rest >= 0) & truth.is_open[asked][:, None])
    if not row.size:
        return right
    numbers = np.unique(rest[row, place])
    taken = vectors.take(numbers)
    rows = taken[np.searchsorted(numbers, rest[row, place])]
    near = distances(vectors.corpus.metric, vectors.queries[asked[row]], rows)
    right[row, place] = near <= truth.limits[asked[row]]
    return right
