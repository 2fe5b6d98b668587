"""Teardown of services: asked first, then made to, with every process that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from assay.run.processes import descendants

# How long services are asked to end before they are made to: in good order, and when somebody is waiting (Ctrl-C) or
# gone. The byte is what the holder of a lifeline sends before it lets go in good order.
GRACE_S, HURRIED_GRACE_S = 10.0, 5.0
IN_GOOD_ORDER = b"."
# A service whose first process has ended in good order leaves its children this long to follow.
FOLLOW_S = 2.0
_LOOK_S = 0.01


def end(process: subprocess.Popen[bytes], until_s: float) -> bool:
    """End a service and what it started; return whether it went when asked."""
    tree = _tree(process)
    _tell(process, tree, signal.SIGTERM)
    asked = _gone(process, until_s)
    if asked:
        _all_gone(tree, min(until_s, time.monotonic() + FOLLOW_S))
    tree = [*tree, *_tree(process)]  # it may have started more meanwhile
    _tell(process, tree, _KILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=FOLLOW_S)
    _all_gone(tree, time.monotonic() + FOLLOW_S)
    return asked


def end_children() -> int:
    """Kill whatever is left below this process; return how many that were."""
    left = [one for one in descendants(os.getpid()) if one.pid != os.getpid() and is_there(one)]
    for one in left:
        with suppress(psutil.Error):
            one.kill()
    _all_gone(left, time.monotonic() + FOLLOW_S)
    return len(left)


def is_there(process: psutil.Process) -> bool:
    """Whether a process still runs; one that only waits to be buried does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


_KILL = signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM


def _tree(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A service's processes: its descendants, and those of its group whose parents have ended."""
    found = {one.pid: one for one in descendants(process.pid)}
    for one in descendants(os.getpid())[1:]:
        if sys.platform != "win32" and one.pid not in found:
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(one.pid) == process.pid:
                    found[one.pid] = one
    return [one for one in found.values() if is_there(one)]


def _tell(process: subprocess.Popen[bytes], tree: Iterable[psutil.Process], which: signal.Signals) -> None:
    """Send a signal to a service: its group when it is asked, every process of its tree when it is made to end."""
    # Once its leader is buried, the number of a group may be somebody else's.
    if sys.platform != "win32" and process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, which)
        if which == signal.SIGTERM:
            return
    for one in tree:
        with suppress(psutil.Error):
            one.send_signal(which)


def _gone(process: subprocess.Popen[bytes], until_s: float) -> bool:
    try:
        process.wait(timeout=max(0.0, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _all_gone(processes: list[psutil.Process], until_s: float) -> None:
    while any(is_there(one) for one in processes) and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
