"""Files that are written whole or not at all, and read within bounds."""

from __future__ import annotations

import errno
import hashlib
import os
import select
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_PIPE_WAIT_S = 5.0


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """The content of a file, or of a pipe that has a writer.

    Raises:
        OSError: if it cannot be read, is neither file nor pipe (a device may never end), or is larger (`EFBIG`).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as problem:
        raise OSError(errno.EINVAL, f"not a valid file name: {problem}") from None
    with os.fdopen(handle, "rb", buffering=0) as file:
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            content = _upto(most_bytes + 1, file.read)
        elif stat.S_ISFIFO(mode):
            content = _upto(most_bytes + 1, lambda size: _piped(handle, size))
        else:
            raise OSError(errno.EINVAL, "it is a folder, a device or a socket, and no file")
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes")
    return content


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_endless(path: Path) -> None:
    """Refuse what is neither a file nor a pipe, before it is read line by line."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise OSError(errno.EINVAL, "it is a folder, a device or a socket, and no file")


def _upto(size: int, read: Callable[[int], bytes | None]) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := read(min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _piped(handle: int, size: int) -> bytes:
    """Read from a pipe; one that stays silent is an error."""
    ready, _, _ = select.select([handle], [], [], _PIPE_WAIT_S)
    if not ready:
        raise OSError(errno.ETIMEDOUT, f"no data came through this pipe for {_PIPE_WAIT_S:g} s")
    return os.read(handle, size)


def write_whole(path: Path, content: bytes | memoryview, *, mode: int = 0o600) -> None:
    """Write a file so that it is either there whole or not at all, also when the power goes."""
    make_folder(path.parent)
    fd, partial = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:  # as it was made
            Path(partial).chmod(mode)
        move_whole(Path(partial), path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def move_whole(source: Path, path: Path) -> None:
    """Give a file that is on disk another name in the same file system; the name is on disk when this returns."""
    make_folder(path.parent)
    source.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, unless they are there; their names are on disk when this returns."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into; one that is there stays as it is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on disk: without its name, a file is lost."""
    if sys.platform == "win32":  # folders cannot be opened there; renames are logged by the file system
        return
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # who may not read a folder cannot sync it
        return
    try:
        os.fsync(fd)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
            raise
    finally:
        os.close(fd)


def append_line(path: Path, line: str) -> None:
    """Append one line to a file, on disk when this returns, and apart from what a lost writer left half-written."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
        os.lseek(fd, max(0, size - 1), os.SEEK_SET)
        begin = "\n" if size and os.read(fd, 1) != b"\n" else ""
        os.write(fd, f"{begin}{line}\n".encode())  # at the end, wherever was read
        os.fsync(fd)
    finally:
        os.close(fd)
