"""Reads what a simulated server recorded, as columns of numpy."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SimRecord:
    """All answers that have ended, in that order. Times are of the server's `time.perf_counter_ns`; 0 is never."""

    number: Column
    """Counted from 0 in the order of arrival; `x-request-id` is `sim-` and twelve digits of it."""
    arrival_ns: Column
    """Last byte of the request."""
    start_ns: Column
    """When work on it began: later than its arrival where it waited for a slot."""
    first_ns: Column
    """First chunk with tokens."""
    last_ns: Column
    """Last chunk with tokens."""
    end_ns: Column
    """Last byte of the answer."""
    status: Column
    tokens: Column
    """Tokens that were written, reasoning among them."""
    prompt_tokens: Column
    outcome: Column
    """Position in `outcomes`: ok, fault (on purpose), refused (the request was wrong), aborted (by the client)."""
    connection: Column
    """Which connection it came by, counted from 0."""
    chunks: Column
    """n+1 bounds: row i has the chunks chunks[i] to chunks[i+1]."""
    chunk_ns: Column
    """When each chunk was written."""
    chunk_due_ns: Column
    """When the script says that it should have been."""
    chunk_tokens: Column
    outcomes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def ttft_s(self) -> NDArray[np.float64]:
        """Seconds from the arrival to the first token, of the answers that have one."""
        has_token = self.first_ns > 0
        gaps: NDArray[np.float64] = (self.first_ns[has_token] - self.arrival_ns[has_token]) / 1e9
        return gaps

    @property
    def late_s(self) -> NDArray[np.float64]:
        """Seconds by which each chunk was later than planned: how exact the server was."""
        late: NDArray[np.float64] = (self.chunk_ns - self.chunk_due_ns) / 1e9
        return late

    def chunks_of(self, row: int) -> tuple[Column, Column]:
        """When the chunks of an answer were written, and how many tokens each has."""
        part = slice(int(self.chunks[row]), int(self.chunks[row + 1]))
        return self.chunk_ns[part], self.chunk_tokens[part]


def read_records(content: bytes) -> SimRecord:
    """Read the answer of `GET /sim/records?format=binary`."""
    line, _, rest = content.partition(b"\n")
    header = json.loads(line)
    columns: dict[str, Column] = {}
    at = 0
    for name, length in header["columns"].items():
        columns[name] = np.frombuffer(rest, np.int64, length, at)
        at += 8 * length
    return SimRecord(**columns, outcomes=tuple(header["outcomes"]))
