"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes | memoryview, *, mode: int = 0o600) -> None:
    """Write a file so that it is either there whole or not at all, also when the power goes.

    Raises:
        OSError: if there is no room or no permission; nothing half-written stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, partial = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:  # as it was made
            Path(partial).chmod(mode)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def append_line(path: Path, line: str, *, mode: int = 0o644) -> None:
    """Append one line to a file; it is on disk when this returns, and apart from what a lost writer left half-written.

    Raises:
        OSError: if it cannot be written.
    """
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
        os.lseek(fd, max(0, size - 1), os.SEEK_SET)
        begin = "\n" if size and os.read(fd, 1) != b"\n" else ""
        os.write(fd, f"{begin}{line}\n".encode())  # at the end, wherever was read
        os.fsync(fd)
    finally:
        os.close(fd)
