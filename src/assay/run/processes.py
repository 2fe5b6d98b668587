"""Processes of a run: their trees are found and ended, even what slipped out of its group; memory of this one.

Memory is what the kernel kept: high-water marks, never a sampled guess.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

# Every process of a run inherits this variable, so that a daemon which left its group and its parents is still known.
TAG_VARIABLE = "ASSAY_RUN_TAG"
_GRACE_S = 3.0
_ROUNDS = 10
_PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>
_KILL = signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM
# How long services are asked to end before they are made to: in good order, and when a person waits (Ctrl-C) or the
# parent is gone. The byte is what the holder of a lifeline sends before it lets go in good order.
GRACE_S, HURRIED_GRACE_S = 10.0, 5.0
IN_GOOD_ORDER = b"."
# A service whose first process has ended in good order leaves its children this long to follow.
FOLLOW_S = 2.0
_POLL_S = 0.01
MB = 1e6
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def with_own_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which commands find `python` and `assay`.

    They are those that run this process, unless the user has activated another environment: then its programs come
    first, and assay's own last.
    """
    if not sys.executable:  # an embedded interpreter does not know where it is
        return dict(environ)
    own = str(Path(sys.executable).parent)
    others = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if folder != own]
    order = [*others, own] if _is_activated(environ, others) else [own, *others]
    return {**environ, "PATH": os.pathsep.join(order)}


def _is_activated(environ: Mapping[str, str], folders: Collection[str]) -> bool:
    """Whether a virtual or conda environment, whose programs are in one of these folders, was activated."""
    roots = [Path(root) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := environ.get(name))]
    return any(str(root / name) in folders for root in roots for name in ("bin", "Scripts"))


def kill_tree(root: int, tag: str, *, spare: int | None = None) -> float:
    """End a process, its group, its descendants and everything that carries its tag.

    Returns:
        The resident memory of all of them in MB, just before their end.
    """
    victims = {process.pid: process for process in (*descendants(root), *_tagged(tag))}
    victims.pop(spare or -1, None)
    victims.pop(os.getpid(), None)
    held_mb = sum(_resident_mb(process) for process in victims.values())
    if spare is None and sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(root, signal.SIGKILL)
    for process in victims.values():
        _kill(process)
    # The root is its parent's to reap, with its resource usage: waiting for it here would take that away.
    psutil.wait_procs([process for pid, process in victims.items() if pid != root], timeout=_GRACE_S)
    return held_mb


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
        if not (left := [child for child in descendants(os.getpid())[1:] if is_there(child)]):
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
    tagged = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(TAG_VARIABLE) == tag:
                tagged.append(process)
    return [process for process in tagged if is_there(process)]


def _resident_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / MB
    except psutil.Error:
        return 0.0


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.kill()


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


def resident_mb() -> float:
    return _resident_mb(psutil.Process())


def peak_mb() -> float | None:
    """The highest resident memory since the process began, or since `reset_peak`; None where it is not counted."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MB
    if sys.platform == "win32":
        return float(psutil.Process().memory_info().peak_wset) / MB
    return lifetime_peak_mb()


def reset_peak() -> bool:
    """Start the high-water mark again from the present; False where the system does not allow it."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def lifetime_peak_mb() -> float | None:
    """The highest resident memory since the process began, which nothing can reset."""
    if sys.platform == "win32":
        return None
    import resource

    return rusage_mb(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def rusage_mb(ru_maxrss: int) -> float:
    """`ru_maxrss` in MB: bytes on macOS, KiB elsewhere."""
    return ru_maxrss / MB if sys.platform == "darwin" else ru_maxrss * 1024 / MB


def end_gracefully(process: subprocess.Popen[bytes], until_s: float) -> bool:
    """End a service and what it started; return whether it went when asked."""
    tree, went = _tree(process), False
    _signal(process, tree, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=max(0.0, until_s - time.monotonic()))
        went = True
        _all_gone(tree, min(until_s, time.monotonic() + FOLLOW_S))
    tree = [*tree, *_tree(process)]  # it may have started more meanwhile
    _signal(process, tree, _KILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=FOLLOW_S)
    _all_gone(tree, time.monotonic() + FOLLOW_S)
    return went


def end_children() -> int:
    """Kill what is left below this process, in one round and two seconds at most; return how many that were."""
    left = [child for child in descendants(os.getpid())[1:] if is_there(child)]
    for process in left:
        _kill(process)
    _all_gone(left, time.monotonic() + FOLLOW_S)
    return len(left)


def is_there(process: psutil.Process) -> bool:
    """Whether a process still runs; one that only waits to be buried does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _tree(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A service's processes: its descendants, and those of its group whose parents have ended."""
    tree = {member.pid: member for member in descendants(process.pid)}
    for child in descendants(os.getpid())[1:] if sys.platform != "win32" else ():
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(child.pid) == process.pid:
                tree.setdefault(child.pid, child)
    return [member for member in tree.values() if is_there(member)]


def _signal(process: subprocess.Popen[bytes], tree: Iterable[psutil.Process], which: signal.Signals) -> None:
    """Send a signal to a service: its group when it is asked, every process of its tree when it is made to end."""
    # Once its leader is reaped, the number of a group may be reused.
    if sys.platform != "win32" and process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, which)
        if which == signal.SIGTERM:
            return
    for member in tree:
        with suppress(psutil.Error):
            member.send_signal(which)


def _all_gone(processes: list[psutil.Process], until_s: float) -> None:
    while any(map(is_there, processes)) and time.monotonic() < until_s:
        time.sleep(_POLL_S)
