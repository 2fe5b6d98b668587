"""Room on a disk, and locks that the system frees by itself."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


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
