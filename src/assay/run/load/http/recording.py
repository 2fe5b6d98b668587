"""What clients of a load saw: packed rows and bodies in a file while the clock runs, columns afterwards."""

from __future__ import annotations

import io
import mmap
import os
import struct
import zipfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from assay.errors import MeasureError

Outcome = Literal[
    "ok", "skipped", "unfinished", "status", "refused", "unresolved", "tls", "proxy", "reset", "truncated",
    "malformed", "redirect", "timeout", "too-large", "content",
]  # fmt: skip
# How a request ended; the position is the code in the `outcome` column.
#   skipped      due while too many were open, and not sent
#   unfinished   still open when the run ended: cut off by us, judged by what had arrived
#   status       answered with a status of 400 or above
#   refused      no connection could be made       unresolved  the host's name is not known
#   reset        the connection broke before the answer began
#   truncated    the connection broke inside the answer
#   malformed    the answer is not HTTP            redirect    it pointed elsewhere, which is refused
#   timeout      not ended in time                 too-large   more bytes than an answer may have
#   content      HTTP was fine, its content was not what the protocol says (set after the run)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
CODE: dict[str, int] = {name: code for code, name in enumerate(OUTCOMES)}

WARMUP, MEASURE = 0, 1
_BOUNDS = ("pieces", "body")
COLUMNS = (
    "session", "turn", "client", "phase", "stage", "due_ns", "sent_ns", "first_ns", "end_ns", "status", "outcome",
    "fresh", "sent_bytes", "head", "piece_ns", "piece_end", *_BOUNDS,
)  # fmt: skip
_ROW = struct.Struct("<qihbbhhBxiqqqqqqqq")
_DTYPE = np.dtype([
    ("session", "<i8"), ("turn", "<i4"), ("client", "<i2"), ("phase", "i1"), ("outcome", "i1"), ("stage", "<i2"),
    ("status", "<i2"), ("fresh", "u1"), ("pad", "u1"), ("head", "<i4"), ("due_ns", "<i8"), ("sent_ns", "<i8"),
    ("first_ns", "<i8"), ("end_ns", "<i8"), ("sent_bytes", "<i8"), ("pieces", "<i8"), ("parts", "<i8"),
    ("bytes", "<i8"),
])  # fmt: skip
# Columns of a recording that are columns of the packed rows.
_PACKED = ("session", "turn", "client", "phase", "stage", "due_ns", "sent_ns", "first_ns", "end_ns", "status",
           "outcome", "sent_bytes", "head")  # fmt: skip
_FLUSH = 256 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class LoadRecording:
    """All requests of one load, in the order in which they ended. Times are of `time.perf_counter_ns`; 0 is never.

    Rows of several clients on one machine share that clock and can be joined.
    """

    session: NDArray[np.int64]
    """Which item of the workload: requests count up from 0, and the turns of a conversation share one number."""
    turn: NDArray[np.int32]
    """Turn of the conversation, 0 for a single request."""
    client: NDArray[np.int16]
    phase: NDArray[np.int8]
    """WARMUP or MEASURE, by when the request was due."""
    stage: NDArray[np.int16]
    """Part of a load with stages that it was due in, 0 without."""
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    first_ns: NDArray[np.int64]
    """First byte of the answer's body."""
    end_ns: NDArray[np.int64]
    """Last byte, or the moment of failure."""
    status: NDArray[np.int16]
    outcome: NDArray[np.int8]
    """Position in OUTCOMES."""
    fresh: NDArray[np.bool_]
    """Whether a new connection had to be made for it."""
    sent_bytes: NDArray[np.int64]
    pieces: NDArray[np.int64]
    """n+1 bounds: row i has the pieces pieces[i] to pieces[i+1]."""
    body: NDArray[np.int64]
    """n+1 bounds of each row's bytes in `content`."""
    head: NDArray[np.int32]
    """How many of a row's bytes are kept header lines (`name: value\\n`, names in lower case), the last `problem`
    with our own words where a request failed; the body follows."""
    piece_ns: NDArray[np.int64]
    """When each piece of a body arrived."""
    piece_end: NDArray[np.int64]
    """Where it ends inside its row's body (without the head)."""
    content: memoryview
    window: tuple[int, int]
    """Begin and end of the measured window."""
    clients: tuple[ClientCost, ...] = ()
    stopped: str = "finished"
    """Why it ended: finished, errors, saturated, cancelled or budget, with a sentence after a colon."""

    def __len__(self) -> int:
        return len(self.due_ns)

    def body_of(self, row: int) -> memoryview:
        return self.content[int(self.body[row]) + int(self.head[row]) : int(self.body[row + 1])]

    def let_go(self, row: int) -> None:
        """Give back the memory of all answers before a row; they lie in a file, and come back when read again."""
        mapping, page = self.content.obj, mmap.PAGESIZE
        end = int(self.body[row]) // page * page
        if end and isinstance(mapping, mmap.mmap) and hasattr(mapping, "madvise"):
            mapping.madvise(mmap.MADV_DONTNEED, 0, end)

    def header_of(self, row: int, name: str) -> str | None:
        head = bytes(self.content[int(self.body[row]) : int(self.body[row]) + int(self.head[row])])
        for line in head.decode("latin-1").splitlines():
            key, _, value = line.partition(": ")
            if key == name:
                return value
        return None

    def pieces_of(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """When the pieces of an answer arrived, and where each ends in its body."""
        low, high = int(self.pieces[row]), int(self.pieces[row + 1])
        return self.piece_ns[low:high], self.piece_end[low:high]

    def measured(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.phase == MEASURE)


@dataclass(frozen=True, slots=True)
class ClientCost:
    """What one client process used in the measured window, and what it did for it."""

    client: int
    wall_s: float
    cpu_s: float
    requests: int
    pieces: int
    lag_p99_ms: float
    """How long it was busy before it looked at the network again: 99 of 100 turns of its loop were shorter."""
    lag_max_ms: float
    waited_s: float | None = None
    """How long it was ready to run and got no processor; None where the system does not say."""
    resent: int = 0
    """Requests that met a connection which the server had just closed, and were sent again; their time counts from when
    they were due."""
    ceiling_share: float | None = None
    """Share of what this client can do on this machine, from its cost per request and per piece."""


def client_metrics(costs: Sequence[ClientCost]) -> dict[str, float]:
    """What the busiest client process went through: its processor time, its share of the ceiling, its lag."""
    if not costs:
        return {}
    metrics = {
        "client_cpu_pct": max(100 * cost.cpu_s / cost.wall_s for cost in costs),
        "loop_lag_ms": max(cost.lag_p99_ms for cost in costs),
    }
    waits = [cost.waited_s / cost.wall_s for cost in costs if cost.waited_s is not None]
    metrics |= {"client_wait_pct": 100 * max(waits)} if waits else {}
    shares = [cost.ceiling_share for cost in costs if cost.ceiling_share is not None]
    return metrics | ({"client_ceiling_pct": 100 * max(shares)} if shares else {})


def join(parts: Sequence[LoadRecording], content: memoryview) -> LoadRecording:
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS if name not in _BOUNDS
    }
    bounds: dict[str, Any] = {
        name: bounds_of(np.concatenate([np.diff(getattr(part, name)) for part in parts])) for name in _BOUNDS
    }
    return replace(
        parts[0],
        **columns,
        **bounds,
        content=content,
        window=(min(part.window[0] for part in parts), max(part.window[1] for part in parts)),
        clients=tuple(cost for part in parts for cost in part.clients),
        stopped=next((part.stopped for part in parts if part.stopped != "finished"), "finished"),
    )


def bounds_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


class RequestColumns:
    """Grows by appending only; bodies leave memory for a file as they come."""

    def __init__(self, spool: Path) -> None:
        self.rows = 0
        self.row_bytes = bytearray(_ROW.size * 4096)
        self.piece_ns = array("q")
        self.piece_part = array("q")  # how many parts of its body had arrived with each piece
        self.part_len = array("q")
        self._content = bytearray()
        self._path = spool
        self._file = os.open(spool, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)

    def add(
        self,
        session: int,
        turn: int,
        client: int,
        phase: int,
        outcome: int,
        stage: int,
        status: int,
        fresh: bool,
        head: bytes,
        due: int,
        sent: int,
        first: int,
        end: int,
        sent_bytes: int,
        times: list[int],
        marks: list[int],
        parts: list[bytes],
    ) -> None:
        offset = self.rows * _ROW.size
        if offset == len(self.row_bytes):
            self.row_bytes.extend(bytes(len(self.row_bytes)))
        size = len(head)
        if parts:
            lengths = array("q", map(len, parts))
            size += sum(lengths)
            self.part_len += lengths
            self.piece_ns.extend(times)
            self.piece_part.extend(marks)
        _ROW.pack_into(
            self.row_bytes,
            offset,
            session,
            turn,
            client,
            phase,
            outcome,
            stage,
            status,
            fresh,
            len(head),
            due,
            sent,
            first,
            end,
            sent_bytes,
            len(marks),
            len(parts),
            size,
        )
        self.rows += 1
        content = self._content
        content += head
        for part in parts:
            content += part
        if len(content) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        view = memoryview(self._content)
        while view:
            view = view[os.write(self._file, view) :]
        view.release()
        self._content.clear()

    def finish(self, window: tuple[int, int], cost: ClientCost, stopped: str) -> LoadRecording:
        """Everything in columns; the columns share memory with what was collected."""
        self._flush()
        rows = np.frombuffer(self.row_bytes, dtype=_DTYPE, count=self.rows)
        parts = bounds_of(rows["parts"])
        pieces = bounds_of(rows["pieces"])
        lengths = bounds_of(np.frombuffer(self.part_len, dtype=np.int64) if self.part_len else np.zeros(0, np.int64))
        first_part = np.repeat(parts[:-1], rows["pieces"])
        marks = np.frombuffer(self.piece_part, dtype=np.int64) if self.piece_part else np.zeros(0, np.int64)
        packed: dict[str, Any] = {name: rows[name].copy() for name in _PACKED}
        return LoadRecording(
            **packed,
            fresh=rows["fresh"].astype(np.bool_),
            pieces=pieces,
            body=bounds_of(rows["bytes"]),
            piece_ns=np.frombuffer(self.piece_ns, dtype=np.int64) if self.piece_ns else np.zeros(0, np.int64),
            piece_end=lengths[first_part + marks] - lengths[first_part],
            content=mapped(self._file),
            window=window,
            clients=(cost,),
            stopped=stopped,
        )

    def close(self) -> None:
        """Let go of the file; what was mapped stays readable."""
        os.close(self._file)
        self._path.unlink(missing_ok=True)


def mapped(file: int) -> memoryview:
    """The content of a file without reading it into memory."""
    if os.fstat(file).st_size == 0:
        return memoryview(b"")
    return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))


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
    """Which of them met every objective by themselves; empty where that was not asked or is not known."""
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
        good: which requests met the objective; None where that is not known.
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
    np.savez_compressed(path, **{column.name: getattr(requests, column.name) for column in fields(RequestLog)})


def read_requests(content: bytes) -> RequestLog:
    """The columns that a file holds."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as columns:
            return RequestLog(**{column.name: columns[column.name] for column in fields(RequestLog)})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise MeasureError(f"{REQUESTS} cannot be read: {problem}", code="requests") from None


def _moments(at_ns: NDArray[np.int64], begin: int) -> NDArray[np.int64]:
    return np.where(at_ns > 0, at_ns - begin, NEVER)


def _by_slot(at_ns: NDArray[np.int64], tokens: NDArray[np.int32], length_ns: int) -> NDArray[np.int64]:
    inside = (at_ns >= 0) & (at_ns < length_ns)
    slots = -(-max(length_ns, 1) // SLOT_NS)
    counted = np.bincount(at_ns[inside] // SLOT_NS, weights=tokens[inside], minlength=slots)
    return counted.astype(np.int64)
