"""Folders of runs: temporary ones, swept up later if their process was killed, and the hold of one process on one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.run.processes import is_alive, own_start

_PREFIX = "assay-run-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one run, named after this process so that others can tell whether it is still used."""
    name = f"{_PREFIX}{os.getpid()}-{own_start():.0f}-"
    folder = Path(tempfile.mkdtemp(prefix=name))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_abandoned() -> int:
    """Remove folders whose process is gone; return how many there were."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        parts = folder.name.removeprefix(_PREFIX).split("-")
        if (
            len(parts) >= 2
            and parts[0].isdigit()
            and parts[1].isdigit()
            and not is_alive(int(parts[0]), float(parts[1]))
        ):
            shutil.rmtree(folder, ignore_errors=True)
            swept += 1
    return swept


@contextmanager
def held(folder: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a folder for one process; the system frees it even when the process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+b") as file:
        if not _lock(file.fileno(), wait=False):
            if on_wait is not None:
                on_wait()
            _lock(file.fileno(), wait=True)
        yield  # closing the file frees the lock


def is_held(folder: Path) -> bool:
    """Whether a process holds a folder now."""
    if not (folder / ".lock").is_file():
        return False
    with (folder / ".lock").open("a+b") as file:
        return not _lock(file.fileno(), wait=False)


def _lock(handle: int, *, wait: bool) -> bool:
    if sys.platform == "win32":
        return _lock_on_windows(handle, wait=wait)
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(handle: int, *, wait: bool) -> bool:
    if sys.platform != "win32":
        raise NotImplementedError
    import msvcrt

    os.lseek(handle, 0, os.SEEK_SET)
    while True:
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:  # even when it waits, it gives up after ten seconds
            if not wait:
                return False
        else:
            return True
