"""The processes of a local service: CPU time, memory and threads of its whole tree."""

from __future__ import annotations

import time

import psutil

from assay.run.probes.series import Series

# Walking all processes for new children costs a millisecond or two; reading the known ones costs much less.
LOOK_FOR_CHILDREN_EVERY_S = 1.0
NAMES = ("cpu_s", "rss_bytes", "threads", "processes")


class Tree:
    """One process and its descendants, read as one."""

    def __init__(self, source: str, pid: int) -> None:
        self.source = source
        self._root = pid
        self._known: dict[int, psutil.Process] = {}
        self._cpu_s: dict[int, float] = {}
        self._total_cpu_s = 0.0
        self._looked_s = float("-inf")
        self.gone = ""
        kinds = {"cpu_s": "counter"}
        self.columns = {name: Series(name, (), kinds.get(name, "gauge"), name) for name in NAMES}  # type: ignore[arg-type]

    @property
    def pids(self) -> set[int]:
        """Processes seen so far."""
        return set(self._cpu_s)

    def read(self) -> None:
        """Take one reading of all processes that are there."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_FOR_CHILDREN_EVERY_S:
            self._looked_s = now_s
            self._look()
        at_ns = time.perf_counter_ns()
        rss = threads = alive = 0
        for pid, process in list(self._known.items()):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    rss += process.memory_info().rss
                    threads += process.num_threads()
            except psutil.Error:
                del self._known[pid]
                continue
            alive += 1
            # What a new process used since its birth belongs to the tree; what the first one used before us does not.
            spent = times.user + times.system
            self._total_cpu_s += max(
                0.0, spent - self._cpu_s.get(pid, spent if not self.columns["cpu_s"].at_ns else 0.0)
            )
            self._cpu_s[pid] = spent
        if alive:
            for name, value in zip(NAMES, (self._total_cpu_s, rss, threads, alive), strict=True):
                self.columns[name].add(at_ns, float(value))

    def _look(self) -> None:
        try:
            top = self._known.get(self._root) or psutil.Process(self._root)
            found = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            self.gone = f"process {self._root} has ended"
        except psutil.Error as refused:
            self.gone = str(refused)
        else:
            self._known = {one.pid: self._known.get(one.pid, one) for one in found}
