"""What one request of a load took, as columns: a value per request, NaN where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from assay.run.load.http.recording import CODE, Recording
from assay.run.targets.served.rows import Rows

Column = NDArray[np.float64]
OK, UNFINISHED = CODE["ok"], CODE["unfinished"]


def column(name: str, recording: Recording, rows: Rows) -> Column:
    """One metric of every request.

    Only requests that ended well have one; but a first token that came counts even if its answer was cut off by the
    end of the run, or the slowest requests would go missing.
    """
    return _COLUMNS[name](recording, rows)


def is_column(name: str) -> bool:
    """Whether a metric has one value per request."""
    return name in _COLUMNS


def _between(begin: NDArray[np.int64], end: NDArray[np.int64], where: NDArray[np.bool_]) -> Column:
    """Milliseconds, where both moments were."""
    values = np.full(len(begin), np.nan)
    found = where & (end > 0) & (begin > 0)
    values[found] = (end[found] - begin[found]) / 1e6
    return values


def _ttft(recording: Recording, rows: Rows) -> Column:
    return _between(recording.due_ns, rows.first_ns, _begun(rows))


def _first_answer(recording: Recording, rows: Rows) -> Column:
    return _between(recording.due_ns, rows.answer_ns, _begun(rows) & rows.reasoned)


def _e2e(recording: Recording, rows: Rows) -> Column:
    return _between(recording.due_ns, recording.end_ns, rows.outcome == OK)


def _service(recording: Recording, rows: Rows) -> Column:
    return _between(recording.sent_ns, recording.end_ns, rows.outcome == OK)


def _delay(recording: Recording, rows: Rows) -> Column:
    # How late a request was sent says something about us, however the server answered it.
    return _between(recording.due_ns, recording.sent_ns, rows.outcome != CODE["skipped"])


def _tpot(_: Recording, rows: Rows) -> Column:
    took, after = _decoding(rows)
    values = np.full(len(took), np.nan)
    found = after > 0
    values[found] = took[found] / 1e6 / after[found]
    return values


def _user_speed(_: Recording, rows: Rows) -> Column:
    took, after = _decoding(rows)
    values = np.full(len(took), np.nan)
    found = (after > 0) & (took > 0)
    values[found] = after[found] / (took[found] / 1e9)
    return values


def _decoding(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nanoseconds from the first to the last arrival, and tokens after the first arrival; 0 where there is none.

    Tokens that the server kept to itself have no arrival and count for nothing here.
    """
    known = (rows.outcome == OK) & rows.streamed & (rows.output_tokens >= 0) & (rows.first_ns > 0)
    sent = rows.output_tokens.astype(np.int64) - np.maximum(rows.hidden_tokens, 0)
    after = np.where(known, np.maximum(sent - rows.first_tokens, 0), 0)
    return np.where(known, rows.last_ns - rows.first_ns, 0), after


def _input(_: Recording, rows: Rows) -> Column:
    return _counts(rows.input_tokens, rows)


def _output(_: Recording, rows: Rows) -> Column:
    return _counts(rows.output_tokens, rows)


def _counts(tokens: NDArray[np.int32], rows: Rows) -> Column:
    return np.where((rows.outcome == OK) & (tokens >= 0), tokens, np.nan)


def _begun(rows: Rows) -> NDArray[np.bool_]:
    begun: NDArray[np.bool_] = (rows.outcome == OK) | (rows.outcome == UNFINISHED)
    return begun


_COLUMNS: Mapping[str, Callable[[Recording, Rows], Column]] = {
    "ttft_ms": _ttft,
    "first_answer_ms": _first_answer,
    "tpot_ms": _tpot,
    "e2e_ms": _e2e,
    "latency_ms": _e2e,
    "service_ms": _service,
    "schedule_delay_ms": _delay,
    "input_tokens": _input,
    "output_tokens": _output,
    "user_tokens_per_s": _user_speed,
}
