"""What a service writes, kept in a file that cannot grow without end: its beginning and its last part."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import IO

HEAD_BYTES = 2**20
TAIL_BYTES = 4 * 2**20
_READ_BYTES = 2**16


class Pump(threading.Thread):
    """Reads a pipe to its end, as fast as it comes, so that the service never waits for us."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        super().__init__(name=f"pump-{path.name}", daemon=True)
        self._pipe, self._log = pipe, BoundedLog(path)
        self.start()

    def run(self) -> None:
        """Read until every process that holds the other end is gone."""
        read = self._pipe.read1 if hasattr(self._pipe, "read1") else self._pipe.read
        with self._pipe:
            while chunk := read(_READ_BYTES):
                self._log.write(chunk)
        self._log.close()


class BoundedLog:
    """A file with the first and the last bytes of a stream; readable at any time, its lines in order.

    When it has grown by as much again as its last part may hold, the middle is taken out, which costs less per byte
    than the writing itself.
    """

    def __init__(self, path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._path, self._head, self._tail = path, head, tail
        self._size = self._dropped = 0
        self._file: IO[bytes] | None = path.open("wb", buffering=0)

    def write(self, chunk: bytes) -> None:
        """Add bytes; on a full disk they are counted and lost, and the service goes on."""
        try:
            if self._file is None:
                self._file = self._path.open("ab", buffering=0)
            self._file.write(chunk)
            self._size += len(chunk)
            if self._size > self._head + 2 * self._tail:
                self._shorten()
        except OSError:
            self._dropped += len(chunk)

    def close(self) -> None:
        """Leave the file within its bounds."""
        try:
            if self._size > self._head + self._tail:
                self._shorten()
        except OSError:
            return
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _shorten(self) -> None:
        """Write the head and the tail to a new file that takes the old one's place at once."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with self._path.open("rb") as old:
            head = old.read(self._head)
            old.seek(-self._tail, 2)
            tail = old.read(self._tail)
        # The old mark, if there was one, lies right after the head: it is taken out with the bytes that it stands for.
        self._dropped += self._size - len(head) - len(tail)
        mark = b"\n[... %d bytes left out ...]\n" % self._dropped
        partial = self._path.with_name(f"{self._path.name}.part")
        partial.write_bytes(head + mark + tail)
        partial.replace(self._path)
        self._size = len(head) + len(tail)
        self._file = self._path.open("ab", buffering=0)
