"""The true nearest neighbours, kept for the next run, and the recall of answers beside them.

They are found in single precision, settled in double, and checked by a second method.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from assay.errors import MeasureError
from assay.files import write_whole
from assay.run.workloads.corpus import Floats, Integers, VectorSet, digest

Doubles = NDArray[np.float64]

# Raised when the same vectors could give another answer than before.
ORACLE = 1
# Queries in one matrix product: together with a block of vectors this stays below 100 MB.
QUERIES_AT_ONCE = 256
# Values of the pairs that are settled together: 8 MB in double precision.
PAIR_VALUES = 2**20
CHECKED = 8
_EPS32 = float(np.finfo(np.float32).eps)
_ARRAYS = ("ids", "distances", "tolerance", "is_open")
_NUMBERS = ("k", "left", "checked", "settled")
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The nearest vectors of every query, nearest first, with some beyond the k-th to settle ties."""

    k: int
    ids: Integers
    """Queries × candidates; -1 where there are no more vectors."""
    distances: Doubles
    """Smaller is nearer for every metric: 1 − cosine, squared distance, −dot; infinite where there is no vector."""
    tolerance: Doubles
    """Per query: what single precision cannot tell apart."""
    is_open: NDArray[np.bool_]
    """Whether a vector that is not among the candidates may be as near as the k-th."""
    left: int
    """Vectors that the filter leaves."""
    digest: str
    checked: int
    """Queries whose answer a second method confirmed."""
    settled: int
    """Queries that single precision could not decide and that were computed again in double precision."""

    @property
    def wanted(self) -> int:
        return min(self.k, self.left)

    @property
    def limits(self) -> Doubles:
        """Per query: the largest distance that counts as right."""
        return np.asarray(self.distances[:, self.wanted - 1] + self.tolerance, dtype=np.float64)


def find_neighbours(
    vectors: VectorSet, k: int, report_progress: Callable[[float], None] = lambda _: None
) -> Neighbours:
    """Compute the true neighbours of every query."""
    metric, queries = vectors.corpus.metric, vectors.queries
    wanted = min(k, vectors.left)
    candidates = min(vectors.left, wanted + max(16, wanted // 2))
    ids, rough, longest = _nearest(vectors, queries, candidates, np.float32, report_progress)
    exact = _settle(vectors, queries, ids)
    ids, exact = _ordered(ids, exact)
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    scale = _scale(metric, lengths, longest)
    # The worst that rounding in a sum of `dims` products can do; anything nearer than this may have been missed.
    doubt = 2 * vectors.corpus.dims * _EPS32 * scale
    # Whether a vector that was not kept could still be nearer than the k-th.
    unsure = (candidates < vectors.left) & (rough[:, -1] - doubt <= exact[:, wanted - 1])
    if unsure.any():
        again, _, _ = _nearest(vectors, queries[unsure], candidates, np.float64, report_progress)
        ids[unsure], exact[unsure] = _ordered(again, _settle(vectors, queries[unsure], again))
    tolerance = 4 * np.sqrt(vectors.corpus.dims) * _EPS32 * scale
    is_open = (candidates < vectors.left) & (exact[:, -1] <= exact[:, wanted - 1] + 2 * tolerance)
    checked = _check(vectors, ids[:, :wanted], exact[:, :wanted], tolerance)
    return Neighbours(k, ids, exact, tolerance, is_open, vectors.left, digest(vectors), checked, int(unsure.sum()))


def distances(metric: str, query: NDArray[Any], vectors: NDArray[Any]) -> Doubles:
    """Distances in double precision by the definition of the metric, one query (or one per row) and many vectors."""
    left, right = query.astype(np.float64), vectors.astype(np.float64)
    if metric == "euclid":
        right -= left
        return np.asarray(np.einsum("...i,...i->...", right, right), dtype=np.float64)
    products = np.einsum("...i,...i->...", right, left)
    if metric == "dot":
        return np.asarray(-products, dtype=np.float64)
    lengths = np.sqrt(np.einsum("...i,...i->...", left, left) * np.einsum("...i,...i->...", right, right))
    # A vector of no length has no direction; engines call it unlike everything.
    return np.asarray(1 - products / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


def _nearest(
    vectors: VectorSet, queries: Floats, kept: int, kind: type, report_progress: Callable[[float], None]
) -> tuple[Integers, Doubles, float]:
    """The `kept` best of all vectors by blocked matrix products, their rough distances, and the longest vector."""
    metric = vectors.corpus.metric
    asked: NDArray[Any] = queries.astype(kind)
    if metric == "cosine":
        asked = asked / np.maximum(np.linalg.norm(asked, axis=1, keepdims=True), np.finfo(kind).tiny)
    best = _Best(len(queries), kept)
    longest = 0.0
    for block in vectors.blocks():
        report_progress(block.first / vectors.corpus.vectors)
        here = np.flatnonzero(block.tags) if vectors.share is not None else np.arange(len(block))
        if not here.size:
            continue
        rows: NDArray[Any] = block.vectors[here].astype(kind, copy=False)
        squares = np.einsum("ij,ij->i", rows, rows)
        longest = max(longest, float(np.sqrt(squares.max())))
        if metric == "cosine":
            rows = rows / np.sqrt(np.maximum(squares, np.finfo(kind).tiny))[:, None]
        for begin in range(0, len(asked), QUERIES_AT_ONCE):
            part = slice(begin, begin + QUERIES_AT_ONCE)
            scores = asked[part] @ rows.T
            np.negative(scores, out=scores)
            if metric == "euclid":
                scores *= 2
                scores += squares
            best.offer(begin, scores, block.first + here)
    ids, rough = best.finish()
    if metric == "cosine":
        rough += 1
    elif metric == "euclid":
        rough += np.sum(queries.astype(np.float64) ** 2, axis=1)[:, None]
    return ids, rough, longest


class _Best:
    """The best candidates of every query so far; what comes later must beat the worst of them."""

    def __init__(self, queries: int, kept: int) -> None:
        self._kept = kept
        self._worst = np.full(queries, np.inf)
        self._ids: Integers = np.full((queries, kept), -1, dtype=np.int64)
        self._scores: Doubles = np.full((queries, kept), np.inf)

    def offer(self, begin: int, scores: NDArray[Any], numbers: Integers) -> None:
        """Look at the scores of some queries (from `begin` on) with the vectors of these numbers."""
        for row in np.flatnonzero(scores.min(axis=1) < self._worst[begin : begin + len(scores)]):
            query = begin + int(row)
            hits = np.flatnonzero(scores[row] < self._worst[query])
            pool = np.concatenate([self._scores[query], scores[row, hits].astype(np.float64)])
            names = np.concatenate([self._ids[query], numbers[hits]])
            if len(pool) > self._kept:
                chosen = np.argpartition(pool, self._kept - 1)[: self._kept]
                pool, names = pool[chosen], names[chosen]
            self._scores[query], self._ids[query] = pool, names
            self._worst[query] = pool.max()

    def finish(self) -> tuple[Integers, Doubles]:
        return _ordered(self._ids, self._scores)


def _settle(vectors: VectorSet, queries: Floats, ids: Integers) -> Doubles:
    """Distances of all candidates in double precision, by the definition."""
    exact: Doubles = np.full(ids.shape, np.inf)
    pairs = max(1, PAIR_VALUES // vectors.corpus.dims)
    for block in vectors.blocks():
        query, place = np.nonzero((ids >= block.first) & (ids < block.first + len(block)))
        for begin in range(0, len(query), pairs):
            part = slice(begin, begin + pairs)
            rows = block.vectors[ids[query[part], place[part]] - block.first]
            exact[query[part], place[part]] = distances(vectors.corpus.metric, queries[query[part]], rows)
    return exact


def _ordered(ids: Integers, scores: Doubles) -> tuple[Integers, Doubles]:
    """Nearest first, and by number where two are equally near."""
    by_id = np.argsort(ids, axis=1, kind="stable")
    ids, scores = np.take_along_axis(ids, by_id, axis=1), np.take_along_axis(scores, by_id, axis=1)
    order = np.argsort(scores, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _scale(metric: str, lengths: Doubles, longest: float) -> Doubles:
    """How large the numbers are that a distance is computed from."""
    if metric == "cosine":
        return np.ones(len(lengths))
    return np.asarray((lengths + longest) ** 2 if metric == "euclid" else lengths * longest, dtype=np.float64)


def _check(vectors: VectorSet, ids: Integers, exact: Doubles, tolerance: Doubles) -> int:
    """Compare some queries with a plain search through all vectors, by the definition and in double precision."""
    sample = np.unique(np.linspace(0, len(ids) - 1, min(CHECKED, len(ids))).astype(np.int64))
    wanted = ids.shape[1]
    nearest: Doubles = np.full((len(sample), wanted), np.inf)
    for block in vectors.blocks():
        rows = block.vectors if vectors.share is None else block.vectors[block.tags == 1]
        for place, query in enumerate(sample):
            here = distances(vectors.corpus.metric, vectors.queries[query], rows)
            nearest[place] = np.sort(np.concatenate([nearest[place], here]))[:wanted]
    wrong = np.abs(nearest - exact[sample]) > tolerance[sample][:, None]
    if wrong.any():
        query = int(sample[np.flatnonzero(wrong.any(axis=1))[0]])
        message = f"two ways to compute the true neighbours of query {query} disagree, so no recall can be trusted"
        raise MeasureError(message, code="oracle", try_="report this with the workload section of the file")
    return len(sample)


def known_neighbours(
    vectors: VectorSet, k: int, cache: Path | None, report_progress: Callable[[float], None]
) -> Neighbours:
    """The true neighbours, from the cache if they are there for exactly these vectors, else computed and kept.

    Args:
        cache: folder of the user's cache; None to compute them each time.
    """
    if cache is None:
        return find_neighbours(vectors, k, report_progress)
    key = hashlib.sha256(f"{vectors.key} {k} {ORACLE}".encode()).hexdigest()
    path = cache / "neighbours" / f"{key}.npz"
    cached = _read(path)
    # The digest is of the vectors as this machine makes them now: the truth of others is worth nothing.
    if cached is not None and cached.digest == digest(vectors):
        return cached
    neighbours = find_neighbours(vectors, k, report_progress)
    with suppress(OSError):  # a cache that cannot be written costs time, not the run
        _write(path, neighbours)
    return neighbours


def _read(path: Path) -> Neighbours | None:
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in _ARRAYS}
            numbers = {name: int(held[name]) for name in _NUMBERS}
            return Neighbours(**arrays, **numbers, digest=str(held["digest"]))  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _write(path: Path, neighbours: Neighbours) -> None:
    content = io.BytesIO()
    np.savez(content, **{name: getattr(neighbours, name) for name in (*_ARRAYS, *_NUMBERS, "digest")})
    write_whole(path, content.getbuffer())


@dataclass(frozen=True, slots=True, eq=False)
class AnswerRecall:
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


def judge(vectors: VectorSet, truth: Neighbours, queries: Integers, answers: Integers) -> AnswerRecall:
    """Compare answers with the truth.

    Args:
        answers: answers × k numbers of vectors, -1 where an answer is shorter.
    """
    if not len(answers):
        return AnswerRecall(np.zeros(0), 0, 0, 0, 0)
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
    return AnswerRecall(
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
