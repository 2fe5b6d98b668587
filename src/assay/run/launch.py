"""One run: a fresh child process in its own group, watched to its end or its deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from assay.clock import Clock
from assay.documents import to_json
from assay.run.artefacts import COMMAND_LOGS
from assay.run.contract import Order
from assay.run.numerics import for_child
from assay.run.pipes import hand_over, readable
from assay.run.processes import TAG_VARIABLE, kill_tree, rusage_mb, sweep
from assay.run.services.containers import sweep_containers

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
    tail: list[str] = []
    for name in (LOG, *COMMAND_LOGS):
        path = scratch / name
        if path.exists():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 65536))
                tail += file.read().decode("utf-8", "replace").splitlines()[-lines:]
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
                    **os.environ,
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
            phase = _pass_on(line, phase, watch)
    return phase, True


def _pass_on(line: bytes, phase: str, watch: Watch) -> str:
    event = json.loads(line)
    if "phase" in event:
        watch.phase(event["phase"])
        return str(event["phase"])
    watch.progress(event["share"], event["note"])
    return phase


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
