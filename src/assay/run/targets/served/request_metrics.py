"""What one request of a load took, the gaps between its tokens, and whether it met the objective.

Columns hold a value per request, NaN where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.metrics import METRICS
from assay.run.load.http.recording import CODE, LoadRecording
from assay.run.targets.served.rows import Rows

Column = NDArray[np.float64]
OK, UNFINISHED, SKIPPED = CODE["ok"], CODE["unfinished"], CODE["skipped"]
_QUANTILES = {"median": 0.5, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
# A key for sorting holds the row above and a time below: 2^42 ns are more than an hour.
_TIME_BITS = 42
_ROWS_AT_ONCE = 1 << 20
_BY_GAP = ("itl_ms", "chunk_gap_ms")


def column(name: str, recording: LoadRecording, rows: Rows) -> Column:
    """One metric of every request.

    Only requests that ended well have one; but a first token that came counts even if its answer was cut off by the
    end of the run, or the slowest requests would go missing.
    """
    return _COLUMNS[name](recording, rows)


def is_column(name: str) -> bool:
    return name in _COLUMNS


def _between(begin: NDArray[np.int64], end: NDArray[np.int64], where: NDArray[np.bool_]) -> Column:
    """Milliseconds, where both moments were."""
    values = np.full(len(begin), np.nan)
    valid = where & (end > 0) & (begin > 0)
    values[valid] = (end[valid] - begin[valid]) / 1e6
    return values


def _tpot(rows: Rows) -> Column:
    took, after = _decoding(rows)
    values = np.full(len(took), np.nan)
    valid = after > 0
    values[valid] = took[valid] / 1e6 / after[valid]
    return values


def _user_speed(rows: Rows) -> Column:
    took, after = _decoding(rows)
    values = np.full(len(took), np.nan)
    valid = (after > 0) & (took > 0)
    values[valid] = after[valid] / (took[valid] / 1e9)
    return values


def _decoding(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nanoseconds from the first to the last arrival, and tokens after the first arrival; 0 where there is none.

    Tokens that the server kept to itself have no arrival and count for nothing here.
    """
    valid = (rows.outcome == OK) & rows.streamed & (rows.output_tokens >= 0) & (rows.first_ns > 0)
    sent = rows.output_tokens.astype(np.int64) - np.maximum(rows.hidden_tokens, 0)
    after = np.where(valid, np.maximum(sent - rows.first_tokens, 0), 0)
    return np.where(valid, rows.last_ns - rows.first_ns, 0), after


def _counts(tokens: NDArray[np.int32], rows: Rows) -> Column:
    return np.where((rows.outcome == OK) & (tokens >= 0), tokens, np.nan)


def _begun(rows: Rows) -> NDArray[np.bool_]:
    begun: NDArray[np.bool_] = (rows.outcome == OK) | (rows.outcome == UNFINISHED)
    return begun


def _e2e(recording: LoadRecording, rows: Rows) -> Column:
    return _between(recording.due_ns, recording.end_ns, rows.outcome == OK)


_COLUMNS: Mapping[str, Callable[[LoadRecording, Rows], Column]] = {
    "ttft_ms": lambda seen, rows: _between(seen.due_ns, rows.first_ns, _begun(rows)),
    "first_answer_ms": lambda seen, rows: _between(seen.due_ns, rows.answer_ns, _begun(rows) & rows.reasoned),
    "tpot_ms": lambda _, rows: _tpot(rows),
    "e2e_ms": _e2e,
    "latency_ms": _e2e,
    "service_ms": lambda seen, rows: _between(seen.sent_ns, seen.end_ns, rows.outcome == OK),
    # How late a request was sent says something about us, however the server answered it.
    "schedule_delay_ms": lambda seen, rows: _between(seen.due_ns, seen.sent_ns, rows.outcome != SKIPPED),
    "input_tokens": lambda _, rows: _counts(rows.input_tokens, rows),
    "output_tokens": lambda _, rows: _counts(rows.output_tokens, rows),
    "user_tokens_per_s": lambda _, rows: _user_speed(rows),
}


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


def token_gaps(recording: LoadRecording, rows: Rows) -> Gaps:
    return _gaps(recording, rows, rows.piece_tokens > 0, rows.piece_tokens)


def chunk_gaps(recording: LoadRecording, rows: Rows) -> Gaps:
    return _gaps(recording, rows, rows.piece_events > 0, None)


def _gaps(recording: LoadRecording, rows: Rows, arrived: NDArray[np.bool_], tokens: NDArray[np.int32] | None) -> Gaps:
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
        quantiles: NDArray[np.float64] = times[below] + (at - below) * (times[above] - times[below])
        return quantiles
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


@dataclass(frozen=True, slots=True, eq=False)
class GoodRequests:
    """Which requests were good, and by which of the objectives."""

    good: NDArray[np.bool_]
    """For each request of the recording."""
    by: tuple[str, ...]
    """Objectives that a request can meet by itself."""
    ignored: Mapping[str, JsonValue] = field(default_factory=dict)
    """Objective → why it says nothing about one request."""
    absent: str = ""
    """Why nothing could be judged."""


def judge(recording: LoadRecording, rows: Rows, objective: Mapping[str, float]) -> GoodRequests:
    """Hold each request against the limits; one that failed or did not end is not good.

    A request that has no value, such as the time per token of an answer of one token, breaks no limit; but where no
    request at all has one, the result is unknown.
    """
    good = rows.outcome == OK
    if not objective:
        return GoodRequests(good, (), absent="the file has no objective that a request could meet")
    by: list[str] = []
    ignored: dict[str, JsonValue] = {}
    for key, limit in objective.items():
        metric, _, statistic = key.rpartition(".")
        reason = _not_of_one_request(metric, statistic)
        if reason:
            ignored[key] = reason
            continue
        values = _values(metric, statistic, recording, rows)
        ended = rows.outcome == OK
        if ended.any() and np.isnan(values[ended]).all() and not _may_lack(metric, rows, ended):
            return GoodRequests(good & False, tuple(by), ignored, f"no request has {metric}, so {key} cannot be judged")
        by.append(key)
        worse = values > limit if METRICS[metric].better == "lower" else values < limit
        good = good & ~worse
        if metric == "first_answer_ms":
            good = good & (rows.answer_ns > 0)
    if not by:
        return GoodRequests(good, (), ignored, "no objective is about single requests")
    return GoodRequests(good, tuple(by), ignored)


def _not_of_one_request(metric: str, statistic: str) -> str:
    if not is_column(metric) and metric not in _BY_GAP:
        return "not a time of one request"
    if METRICS[metric].better is None:
        return "has no direction"
    if statistic == "std" and metric not in _BY_GAP:
        return "one request has no spread"
    return ""


def _values(metric: str, statistic: str, recording: LoadRecording, rows: Rows) -> NDArray[np.float64]:
    if metric == "itl_ms":
        return statistic_by_row(token_gaps(recording, rows), statistic, len(recording))
    if metric == "chunk_gap_ms":
        return statistic_by_row(chunk_gaps(recording, rows), statistic, len(recording))
    if metric == "first_answer_ms":  # without reasoning, the first token is the first of the answer
        answered = (rows.outcome == OK) & (rows.answer_ns > 0)
        return np.where(answered, (rows.answer_ns - recording.due_ns) / 1e6, np.nan)
    return column(metric, recording, rows)


def _may_lack(metric: str, rows: Rows, ended: NDArray[np.bool_]) -> bool:
    """Whether a whole load may have no value without anything being wrong: answers of one arrival have no gaps."""
    if metric not in (*_BY_GAP, "tpot_ms", "user_tokens_per_s"):
        return False
    return bool((rows.streamed[ended] & (rows.output_tokens[ended] >= 0)).all())
