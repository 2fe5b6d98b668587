"""Where a client keeps what it sees while the clock runs: packed rows, plain columns, and bodies in a file."""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from pathlib import Path

import numpy as np

from assay.run.load.http.recording import ClientCost, Recording, bounds_of

_ROW = struct.Struct("<qihbbhhBxiqqqqqqqq")
_DTYPE = np.dtype(
    [
        ("session", "<i8"),
        ("turn", "<i4"),
        ("client", "<i2"),
        ("phase", "i1"),
        ("outcome", "i1"),
        ("stage", "<i2"),
        ("status", "<i2"),
        ("fresh", "u1"),
        ("pad", "u1"),
        ("head", "<i4"),
        ("due", "<i8"),
        ("sent", "<i8"),
        ("first", "<i8"),
        ("end", "<i8"),
        ("sent_bytes", "<i8"),
        ("pieces", "<i8"),
        ("parts", "<i8"),
        ("bytes", "<i8"),
    ]
)
_FLUSH = 256 * 1024


class Columns:
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
        """Keep one ended request."""
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

    def finish(self, window: tuple[int, int], cost: ClientCost, stopped: str) -> Recording:
        """Everything in columns; the columns share memory with what was collected."""
        self._flush()
        rows = np.frombuffer(self.row_bytes, dtype=_DTYPE, count=self.rows)
        parts = bounds_of(rows["parts"])
        pieces = bounds_of(rows["pieces"])
        lengths = bounds_of(np.frombuffer(self.part_len, dtype=np.int64) if self.part_len else np.zeros(0, np.int64))
        first_part = np.repeat(parts[:-1], rows["pieces"])
        marks = np.frombuffer(self.piece_part, dtype=np.int64) if self.piece_part else np.zeros(0, np.int64)
        return Recording(
            session=rows["session"].copy(),
            turn=rows["turn"].copy(),
            client=rows["client"].copy(),
            phase=rows["phase"].copy(),
            stage=rows["stage"].copy(),
            due_ns=rows["due"].copy(),
            sent_ns=rows["sent"].copy(),
            first_ns=rows["first"].copy(),
            end_ns=rows["end"].copy(),
            status=rows["status"].copy(),
            outcome=rows["outcome"].copy(),
            fresh=rows["fresh"].astype(np.bool_),
            sent_bytes=rows["sent_bytes"].copy(),
            head=rows["head"].copy(),
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
