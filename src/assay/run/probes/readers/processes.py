"""Processes on Linux, read straight from /proc: those of a job with all their descendants, and our own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from assay.run.probes.readers import KernelFile, MachineReading, why


class HarnessProcesses:
    """This process, and those that started it: what the harness uses is neither the job's nor that of others."""

    def __init__(self, pids: Sequence[int], root: Path = Path("/")) -> None:
        self.pids = {os.getpid(), *pids}
        self._files: list[KernelFile] = []
        for pid in pids if sys.platform == "linux" else ():
            try:
                self._files.append(KernelFile(root / "proc" / str(pid) / "stat", 1024))
            except OSError:
                continue
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK") if self._files else 0.0
        self._last_s = [0.0] * len(self._files)

    def read(self) -> float:
        """Seconds of processor time so far."""
        for number, file in enumerate(self._files):
            try:
                text = file.read()
                fields = text[text.rindex(b")") + 2 :].split(None, 14)
                self._last_s[number] = (int(fields[11]) + int(fields[12])) * self._tick_s
            except (OSError, ValueError, IndexError):  # it has ended
                continue
        return time.process_time() + sum(self._last_s)


# Searching all processes of the machine for new ones costs more than a look; a new child of a main thread is seen
# immediately anyway, in the list that the kernel keeps of them.
_SEARCH_EVERY_S = 1.0
_FEW = 8
# A process that ended in the middle of a look has left its time to its parent, which was read before: look again.
_AGAIN = 3
_PARENT, _SESSION, _TIMES, _THREADS, _RESIDENT = 1, 3, slice(11, 15), 17, 21


class _Member:
    """One process; its open files know it, so that a number that is used again is not taken for it."""

    __slots__ = ("_children", "_known", "io", "stat")

    def __init__(self, proc: Path, pid: int) -> None:
        self.stat = KernelFile(proc / str(pid) / "stat", 1024)
        self.io = _kept(proc / str(pid) / "io")
        self._children = _kept(proc / str(pid) / "task" / str(pid) / "children")
        self._known = b""

    def fields(self) -> list[bytes]:
        """What /proc/PID/stat tells after the name, which may hold anything."""
        text = self.stat.read()
        fields = text[text.rindex(b")") + 2 :].split()
        if not fields:
            raise ProcessLookupError
        return fields

    def has_new_children(self) -> bool:
        """Whether its main thread has started or lost a child since it was asked before."""
        if self._children is None:
            return False
        try:
            before, self._known = self._known, self._children.read()
        except OSError:
            return False
        return before != self._known

    def close(self) -> None:
        for file in (self.stat, self.io, self._children):
            if file is not None:
                file.close()


class ProcessTree:
    """Processes of a job."""

    def __init__(self, pids: Collection[int], root: Path = Path("/"), strangers: set[int] | None = None) -> None:
        """Take in the first ones.

        Args:
            strangers: processes that are known to be none of them; more are added.
        """
        self.absent: dict[str, str] = {}
        self.pids: set[int] = set()
        """All that were ever seen."""
        self._proc = root / "proc"
        self._tick_s, self._page = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        self._roots = frozenset(pids)
        self._members: dict[int, _Member] = {}
        self._strangers = strangers if strangers is not None else set()
        self._search_again_s = 0.0
        self._last = {"cpu_s": 0.0, "disk_read_bytes": 0.0, "disk_write_bytes": 0.0}
        self._sums = dict.fromkeys(self._last, 0.0)
        for pid in self._roots:
            self._admit(pid)
        self._search()  # everybody else is asked now, so that later looks ask new ones alone

    def read(self, *, counts: bool = True) -> MachineReading | None:
        if self._may_have_new():
            self._search()
        for _ in range(_AGAIN):
            totals, states, gone = self._pass(counts=counts)
            if not gone:
                break
        if not self._members:
            return None
        for name, total in totals.items():
            # A process without a waiting parent takes its sums along: what it did stays counted.
            self._sums[name] += max(0.0, total - self._last[name])
            self._last[name] = total
        return MachineReading({name: self._sums[name] for name in totals}, states if states["processes"] else {})

    def close(self) -> None:
        for pid in list(self._members):
            self._members.pop(pid).close()

    def _may_have_new(self) -> bool:
        now_s = time.perf_counter()
        if now_s >= self._search_again_s:
            self._search_again_s = now_s + _SEARCH_EVERY_S
            return True
        return len(self._members) <= _FEW and any(member.has_new_children() for member in self._members.values())

    def _pass(self, *, counts: bool) -> tuple[dict[str, float], dict[str, float], bool]:
        ticks = resident = threads = processes = read = written = 0
        gone = []
        for pid, member in self._members.items():
            try:
                fields = member.fields()
                # With the times of children that were waited for: one that ends moves its time there.
                ticks += sum(map(int, fields[_TIMES]))
                if fields[0] not in b"ZX":
                    processes, threads = processes + 1, threads + int(fields[_THREADS])
                    resident += int(fields[_RESIDENT])
                more = self._io(member) if counts else (0, 0)
            except (OSError, ValueError, IndexError):
                gone.append(pid)
                continue
            read, written = read + more[0], written + more[1]
        for pid in gone:
            self._members.pop(pid).close()
        totals = {"cpu_s": ticks * self._tick_s}
        if counts and "job.disk" not in self.absent:
            totals |= {"disk_read_bytes": float(read), "disk_write_bytes": float(written)}
        states = {"rss_bytes": float(resident * self._page), "threads": float(threads), "processes": float(processes)}
        return totals, states, bool(gone)

    def _io(self, member: _Member) -> tuple[int, int]:
        """Bytes that really went from and to disks, of a process and of children that were waited for."""
        if member.io is None or "job.disk" in self.absent:
            return 0, 0
        try:
            counters = dict(line.split(b": ", 1) for line in member.io.read().splitlines())
            return int(counters[b"read_bytes"]), int(counters[b"write_bytes"])
        except ProcessLookupError:
            raise
        except (OSError, ValueError, KeyError) as problem:
            reason = why(problem) if isinstance(problem, OSError) else "the kernel does not count it"
            self.absent["job.disk"] = f"{member.io.path}: {reason}"
            return 0, 0

    def _search(self) -> None:
        """Admit new descendants; a process that is none never becomes one, so that each is asked once."""
        try:
            there = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208  (no object for each)
        except OSError:
            return
        self._strangers.intersection_update(there)
        parents = {pid: family for pid in there - self._strangers - self._members.keys() if (family := self._kin(pid))}
        while newcomers := [pid for pid, kin in parents.items() if kin[0] in self._members or kin[1] in self._roots]:
            for pid in newcomers:
                del parents[pid]
                self._admit(pid)
        self._strangers.update(parents)

    def _kin(self, pid: int) -> tuple[int, int] | None:
        """Parent and session of a process."""
        try:
            file = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                text = os.read(file, 1024)
            finally:
                os.close(file)
            fields = text[text.rindex(b")") + 2 :].split(None, 4)
            return int(fields[_PARENT]), int(fields[_SESSION])
        except (OSError, ValueError, IndexError):
            return None

    def _admit(self, pid: int) -> None:
        try:
            self._members[pid] = _Member(self._proc, pid)
        except OSError:
            return
        self.pids.add(pid)


def _kept(path: Path) -> KernelFile | None:
    try:
        return KernelFile(path, 512)
    except OSError:
        return None
