"""A child must not outlive whoever started it: when the lifeline is cut, it takes its whole tree down."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from assay.run.processes import kill_tree
from assay.run.services.containers import sweep_containers


def hold(fd: int, tag: str, scratch: Path) -> None:
    """End this process and everything it started as soon as the other end of a pipe is closed."""
    threading.Thread(target=_watch, args=(fd, tag, scratch), daemon=True).start()


def _watch(fd: int, tag: str, scratch: Path) -> None:
    # Blocks in the kernel until the parent is gone: no wake-up disturbs the measurement.
    try:
        while os.read(fd, 1):
            continue
    except OSError:
        return
    kill_tree(os.getpid(), tag, spare=os.getpid())
    sweep_containers(tag, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(137)
