"""One run: a fresh child process in its own group, watched to its end or its deadline, and what it leaves: a report.

The report is one document, one file of samples and files of its own, or the reason why there is none.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from assay.clock import Clock
from assay.documents import from_json, to_json
from assay.run.contract import Measured, Order
from assay.run.pipes import hand_over, readable
from assay.run.processes import TAG_VARIABLE, kill_tree, rusage_mb, sweep, with_own_programs
from assay.run.records import DeviceProof, SamplePhase, SampleSet, Window
from assay.run.scratch import COMMAND_LOGS
from assay.run.services import tail_of
from assay.run.services.containers import sweep_containers
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, is_api

LOG = "child.log"
TAIL_LINES = 20
_POLL_S = 0.25


class Watch(Protocol):
    """Observer of a run's progress."""

    def phase(self, name: str) -> None: ...

    def progress(self, share: float, note: str) -> None:
        """Part of the phase is done."""
        ...


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child process ended."""

    exit_code: int  # negative: killed by that signal
    timed_out: bool
    phase: str  # the last one it entered
    memory_mb: float | None  # its high-water mark, or that of its whole tree at the moment we ended it
    oom_kills: int  # processes that the kernel killed for memory meanwhile
    stragglers: int  # processes it left behind, ended by us

    @property
    def signal_name(self) -> str | None:
        if self.exit_code >= 0:
            return None
        try:
            return signal.Signals(-self.exit_code).name
        except ValueError:
            return f"signal {-self.exit_code}"


def launch(
    order: Order, *, timeout_s: float, clock: Clock, watch: Watch, started: Callable[[int], None] | None = None
) -> ChildExit:
    """Run a child to its end. Whatever happens here, no process of it stays behind."""
    tag = uuid.uuid4().hex
    oom_before = _oom_kills()
    with _child(order, tag) as (process, events):
        try:
            if started is not None:
                started(process.pid)
            phase, timed_out = _follow(process, events, clock.monotonic_s() + timeout_s, clock, watch)
        except BaseException:
            kill_tree(process.pid, tag)
            _reap(process)
            sweep_containers(tag, Path(order.scratch))
            raise
        at_death = kill_tree(process.pid, tag) if timed_out else None
        exit_code, peak = _reap(process)
    stragglers = sweep(tag) + sweep_containers(tag, Path(order.scratch))
    return ChildExit(exit_code, timed_out, phase, at_death or peak, max(0, _oom_kills() - oom_before), stragglers)


def log_tail(scratch: Path, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """The last lines that a child and its command wrote."""
    tail = [line for name in (LOG, *COMMAND_LOGS) for line in tail_of(scratch / name, lines)]
    return tuple(tail[-lines:])


@contextmanager
def _child(order: Order, tag: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    scratch = Path(order.scratch)
    order_path = scratch / "order.json"
    order_path.write_text(to_json(order))
    events_read, events_write = os.pipe()
    lifeline_read, lifeline_write = os.pipe()
    try:
        with (scratch / LOG).open("wb") as log:
            options, words = hand_over(events_write, lifeline_read)
            process = subprocess.Popen(
                [sys.executable, "-m", "assay.exec.child", str(order_path), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **with_own_programs(os.environ),
                    **for_child(order.job.definition, os.environ),
                    TAG_VARIABLE: tag,
                    "PYTHONUNBUFFERED": "1",
                },
                **options,
            )
        os.close(events_write)
        os.close(lifeline_read)
        events_write = lifeline_read = -1
        yield process, events_read
    finally:
        for fd in (events_read, events_write, lifeline_read, lifeline_write):
            if fd >= 0:
                os.close(fd)


def _follow(
    process: subprocess.Popen[bytes], events: int, deadline_s: float, clock: Clock, watch: Watch
) -> tuple[str, bool]:
    """Pass events on until the child closes its pipe or ends; return the last phase and whether time ran out."""
    phase, rest = "start", b""
    while (left_s := deadline_s - clock.monotonic_s()) > 0:
        if not readable(events, min(left_s, _POLL_S)):
            if _has_ended(process):
                return phase, False
            continue
        chunk = os.read(events, 65536)
        if not chunk:
            return phase, not _ends_by(process, deadline_s, clock)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if "phase" in event:
                phase = str(event["phase"])
                watch.phase(phase)
            else:
                watch.progress(event["share"], event["note"])
    return phase, True


def _ends_by(process: subprocess.Popen[bytes], deadline_s: float, clock: Clock) -> bool:
    """Wait for a child that has closed its pipe; closing it without ending does not cheat the deadline."""
    while clock.monotonic_s() < deadline_s:
        if _has_ended(process):
            return True
        time.sleep(0.005)
    return False


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if sys.platform == "win32":
        return process.poll() is not None
    # WNOWAIT leaves the child to be reaped with its resource usage later.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(process: subprocess.Popen[bytes]) -> tuple[int, float | None]:
    """Collect a child that has ended or is ending, with the kernel's account of its memory."""
    if sys.platform == "win32":
        return process.wait(), None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, rusage_mb(usage.ru_maxrss)


def _oom_kills() -> int:
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


REPORT = "report.json"
SAMPLES = "samples.npz"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a child could not measure, in its own words."""

    code: str
    message: str
    try_: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class ChildReport:
    """Everything but the samples."""

    phases: Mapping[str, float] = field(default_factory=dict)
    marks: tuple[tuple[str, int, int], ...] = ()  # phase, begin and end, of `time.perf_counter_ns`
    metrics: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    device: DeviceProof | None = None
    window: Window | None = None
    columns: tuple[tuple[str, SamplePhase], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # name → path
    refusal: Refusal | None = None
    left_behind: int = 0  # processes that the target left, ended by the child


def leave(
    folder: Path,
    measured: Measured,
    phases: Mapping[str, float],
    marks: Sequence[tuple[str, int, int]] = (),
    *,
    left_behind: int = 0,
) -> None:
    """Write what was measured; the report comes last, so that its presence means all is there."""
    import numpy as np

    times = {f"at{index}": samples.at_ns for index, samples in enumerate(measured.samples)}
    values = {f"value{index}": samples.value for index, samples in enumerate(measured.samples)}
    np.savez(folder / SAMPLES, **times, **values)  # type: ignore[arg-type]
    # A number that is none has no place among the measured ones.
    not_finite = {name: f"came out as {value}" for name, value in measured.metrics.items() if not math.isfinite(value)}
    _write(
        folder,
        ChildReport(
            phases=dict(phases),
            marks=tuple(marks),
            metrics={name: value for name, value in measured.metrics.items() if name not in not_finite},
            absent={**measured.absent, **not_finite},
            facts=measured.facts,
            device=measured.device,
            window=measured.window,
            columns=tuple((sample_set.metric, sample_set.phase) for sample_set in measured.samples),
            files={name: str(path) for name, path in measured.files.items()},
            left_behind=left_behind,
        ),
    )


def leave_refusal(folder: Path, refusal: Refusal, phases: Mapping[str, float]) -> None:
    """Write why nothing was measured."""
    _write(folder, ChildReport(phases=dict(phases), refusal=refusal))


def take(folder: Path) -> tuple[ChildReport, tuple[SampleSet, ...]] | None:
    """Read what a child left; None when it died before it could write."""
    path = folder / REPORT
    if not path.exists():
        return None
    report = from_json(ChildReport, path.read_bytes(), source=str(path))
    if report.refusal is not None:
        return report, ()
    import numpy as np

    with np.load(folder / SAMPLES, allow_pickle=False) as columns:
        samples = tuple(
            SampleSet(metric, phase, columns[f"at{index}"], columns[f"value{index}"])
            for index, (metric, phase) in enumerate(report.columns)
        )
    return report, samples


def _write(folder: Path, report: ChildReport) -> None:
    partial = folder / f"{REPORT}.part"
    partial.write_text(to_json(report))
    partial.replace(folder / REPORT)


# NumPy's library for matrices starts a thread for each core as soon as it is loaded, and all of them spin for a while:
# on 16 cores that is two seconds of processor time in every process. A process that only reads samples needs none.
_VARIABLE, _ONE = "OPENBLAS_NUM_THREADS", "1"
# Says that the variable is ours, so that the programs that are measured do not see it.
_OURS = "ASSAY_ONE_THREAD"


def for_child(definition: Definition, environ: Mapping[str, str]) -> dict[str, str]:
    """What is added to the environment of a run's process; nothing where it computes, or where the user chose."""
    target = definition.target
    # A protocol sends requests and computes nothing; answers of vector databases are compared with assay's oracle.
    elsewhere = isinstance(target, CommandTarget) or is_api(target)
    return {_VARIABLE: _ONE, _OURS: "1"} if elsewhere and _VARIABLE not in environ else {}


def forget(environ: MutableMapping[str, str]) -> None:
    """Take what `for_child` added out of the environment, once NumPy is loaded."""
    if environ.pop(_OURS, None) is not None:
        environ.pop(_VARIABLE, None)
