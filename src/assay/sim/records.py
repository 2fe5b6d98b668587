"""What the server did, in columns: one row per answer, one per chunk. Times are of `time.perf_counter_ns`."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence

# How an answer ended; the position is the code in the `outcome` column.
OUTCOMES = ("ok", "fault", "refused", "aborted")
# Columns with one value per answer, in the order in which they are sent.
ROWS = (
    "number", "arrival_ns", "start_ns", "first_ns", "last_ns", "end_ns",
    "status", "tokens", "prompt_tokens", "outcome", "connection",
)  # fmt: skip
# Columns with one value per chunk that carried tokens.
CHUNKS = ("chunk_ns", "chunk_due_ns", "chunk_tokens")


class Records:
    """The columns. Rows are in the order in which answers ended."""

    def __init__(self) -> None:
        self.rows: dict[str, array[int]] = {name: array("q") for name in ROWS}
        self.chunks: dict[str, array[int]] = {name: array("q") for name in CHUNKS}
        self.bounds = array("q", (0,))
        # Bound once: this is done for every answer.
        self._append = tuple(column.append for column in self.rows.values())
        self._extend = tuple(column.extend for column in self.chunks.values())

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def add(self, row: Sequence[int], wrote_ns: Sequence[int], due_ns: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep one answer: a value for each of ROWS, and its chunks."""
        for append, value in zip(self._append, row, strict=True):
            append(value)
        wrote, due, carried = self._extend
        wrote(wrote_ns)
        due(due_ns)
        carried(tokens)
        self.bounds.append(len(self.chunks["chunk_ns"]))

    def binary(self) -> bytes:
        """A line of JSON that says what follows, then each column as 64-bit integers of this machine."""
        columns = {**self.rows, "chunks": self.bounds, **self.chunks}
        told = {"columns": {name: len(column) for name, column in columns.items()}, "outcomes": OUTCOMES}
        return b"".join([json.dumps(told).encode(), b"\n", *(column.tobytes() for column in columns.values())])

    def lines(self) -> Iterator[str]:
        """One line of JSON for each answer."""
        for at in range(len(self)):
            row: dict[str, object] = {name: column[at] for name, column in self.rows.items()}
            row["id"] = request_id(self.rows["number"][at])
            row["outcome"] = OUTCOMES[self.rows["outcome"][at]]
            low, high = self.bounds[at], self.bounds[at + 1]
            row |= {name: list(column[low:high]) for name, column in self.chunks.items()}
            yield json.dumps(row, separators=(",", ":"))


def request_id(number: int) -> str:
    return f"sim-{number:012d}"
