"""Every request of a load in a few columns: enough to count a window again, also beside those of other machines."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.errors import MeasureError
from assay.run.load.http.recording import LoadRecording

REQUESTS = "requests.npz"
# In place of a moment that never came: times count from the begin of the window, so that 0 and less are moments.
NEVER = int(np.iinfo(np.int64).min)
SLOT_NS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class RequestRows:
    """One row per request; times in nanoseconds from the begin of a window."""

    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    """NEVER where nothing was sent."""
    end_ns: NDArray[np.int64]
    outcome: NDArray[np.int8]
    """Position in OUTCOMES, after the answers were read."""
    status: NDArray[np.int16]
    input_tokens: NDArray[np.int64]
    """-1 where they are not known."""
    output_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.due_ns)


@dataclass(frozen=True, slots=True, eq=False)
class RequestLog(RequestRows):
    """The requests of one machine, warm-up included; times count from the begin of the measured window."""

    good: NDArray[np.bool_]
    """Which of them met every objective by themselves; empty where that was not asked or could not be told."""
    arrived: NDArray[np.int64]
    """Output tokens that arrived in each millisecond of the window; empty where they could not be counted."""


def requests_of(
    recording: LoadRecording,
    outcome: NDArray[np.int8],
    *,
    input_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    good: NDArray[np.bool_] | None = None,
    piece_tokens: NDArray[np.int32] | None = None,
) -> RequestLog:
    """The columns of a load.

    Args:
        good: which requests met the objective; None where that could not be told.
    """
    begin, end = recording.window
    none = np.zeros(0, dtype=np.int64)
    return RequestLog(
        due_ns=recording.due_ns - begin,
        sent_ns=_moments(recording.sent_ns, begin),
        end_ns=_moments(recording.end_ns, begin),
        outcome=outcome.astype(np.int8),
        status=recording.status,
        input_tokens=input_tokens.astype(np.int64),
        output_tokens=output_tokens.astype(np.int64),
        good=none.astype(np.bool_) if good is None else good,
        arrived=none if piece_tokens is None else _by_slot(recording.piece_ns - begin, piece_tokens, end - begin),
    )


def write_requests(path: Path, requests: RequestLog) -> None:
    """Keep the columns in a file."""
    np.savez_compressed(path, **{one.name: getattr(requests, one.name) for one in fields(RequestLog)})


def read_requests(content: bytes) -> RequestLog:
    """The columns that a file holds.

    Raises:
        MeasureError: if it is not such a file.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as columns:
            return RequestLog(**{one.name: columns[one.name] for one in fields(RequestLog)})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise MeasureError(f"{REQUESTS} cannot be read: {problem}", code="requests") from None


def _moments(at_ns: NDArray[np.int64], begin: int) -> NDArray[np.int64]:
    return np.where(at_ns > 0, at_ns - begin, NEVER)


def _by_slot(at_ns: NDArray[np.int64], tokens: NDArray[np.int32], length_ns: int) -> NDArray[np.int64]:
    inside = (at_ns >= 0) & (at_ns < length_ns)
    slots = -(-max(length_ns, 1) // SLOT_NS)
    counted = np.bincount(at_ns[inside] // SLOT_NS, weights=tokens[inside], minlength=slots)
    return counted.astype(np.int64)
