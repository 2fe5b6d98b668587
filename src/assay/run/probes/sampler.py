"""The sampler of a job and its machine, and its process: `python -m assay.run.probes.sampler`, started by `job_probe`.

Its standard input brings one line of JSON for each thing to do: what to sample, the `begin` of a run, its `finish`.
It answers the first and each `finish` with one line. When its input ends, so does the process: it never outlives
its parent.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from assay.run.pipes import readable
from assay.run.probes.columns import (
    POWERMETRICS,
    WINDOW,
    ReadingColumns,
    Rows,
    Window,
    answer,
    energies,
    joined,
    power_between_steps,
    statistic,
    statistics,
    write,
)
from assay.run.probes.readers import MachineReading
from assay.run.probes.readers.energy import Powermetrics, Rapl
from assay.run.probes.readers.gpus import GpuSampler, has_driver, nvml_reader
from assay.run.probes.readers.processes import HarnessProcesses

if TYPE_CHECKING:
    from assay.hardware.gpu.nvml import GpuReader

_SLOW_EVERY_NS = 1_000_000_000
# Sums of bytes lose nothing between two readings, and are a third of the cost of a look.
_COUNTS_EVERY_NS = 250_000_000
# Power before the first run: counters move in steps of up to a tenth of a second.
IDLE_S = 0.35
LEAST_IDLE_S = 0.3
_IDLE_EVERY_S = 0.02
# A run of hours is sampled less often: the time between two looks doubles after each such number of them.
_MANY_READINGS = 36_000
# Two looks closer together than this share of the time between looks give no rate: the kernel counts in ticks.
_CLOSE = 0.3
_PATIENCE_S = 3600.0

Marks = Sequence[tuple[str, int, int]]
"""Phase, begin and end."""


class _Machine(Protocol):
    absent: dict[str, str]

    def read(self, *, counts: bool = True, slow: bool = True) -> MachineReading: ...
    def throttled(self, window: Window) -> tuple[str, ...] | None: ...


class _Family(Protocol):
    absent: dict[str, str]
    pids: set[int]

    def read(self, *, counts: bool = True) -> MachineReading | None: ...
    def close(self) -> None: ...


class _Run:
    """What was sampled of one run so far."""

    def __init__(self) -> None:
        self.columns = ReadingColumns()
        self.at_ns: list[int] = []
        self.begin()

    def begin(self) -> None:
        """From here on everything counts: no stretch reaches from before the begin into the run."""
        self.begin_ns, self.begin_cpu_s = time.perf_counter_ns(), time.process_time()
        self.read_s: list[float] = []
        self.totals: dict[tuple[str, str], tuple[int, float]] = {}  # moment and value of the look before
        self.processors: tuple[int, float, float] | None = None  # moment, busy and own seconds of the look before
        self.job_cpu_s: float | None = None
        self.rated_ns = self.counts_ns = self.slow_ns = 0  # the last look at processors, at bytes, at the slow rest
        self.carry_s = 0.0


class Sampler:
    """Samples machine, job, GPUs and counters of energy."""

    def __init__(
        self,
        every_s: float,
        own: Sequence[int] = (),
        root: Path = Path("/"),
        make_gpus: Callable[[], GpuReader] = nvml_reader,
    ) -> None:
        """Open all files.

        Args:
            own: assay's own processes, which are neither the job nor others.
        """
        self._every_s, self._close_ns = every_s, _CLOSE * every_s * 1e9
        self._machine, self._new_family = _of_this_system(root)
        self._own = HarnessProcesses(own, root)
        self._rapl = Rapl(root)
        self._powermetrics = Powermetrics() if sys.platform == "darwin" else None
        self._family: _Family | None = None
        self._idle: dict[str, float] | None = None
        self._failed: dict[str, str] = {}
        self._run = _Run()
        self._gpus = GpuSampler(every_s, make_gpus, root) if has_driver(root) or sys.platform == "win32" else None
        if self._gpus is not None and self._gpus.count:
            self._gpus.start()

    def settle(self) -> None:
        """Look for a moment before anything runs, where counters tell what the machine uses when idle."""
        self._new_family(())  # it learns who was there before
        self.read()
        self._read_gpus()
        if not any(True for _ in self._columns().named("energy_j")):
            return
        until = time.perf_counter() + IDLE_S
        while time.perf_counter() < until:
            time.sleep(_IDLE_EVERY_S)
            self.read()
            if not self._read_gpus():
                return

    def begin(self, pid: int, beside: Sequence[int] = ()) -> None:
        self.read()  # up to here nothing of the run was there
        if self._idle is None:
            self._idle = self._idle_power()
        self._leave_family()
        self._family = self._new_family([pid, *beside])
        self._run.begin()
        if self._gpus is not None:
            self._gpus.soon()
        self.read()

    def read(self, *, slow: bool = False) -> None:
        """Take one reading; what fails in the middle of it is noted, and the next look is tried."""
        run, begin, at_ns = self._run, time.perf_counter(), time.perf_counter_ns()
        slow = slow or at_ns - run.slow_ns >= _SLOW_EVERY_NS
        try:
            if slow or at_ns - run.rated_ns >= self._close_ns:
                self._read_processes(at_ns, slow=slow)
            self._take_energy()
        except Exception as failure:  # whatever a strange system does, the run continues and says so
            self._failed["looking"] = f"{type(failure).__name__}: {failure}"
        run.at_ns.append(at_ns)
        run.read_s.append(time.perf_counter() - begin)

    def finish(self, marks: Marks, spans: Mapping[str, Window], path: Path) -> dict[str, Any]:
        """The run has ended: sum up its measured window, write everything down, and be ready for the next one.

        Returns:
            The fields of `records.MachineTelemetry`.
        """
        self.read(slow=True)
        self._read_gpus()
        end_ns = time.perf_counter_ns()
        cost, run = self._cost(end_ns), self._run
        window = joined(marks, WINDOW) or joined(marks) or (run.begin_ns, end_ns)
        columns = self._columns(take=True)
        energy, no_energy = energies(columns, window, self._idle or {}, self._rapl.unsure)
        on_gpus = self._on_gpus(window)
        job_processes = {
            f"{board}.job_processes": dict.fromkeys(("mean", "min", "max"), float(count))
            for board, count in on_gpus["job"].items()
        }
        absent = self._absent() | {f"{gpu}.processes": why for gpu, why in on_gpus["unknown"].items()} | no_energy
        try:
            path.parent.mkdir(exist_ok=True)
            write(path, _rows(columns, [mark for mark in marks if mark[0] != WINDOW]))
        except OSError as problem:
            absent["file"] = f"the readings could not be written: {problem.strerror or problem}"
        summary = {
            "window_ns": window,
            "every_s": self._every_s,
            "looks": sum(window[0] <= at <= window[1] for at in run.at_ns),
            "statistics": statistics(columns, window) | job_processes,
            "energy": energy,
            "throttled": self._throttled(columns, window),
            "foreign": on_gpus["foreign"],
            "spans": {name: self._span(columns, span) for name, span in spans.items()},
            "cost": cost,
            "absent": absent,
        }
        self._leave_family()
        self._run, self._failed = _Run(), {}
        return summary

    def wait_s(self) -> float:
        """Time between two looks of now."""
        return self._every_s * 2.0 ** (len(self._run.at_ns) // _MANY_READINGS)

    def close(self) -> None:
        if self._gpus is not None:
            self._gpus.stop()
        if self._powermetrics is not None:
            self._powermetrics.close()

    def _read_processes(self, at_ns: int, *, slow: bool) -> None:
        counts = slow or at_ns - self._run.counts_ns >= _COUNTS_EVERY_NS
        machine = self._machine.read(counts=counts, slow=slow)
        job = self._family.read(counts=counts) if self._family is not None else None
        self._share_out(at_ns, machine, job, self._own.read())
        self._take("machine", at_ns, machine)
        if job is not None:
            self._take("job", at_ns, job)
        self._run.rated_ns = at_ns
        self._run.counts_ns = at_ns if counts else self._run.counts_ns
        self._run.slow_ns = at_ns if slow else self._run.slow_ns

    def _share_out(self, at_ns: int, machine: MachineReading, job: MachineReading | None, own_s: float) -> None:
        """The time of all processors: the job's, our own, and that of everybody else."""
        run, busy_s = self._run, machine.totals.pop("busy_s", None)
        before, job_before_s = run.processors, run.job_cpu_s
        if before is not None and at_ns - before[0] < self._close_ns:
            return
        job_s = run.job_cpu_s = job.totals["cpu_s"] if job is not None else None
        run.processors = (at_ns, busy_s, own_s) if busy_s is not None else None
        if before is None or busy_s is None:
            return
        since_ns, seconds = before[0], (at_ns - before[0]) / 1e9
        busy, own = busy_s - before[1], own_s - before[2]
        run.columns.rate("machine", "cpu_pct", since_ns, at_ns, 100 * busy / seconds)
        run.columns.rate("own", "cpu_pct", since_ns, at_ns, 100 * own / seconds)
        if (job_s is None) != (job_before_s is None):
            return  # it came or went meanwhile: what it used since is not known
        of_job = (job_s or 0.0) - (job_before_s or 0.0)
        # Ticks of the kernel are coarser than a look: what comes out below zero is taken from the look after.
        rest = busy - own - of_job + run.carry_s
        run.carry_s = min(0.0, rest)
        run.columns.rate("others", "cpu_pct", since_ns, at_ns, 100 * max(0.0, rest) / seconds)

    def _take(self, source: str, at_ns: int, reading: MachineReading) -> None:
        """States as they are, sums as rates since the look before."""
        columns, totals = self._run.columns, self._run.totals
        for name, value in reading.states.items():
            columns.gauge(source, name, at_ns, value)
        for name, value in reading.totals.items():
            last = totals.get((source, name))
            if last is not None and at_ns - last[0] < self._close_ns:
                continue
            if last is not None:
                per_s = (value - last[1]) / ((at_ns - last[0]) / 1e9)
                if name.endswith("_s"):  # seconds in a second
                    columns.rate(source, f"{name.removesuffix('_s')}_pct", last[0], at_ns, 100 * per_s)
                else:
                    columns.rate(source, f"{name}_per_s", last[0], at_ns, per_s)
            totals[source, name] = (at_ns, value)

    def _take_energy(self) -> None:
        columns = self._run.columns
        for step in self._rapl.read():
            columns.counter(step.source, "energy_j", step.at_ns, step.joules)
            if step.since_ns is not None:
                watts = step.grown_j / ((step.at_ns - step.since_ns) / 1e9)
                columns.rate(step.source, "power_w", step.since_ns, step.at_ns, watts)
        for since_ns, at_ns, watts in self._powermetrics.take() if self._powermetrics is not None else ():
            columns.rate(POWERMETRICS, "power_w", since_ns, at_ns, watts)

    def _read_gpus(self) -> bool:
        """Have GPUs read now; False if their driver does not answer."""
        return self._gpus is None or not self._gpus.count or self._gpus.now()

    def _columns(self, *, take: bool = False) -> ReadingColumns:
        if self._gpus is None:
            return self._run.columns
        return self._run.columns.joined(self._gpus.taken() if take else self._gpus.columns())

    def _idle_power(self) -> dict[str, float]:
        """Source → power before the first run: from its counter, else from what a GPU tells."""
        columns = self._columns()
        idle: dict[str, float] = {}
        for source, column in columns.named("energy_j"):
            seconds = (column.at_ns[-1] - column.at_ns[0]) / 1e9
            if seconds >= LEAST_IDLE_S and (watts := power_between_steps(column)) is not None:
                idle[source] = watts
        for source, column in columns.named("power_w"):
            if source.startswith("gpu:") and (power := statistic(column, (0, time.perf_counter_ns()))):
                idle.setdefault(source, power["mean"])
        return idle

    def _cost(self, end_ns: int) -> dict[str, float]:
        run = self._run
        cpu_s, wall_s = time.process_time() - run.begin_cpu_s, (end_ns - run.begin_ns) / 1e9
        of_gpus = self._gpus.read_s[:] if self._gpus is not None else []
        means = [sum(some) / len(some) for some in (run.read_s, of_gpus) if some]
        return {
            "cpu_s": cpu_s,
            "cpu_pct": 100 * cpu_s / wall_s,
            "look_ms": 1e3 * sum(means),
            "slowest_look_ms": 1e3 * max([*run.read_s, *of_gpus]),
        }

    def _on_gpus(self, window: Window) -> dict[str, Any]:
        if self._gpus is None or not self._gpus.count:
            return {"job": {}, "foreign": {}, "unknown": {}}
        ours = {*self._own.pids, *(self._family.pids if self._family is not None else ())}
        return self._gpus.processes(window, ours, self._run.begin_ns)

    def _throttled(self, columns: ReadingColumns, window: Window) -> dict[str, tuple[str, ...]]:
        of_cpu = self._machine.throttled(window)
        of_gpus = self._gpus.throttled(columns, window) if self._gpus is not None else {}
        return of_gpus | ({"cpu": of_cpu} if of_cpu is not None else {})

    def _span(self, columns: ReadingColumns, span: Window) -> dict[str, Any]:
        energy, _ = energies(columns, span, self._idle or {}, self._rapl.unsure)
        return {
            "window_ns": span,
            "statistics": statistics(columns, span),
            "throttled": self._throttled(columns, span),
            "energy": energy,
        }

    def _absent(self) -> dict[str, str]:
        sources = (self._machine, self._rapl, self._family, self._gpus)
        absent = dict(self._failed)
        for source in sources:
            absent |= source.absent if source is not None else {}
        if self._powermetrics is not None and self._powermetrics.absent:
            absent[f"energy:{POWERMETRICS}"] = self._powermetrics.absent
        return absent

    def _leave_family(self) -> None:
        if self._family is not None:
            self._family.close()
            self._family = None


def _of_this_system(root: Path) -> tuple[_Machine, Callable[[Sequence[int]], _Family]]:
    if sys.platform == "linux":
        from assay.run.probes.readers.machine import LinuxMachine
        from assay.run.probes.readers.processes import ProcessTree

        strangers: set[int] = set()
        # Children of services that run already are among those who were there before.
        return LinuxMachine(root), lambda pids: ProcessTree(pids, root, strangers if len(pids) < 2 else None)
    from assay.run.probes.readers.psutil_reader import PsutilMachine, PsutilTree

    return PsutilMachine(), PsutilTree


def _rows(columns: ReadingColumns, marks: Marks) -> list[Rows]:
    """All series, and the phases of the run as series that are 1 from their begin to their end."""
    rows: list[Rows] = [(source, name, "", column.at_ns, column.value) for source, name, column in columns]
    return [*rows, *(("phase", phase, "", (begin, end), (1.0, 0.0)) for phase, begin, end in marks)]


class CommandInput:
    """Lines of standard input, waited for no longer than until the next look."""

    def __init__(self, fd: int = 0) -> None:
        self._fd, self._rest = fd, b""

    def within(self, wait_s: float) -> list[dict[str, Any]] | None:
        """The documents that came in some time; None when there will be no more."""
        if not readable(self._fd, max(0.0, wait_s)):
            return []
        if not (chunk := os.read(self._fd, 65536)):
            return None
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]


def follow(sampler: Sampler, commands: CommandInput, todo: list[dict[str, Any]] | None) -> None:
    """Look again and again, and do what is asked, until the input ends."""
    due_s = time.monotonic()
    while todo is not None:
        for command in todo:
            _do(sampler, command)
            due_s = time.monotonic() + sampler.wait_s()  # each of them has just taken a look
        now_s = time.monotonic()
        if now_s >= due_s:
            sampler.read()
            # A late reading is not made up for: two readings at the same time say no more than one.
            due_s = max(due_s + sampler.wait_s(), now_s)
        todo = commands.within(due_s - time.monotonic())


def _do(sampler: Sampler, command: Mapping[str, Any]) -> None:
    if "begin" in command:
        sampler.begin(command["begin"], command["beside"])
    elif "finish" in command:
        marks = [(str(phase), int(begin), int(end)) for phase, begin, end in command["marks"]]
        spans = {str(name): (int(begin), int(end)) for name, (begin, end) in command["spans"].items()}
        answer({"seen": sampler.finish(marks, spans, Path(command["finish"]))})


def main() -> int:
    """Sample until the parent is gone."""
    commands = CommandInput()
    while not (first := commands.within(_PATIENCE_S)):
        if first is None:
            return 0
    order, *rest = first
    gc.disable()  # nothing here is made in circles, and a collection would be the slowest look of all
    sampler = Sampler(float(order["every_s"]), order["own"])
    sampler.settle()
    answer({"ready": True})
    try:
        follow(sampler, commands, rest)
    finally:
        sampler.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
