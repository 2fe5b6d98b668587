"""How much better a series is explained by a change than without one, for every place and every memory together.

The model is a level, perhaps with a change, plus noise that remembers its past: each deviation keeps the share ρ of the
one before it. For a fixed ρ that is generalised least squares, and all sums come from running totals. ρ is not known,
so the likelihood is averaged over a grid: a series that wanders can be explained by memory or by a change, and only
what memory cannot explain counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Places = NDArray[np.intp]

# Benchmarks that swing back and forth are treated like independent ones: that errs to the safe side.
MEMORIES: Values = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
_START: Values = np.sqrt(1 - MEMORIES**2)
_LOG_START: Values = np.log1p(-(MEMORIES**2))
_R: Values = MEMORIES[:, None]
# Exact steps without noise leave nothing over; a share of the spread this small is as good as nothing.
_NOTHING = 1e-12


class Gain(NamedTuple):
    """What a change explains, per memory (rows) and place (columns)."""

    size: Values
    """The change itself, on the scale of the values."""
    information: Values
    """One over the variance of `size`, in units of the noise."""
    left: Values
    """What stays unexplained."""


@dataclass(frozen=True, slots=True)
class Whitened:
    """A piece of a series with the memory taken out, for each memory of the grid."""

    count: int
    weights: Values
    """One over the relative spread of each point."""
    values: Values
    level: Values
    """The column of the level, whitened."""
    values_sum: Values
    """Running totals of level × values, with a zero in front."""
    level_sum: Values
    """Running totals of level × level, with a zero in front."""
    left: Values
    """What a level alone leaves unexplained."""

    @classmethod
    def of(cls, values: Values, weights: Values) -> Whitened:
        """Take the memory out of values, which should be centred and of spread one."""
        y, u = _whitened(values * weights), _whitened(weights)
        uy, uu = _totals(u * y), _totals(u * u)
        left = np.einsum("rn,rn->r", y, y) - uy[:, -1] ** 2 / uu[:, -1]
        return cls(values.size, weights, y, u, uy, uu, np.maximum(left, _NOTHING * values.size))

    @property
    def unchanged(self) -> Values:
        """Minus twice the log-likelihood of each memory where nothing changes."""
        return _cost(self.left, self.count)

    @property
    def _two_memories(self) -> Places:
        """Rows of the memory that the piece seems to have, and of half of it: a change makes it seem larger."""
        row = int(self.unchanged.argmin())
        return np.array([row // 2, row])

    def splits(self, rows: Places | slice = slice(None)) -> Gain:
        """A step before each point but the first: place p is a step between points p and p + 1."""
        u, y = self.weights[1:], self.values[rows, 1:]
        level_sum, values_sum = self.level_sum[rows], self.values_sum[rows]
        tail = level_sum[:, -1:] - level_sum[:, 2:]
        vy = u * y + values_sum[:, -1:] - values_sum[:, 2:]
        return self._gain(vy, u * u + tail, u * self.level[rows, 1:] + tail, rows)

    def spans(self, first: Places, end: Places) -> Gain:
        """Another level from `first` up to but without `end`, for each pair; both inside the piece."""
        return self._spans(first, end, np.arange(MEMORIES.size))

    def likely_spans(self, first: Places, end: Places, most: int) -> Places:
        """The most promising of many spans, by two memories: that of the piece, and half of it."""
        rows = self._two_memories
        gain = self._spans(first, end, rows)
        if first.size <= most:
            return np.arange(first.size)
        explained = gain.size * gain.size * gain.information / self.left[rows, None]
        return np.unique(np.argpartition(explained, -most, axis=1)[:, -most:])

    def step_pairs(self, most: int) -> tuple[Places, Places]:
        """Spans between the `most` places where a step alone looks clearest; by the same two memories.

        Where a series remembers, a span must have its ends at the very points: between them little is seen of it. Where
        it does not, there is none to try.
        """
        rows = self._two_memories
        if not rows.any():
            return np.empty(0, np.intp), np.empty(0, np.intp)
        gain = self.splits(rows)
        places = []
        for explained in gain.size**2 * gain.information:
            peaks = 1 + np.flatnonzero((explained[1:-1] >= explained[:-2]) & (explained[1:-1] >= explained[2:]))
            places.append(1 + peaks[np.argsort(explained[peaks])[-most:]])
        ends = np.unique(np.concatenate(places))
        first, end = np.triu_indices(ends.size, 1)
        return ends[first], ends[end]

    def _spans(self, first: Places, end: Places, rows: Places) -> Gain:
        u, back = self.weights[first], _R[rows] * self.weights[end - 1]
        level, values = self.level[rows], self.values[rows]
        level_sum, values_sum = self.level_sum[rows], self.values_sum[rows]
        inner = level_sum[:, end] - level_sum[:, first + 1]
        vy = u * values[:, first] + values_sum[:, end] - values_sum[:, first + 1] - back * values[:, end]
        vv = u * u + inner + back * back
        return self._gain(vy, vv, u * level[:, first] + inner - back * level[:, end], rows)

    def shapes(self, columns: Values) -> Gain:
        """A change of any shape, one per row of `columns`."""
        y, u = (_unwhitened(side) for side in (self.values, self.level))
        shape = columns * self.weights
        squares, pairs = (shape**2).sum(1), (shape[:, 1:] * shape[:, :-1]).sum(1)
        ends = shape[:, 0] ** 2 + shape[:, -1] ** 2
        vv = (1 + _R**2) * squares - _R**2 * ends - 2 * _R * pairs
        return self._gain(np.einsum("sn,rn->rs", shape, y), vv, np.einsum("sn,rn->rs", shape, u))

    def cost(self, gain: Gain) -> Values:
        """Minus twice the log-likelihood of each memory with each change."""
        return _cost(gain.left, self.count)

    def _gain(self, vy: Values, vv: Values, uv: Values, rows: Places | slice = slice(None)) -> Gain:
        whole = self.level_sum[rows, -1:]
        information = np.maximum(vv - uv * uv / whole, _NOTHING)
        size = (vy - uv * (self.values_sum[rows, -1:] / whole)) / information
        left = self.left[rows, None] - size * size * information
        return Gain(size, information, np.maximum(left, _NOTHING * self.count))


class ChangeEvidence(NamedTuple):
    """How clearly a change is seen at each place, with what is known of the memory."""

    score: Values
    """Twice the log of the ratio of likelihoods, averaged over memories, per place."""
    memory: float
    """The memory that a series without change would have."""


def evidence(piece: Whitened, gain: Gain, elsewhere: Values | None = None) -> ChangeEvidence:
    """Weigh each change against none.

    Args:
        elsewhere: Minus twice the log-likelihood of each memory in other pieces of the same series, where known.
    """
    outside_cost = np.zeros(MEMORIES.size) if elsewhere is None else elsewhere
    without = piece.unchanged + outside_cost
    share = np.exp((float(without.min()) - without) / 2)
    score = averaged_ratio(without, piece.cost(gain) + outside_cost[:, None])
    return ChangeEvidence(score, float(share @ MEMORIES) / float(share.sum()))


def averaged_ratio(without: Values, with_change: Values) -> Values:
    """Twice the log of the ratio of likelihoods of each change, averaged over the models of the noise.

    Args:
        without: Minus twice the log-likelihood of each model where nothing changes.
        with_change: The same with each change: one row per model.
    """
    least = float(without.min())
    # A change can be so clear that its ratio is beyond what a float can hold.
    cost = least - with_change
    most = cost.max(axis=0)
    total = float(np.exp((least - without) / 2).sum())
    return np.asarray(most + 2 * np.log(np.exp((cost - most) / 2).sum(axis=0) / total))


def evidence_memory(piece: Whitened) -> float:
    """The memory that a series without change would have."""
    without = piece.unchanged
    share = np.exp((without.min() - without) / 2)
    return float(share @ MEMORIES / share.sum())


def ramps(pairs: Places, count: int) -> Values:
    """One row per pair: zero up to its begin, one from its end on, and a straight line between."""
    first, last = pairs[:, :1], pairs[:, 1:]
    return np.clip((np.arange(count) - first) / (last - first), 0.0, 1.0)


def memory_with(piece: Whitened, gain: Gain, place: int) -> float:
    """The memory that is left once the change at a place is taken out."""
    cost = _cost(gain.left[:, place], piece.count)
    share = np.exp((cost.min() - cost) / 2)
    return float(share @ MEMORIES / share.sum())


@lru_cache(maxsize=64)
def seeded(count: int, least: int) -> tuple[Places, Places]:
    """Spans to try inside a piece, with some points before and after: short ones everywhere, long ones sparsely."""
    first, end = [], []
    length = float(least)
    while length <= min(count / 2, count - 2 * least):
        size = int(length)
        starts = np.arange(least, count - size - least + 1, max(1, size // 4))
        first.append(starts)
        end.append(starts + size)
        length = max(length + 1, length * 1.3)
    if not first:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    return np.concatenate(first).astype(np.intp), np.concatenate(end).astype(np.intp)


def _whitened(column: Values) -> Values:
    """What each point adds to what its predecessor predicts."""
    out = np.empty((MEMORIES.size, column.size))
    out[:, 1:] = column[1:] - _R * column[:-1]
    out[:, 0] = _START * column[0]
    return out


def _unwhitened(column: Values) -> Values:
    """The transposed step: inner products with it are those of whitened columns."""
    out = column.copy()
    out[:, 0] *= _START
    out[:, :-1] -= _R * column[:, 1:]
    return out


def _totals(rows: Values) -> Values:
    out = np.zeros((rows.shape[0], rows.shape[1] + 1))
    np.cumsum(rows, axis=1, out=out[:, 1:])
    return out


def _cost(left: Values, count: int) -> Values:
    start = _LOG_START if left.ndim == 1 else _LOG_START[:, None]
    return np.asarray(count * np.log(left) - start)
