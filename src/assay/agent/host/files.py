"""Files that are there whole or not at all, and locks that the system frees by itself."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
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
        Path(partial).chmod(mode)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def free_bytes(folder: Path) -> int:
    """Room left on the disk of a folder."""
    return shutil.disk_usage(folder).free


def try_lock(path: Path) -> int | None:
    """Hold a lock file until this process ends; None if another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(handle)
    except OSError:
        os.close(handle)
        return None
    return handle


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
