"""Runs a command to its end and says what it and everything that it started used.

Arguments: the core to run on (- for any), seconds between two looks at the memory (0 for none), the longest time in
seconds, the folder for its output (`out.txt`, `err.txt`), then the command. The children's children count too, also
those that have ended: this process takes in orphans, and waits for all.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter_ns, sleep

_CHILD_SUBREAPER = 36
_KILLED = 124


def main(core: str, look_s: float, limit_s: float, folder: Path, command: list[str]) -> dict[str, float]:
    """Run it, and wait for every process of the tree."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    memory = _Memory(look_s)
    if look_s:
        threading.Thread(target=memory.watch, daemon=True).start()
    with (folder / "out.txt").open("wb") as out, (folder / "err.txt").open("wb") as err:
        everywhere = os.sched_getaffinity(0)
        if core != "-":
            os.sched_setaffinity(0, {int(core)})  # the command inherits it
        begin_ns = perf_counter_ns()
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        os.sched_setaffinity(0, everywhere)
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = _KILLED
        wall_s = (perf_counter_ns() - begin_ns) / 1e9
    _end_all(signal.SIGKILL if code == _KILLED else signal.SIGTERM)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rc": code,
        "begin_ns": begin_ns,
        "wall_s": wall_s,
        "cpu_s": used.ru_utime + used.ru_stime,
        "largest_bytes": used.ru_maxrss * 1024,
        "peak_bytes": memory.peak,
        "peak_processes": memory.processes,
    }


class _Memory:
    """The most that the tree held at once, shared pages counted in parts."""

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self.peak = 0
        self.processes = 0

    def watch(self) -> None:
        """Look until this process ends."""
        own = os.getpid()
        while True:
            held = [_held(pid) for pid in _below(own)]
            if sum(held) > self.peak:
                self.peak, self.processes = sum(held), len(held)
            sleep(self._look_s)


def _below(pid: int) -> list[int]:
    """All processes that come from one, itself not."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_below(child)]
    return found


def _held(pid: int) -> int:
    """Resident bytes of a process, where each page that others have too counts in part; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _end_all(number: int) -> None:
    """End what still runs, and wait for all; orphans are children of this process."""
    for pid in _below(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])))
