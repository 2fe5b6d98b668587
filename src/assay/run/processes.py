"""Process trees: everything a run started is found and ended, even what slipped out of its group or lost its parent."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import psutil

# Every process of a run inherits this variable, so that a daemon which left its group and its parents is still known.
TAG_VARIABLE = "ASSAY_RUN_TAG"
_GRACE_S = 3.0
_ROUNDS = 10
_PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>


def kill_tree(root: int, tag: str, *, spare: int | None = None) -> float:
    """End a process, its group, its descendants and everything that carries its tag.

    Returns:
        The resident memory of all of them in MB, just before their end.
    """
    victims = {process.pid: process for process in (*descendants(root), *_tagged(tag))}
    victims.pop(spare or -1, None)
    victims.pop(os.getpid(), None)
    resident_mb = sum(_resident_mb(process) for process in victims.values())
    if spare is None:
        _kill_group(root)
    for process in victims.values():
        _kill(process)
    # The root is its parent's to reap, with its resource usage: waiting for it here would take that away.
    psutil.wait_procs([process for pid, process in victims.items() if pid != root], timeout=_GRACE_S)
    return resident_mb


def sweep(tag: str) -> int:
    """End what a finished run left behind; return how many processes that was."""
    left = list(_tagged(tag))
    for process in left:
        _kill(process)
    psutil.wait_procs(left, timeout=_GRACE_S)
    return len(left)


def adopt_orphans() -> bool:
    """Become the parent of every orphan among this process's descendants, so that a daemon can be found and ended.

    Returns:
        Whether the system does that: Linux does. Elsewhere orphans are known by their tag alone.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def end_descendants() -> int:
    """End everything below this process, adopted orphans among it; return how many processes that was."""
    ended: set[int] = set()
    for _ in range(_ROUNDS):  # what was started while others were ended
        left = [one for one in descendants(os.getpid())[1:] if _status(one) != psutil.STATUS_ZOMBIE]
        if not left:
            break
        for process in left:
            ended.add(process.pid)
            _kill(process)
        psutil.wait_procs(left, timeout=_GRACE_S)
    return len(ended)


def is_alive(pid: int, started: float) -> bool:
    """Whether a process recorded earlier still runs; its start time guards against a reused number."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 2.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def own_start() -> float:
    """When this process began, as `is_alive` wants it."""
    return float(psutil.Process().create_time())


def descendants(root: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(root)
        return [top, *top.children(recursive=True)]
    except psutil.Error:
        return []


def _tagged(tag: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(TAG_VARIABLE) == tag:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return [process for process in found if process.is_running() and _status(process) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return str(psutil.STATUS_DEAD)


def _resident_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 1e6
    except psutil.Error:
        return 0.0


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return


def _kill_group(leader: int) -> None:
    if sys.platform == "win32":
        return
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def hold_lifeline(fd: int, tag: str, scratch: Path) -> None:
    """End this process and everything it started as soon as the other end of a pipe is closed."""
    from assay.run.services.containers import sweep_containers  # now: nothing can be imported when the end comes

    def watch() -> None:
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

    threading.Thread(target=watch, daemon=True).start()
