"""Machine and processes where there is no /proc: what psutil tells on macOS and Windows."""

from __future__ import annotations

import time
from collections.abc import Collection

import psutil

from assay.run.probes.columns import Window
from assay.run.probes.readers import MachineReading

# Here every search walks all processes of the machine.
_SEARCH_EVERY_S = 1.0


class PsutilMachine:
    """The whole machine."""

    def __init__(self) -> None:
        self.absent = {
            "machine.cpu_mhz": "this system does not report the current clock",
            "machine.temperature_c": "this system tells no temperature without further tools",
            "cpu throttling": "this system keeps no count of it",
        }

    def read(self, *, counts: bool = True, slow: bool = True) -> MachineReading:
        times = psutil.cpu_times()._asdict()
        idle = times["idle"] + times.get("iowait", 0.0) + times.get("steal", 0.0)
        spent = sum(value for name, value in times.items() if name not in ("guest", "guest_nice"))
        reading = MachineReading(
            {"busy_s": spent - idle}, {"memory_available_bytes": float(psutil.virtual_memory().available)}
        )
        if counts and (disks := psutil.disk_io_counters()) is not None:
            reading.totals |= {"disk_read_bytes": float(disks.read_bytes), "disk_write_bytes": float(disks.write_bytes)}
        if counts:
            counters = psutil.net_io_counters(pernic=True).items()
            cards = [card for name, card in counters if not name.lower().startswith("lo")]
            reading.totals["net_in_bytes"] = float(sum(card.bytes_recv for card in cards))
            reading.totals["net_out_bytes"] = float(sum(card.bytes_sent for card in cards))
        if slow:
            swap = psutil.swap_memory()
            reading.totals |= {"swap_in_bytes": float(swap.sin), "swap_out_bytes": float(swap.sout)}
        return reading

    def throttled(self, window: Window) -> tuple[str, ...] | None:  # noqa: ARG002
        return None


class PsutilTree:
    """Processes of a job: a process, those beside it and all their descendants."""

    def __init__(self, pids: Collection[int]) -> None:
        self.absent = {"job.disk": "this system does not report it for processes"}
        self.pids: set[int] = set()
        self._known: dict[int, psutil.Process] = {}
        self._spent_s: dict[int, float] = {}
        self._roots = tuple(pids)
        self._search_again_s = 0.0

    def read(self, *, counts: bool = True) -> MachineReading | None:  # noqa: ARG002  (there are none to be left out)
        if time.monotonic() >= self._search_again_s:
            self._search_again_s = time.monotonic() + _SEARCH_EVERY_S
            self._search()
        resident = threads = processes = 0
        for pid, process in list(self._known.items()):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    resident += process.memory_info().rss
                    threads += process.num_threads()
            except psutil.Error:
                del self._known[pid]
                continue
            processes += 1
            # What a process used stays counted when it has ended.
            self._spent_s[pid] = times.user + times.system
        if not processes:
            return None
        states = {"rss_bytes": float(resident), "threads": float(threads), "processes": float(processes)}
        return MachineReading({"cpu_s": sum(self._spent_s.values())}, states)

    def close(self) -> None:
        """There is nothing to close."""

    def _search(self) -> None:
        for root in self._roots:
            try:
                top = self._known.get(root) or psutil.Process(root)
                processes = [top, *top.children(recursive=True)]
            except psutil.Error:
                continue
            for process in processes:
                self._known.setdefault(process.pid, process)
                self.pids.add(process.pid)
