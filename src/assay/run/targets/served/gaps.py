"""Times between arrivals inside answers: every token gap is a sample, not one average per request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.run.load.http.recording import Recording
from assay.run.targets.served.requests import OK
from assay.run.targets.served.rows import Rows

_QUANTILES = {"median": 0.5, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
# A key for sorting holds the row above and a time below: 2^42 ns are more than an hour.
_TIME_BITS = 42
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Arrivals after the first of each answer, in the order of the recording."""

    row: NDArray[np.int64]
    at_ns: NDArray[np.int64]
    """When it arrived."""
    gap_ns: NDArray[np.int64]
    """Time since the arrival before it in the same answer."""
    tokens: NDArray[np.int64]
    """Tokens that came with it; 1 for gaps between chunks."""


def token_gaps(recording: Recording, rows: Rows) -> Gaps:
    """Gaps between arrivals of tokens."""
    return _gaps(recording, rows, rows.piece_tokens > 0, rows.piece_tokens)


def chunk_gaps(recording: Recording, rows: Rows) -> Gaps:
    """Gaps between arrivals of text."""
    return _gaps(recording, rows, rows.piece_events > 0, None)


def _gaps(recording: Recording, rows: Rows, arrived: NDArray[np.bool_], tokens: NDArray[np.int32] | None) -> Gaps:
    """The tokens of a first arrival end no gap, so they give none."""
    at = np.flatnonzero(arrived)
    owner = np.searchsorted(recording.pieces, at, side="right") - 1
    keep = (rows.outcome[owner] == OK) & rows.streamed[owner]
    at, owner = at[keep], owner[keep]
    later = np.flatnonzero(owner[1:] == owner[:-1]) + 1
    times = recording.piece_ns[at]
    counts = np.ones(len(later), dtype=np.int64) if tokens is None else tokens[at[later]].astype(np.int64)
    return Gaps(owner[later], times[later], times[later] - times[later - 1], counts)


def samples(gaps: Gaps, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Arrival and milliseconds of each token, by arrival: k tokens after a gap g are k samples of g / k."""
    some = np.flatnonzero(chosen)
    some = some[np.argsort(gaps.at_ns[some], kind="stable")]
    tokens = gaps.tokens[some]
    return np.repeat(gaps.at_ns[some], tokens), np.repeat(gaps.gap_ns[some] / tokens / 1e6, tokens)


def statistic_by_row(gaps: Gaps, statistic: str, size: int) -> NDArray[np.float64]:
    """A statistic of the gaps of each request by itself, in ms; NaN where a request has none."""
    values = np.full(size, np.nan)
    for low in range(0, size, _ROWS_AT_ONCE):
        begin, end = np.searchsorted(gaps.row, [low, min(low + _ROWS_AT_ONCE, size)])
        if begin == end:
            continue
        tokens = gaps.tokens[begin:end]
        owner = np.repeat(gaps.row[begin:end] - low, tokens)
        key = np.repeat(np.minimum(gaps.gap_ns[begin:end] // tokens, (1 << _TIME_BITS) - 1), tokens)
        key |= owner << _TIME_BITS
        key.sort()
        owner = key >> _TIME_BITS
        times = (key & ((1 << _TIME_BITS) - 1)).astype(np.float64)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        values[low + owner[starts]] = _statistic(times, starts, statistic) / 1e6
    return values


def _statistic(times: NDArray[np.float64], starts: NDArray[np.int64], name: str) -> NDArray[np.float64]:
    """One statistic of each group of sorted values."""
    counts = np.diff(starts, append=len(times))
    if name in _QUANTILES:
        at = starts + (counts - 1) * _QUANTILES[name]
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, starts + counts - 1)
        found: NDArray[np.float64] = times[below] + (at - below) * (times[above] - times[below])
        return found
    if name == "min":
        return times[starts]
    if name == "max":
        return times[starts + counts - 1]
    mean: NDArray[np.float64] = np.add.reduceat(times, starts) / counts
    if name == "mean":
        return mean
    off = times - np.repeat(mean, counts)
    spread: NDArray[np.float64] = np.sqrt(np.add.reduceat(off * off, starts) / np.maximum(counts - 1, 1))
    return spread
