"""Keeps parts running: starts them in order, restarts them with back-off when they end, stops them on request."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import psutil

from assay.infra.processes.parts import SystemPart
from assay.infra.processes.setup import as_account
from assay.infra.record import keep
from assay.run.processes import descendants, end_children, own_start
from assay.run.scratch import is_held

SupervisedState = Literal["waiting", "starting", "healthy", "unhealthy", "restarting", "done", "failed", "stopped"]
# One that was never healthy and ended this often will not get healthy by itself.
TRIES = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
# After so long in good health an end is a new trouble, and not a part of the last one.
STEADY_S = 60.0
STATUS = "status.json"
SUPERVISOR = "supervisor"
"""The folder that the supervisor of a system holds as long as it lives."""
# Soon while something changes; seldom afterwards, since a machine that measures should be left in peace.
_SOON_S, SELDOM_S = 0.2, 15.0
_RETRY_S = 2.0
_LOG_BYTES = 20_000_000
# Settings of another server and rights of the user are none of these parts' business.
_NOT_INHERITED = ("ASSAY_SERVER", "ASSAY_TOKEN", "ASSAY_STORE", "ASSAY_AGENT", "ASSAY_INFRA")
Probe = Callable[[str], "str | None"]
"""Asks a part by its name whether it works: None for yes, else why not."""


@dataclass(frozen=True, slots=True)
class RestartState:
    """How it goes with one part."""

    state: SupervisedState = "waiting"
    tries: int = 0
    """Starts in a row without a long time in good health."""
    restarts: int = 0
    proven: bool = False
    """It was healthy once."""
    healthy_s: float = 0.0
    """Since when it is healthy, on a clock that only goes forwards."""
    due_s: float = 0.0
    """When it may be started again."""
    detail: str = ""


def after_start(course: RestartState) -> RestartState:
    again = course.restarts + (course.tries > 0 or course.proven)
    return replace(course, state="starting", tries=course.tries + 1, restarts=again, detail="")


def after_check(course: RestartState, answer: str | None, now_s: float) -> RestartState:
    """It was asked whether it works: None for yes, else what it said."""
    if answer is None:
        since = course.healthy_s if course.state == "healthy" else now_s
        return replace(course, state="healthy", proven=True, healthy_s=since, detail="")
    return replace(course, state="unhealthy" if course.proven else "starting", detail=answer)


def after_exit(course: RestartState, code: int, now_s: float, *, once: bool = False, why: str = "") -> RestartState:
    how = why or exit_in_words(code)
    if once and code == 0:
        return replace(course, state="done", proven=True, detail="")
    steady = course.state == "healthy" and now_s - course.healthy_s >= STEADY_S
    tries = 1 if steady else course.tries
    if not course.proven and tries >= TRIES:
        return replace(course, state="failed", detail=f"{how}, {tries} times in a row")
    return replace(course, state="restarting", tries=tries, due_s=now_s + back_off_s(tries), detail=how)


def back_off_s(tries: int) -> float:
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** max(0, min(tries, 20) - 1))


def exit_in_words(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


@dataclass(frozen=True, slots=True)
class PartNote:
    """What the supervisor tells of one part."""

    name: str
    state: str
    pid: int | None
    started: float | None
    """When its process began, as the system tells it."""
    restarts: int
    detail: str


@dataclass(frozen=True, slots=True)
class Notes:
    """What the supervisor tells; written whenever it changes."""

    pid: int
    started: float
    parts: tuple[PartNote, ...]


@dataclass(slots=True)
class Child:
    """A part and its process."""

    part: SystemPart
    course: RestartState = field(default_factory=RestartState)
    process: subprocess.Popen[bytes] | None = None
    started: float | None = None
    probe_s: float = 0.0
    """When it is asked next."""

    def note(self) -> PartNote:
        pid = self.process.pid if self.process is not None else None
        return PartNote(self.part.name, self.course.state, pid, self.started, self.course.restarts, self.course.detail)


class Supervisor:
    """Keeps the parts of one system running until it is asked to stop."""

    def __init__(
        self,
        folder: Path,
        parts: Sequence[SystemPart],
        probe: Probe,
        environ: Mapping[str, str],
        *,
        seldom_s: float = SELDOM_S,
    ) -> None:
        self._folder, self._probe_part, self._environ, self._seldom_s = folder, probe, environ, seldom_s
        self._children = [Child(part) for part in parts]
        self._stopping = False
        self._started = own_start()
        self._written: Notes | None = None
        self._heard, self._rung = os.pipe()

    def run(self) -> None:
        """Work until asked to stop, then end everything, the last part first."""
        self._listen()
        try:
            while not self._stopping:
                self._bury()
                self._start_due()
                self._probe()
                self._trim_logs()
                self._write_notes()
                self._sleep()
        finally:
            self._end()
            self._write_notes()

    # What happens meanwhile

    def _listen(self) -> None:
        def stop(*_: object) -> None:
            self._stopping = True

        for end_ in (self._heard, self._rung):
            os.set_blocking(end_, False)
        signal.set_wakeup_fd(self._rung, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a function, or it would wake no process
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)

    def _sleep(self) -> None:
        """Wait until a child ends, a stop is asked for, or it is time to look again."""
        states = {child.course.state for child in self._children}
        patience_s = _RETRY_S if "unhealthy" in states else self._seldom_s
        if states & {"starting", "restarting"} or ("waiting" in states and "failed" not in states):
            patience_s = _SOON_S
        select.select([self._heard], [], [], patience_s)
        with suppress(BlockingIOError):
            while os.read(self._heard, 512):
                pass

    # The parts

    def _bury(self) -> None:
        now_s = time.monotonic()
        for child in self._children:
            if child.process is None or child.process.poll() is None:
                continue
            code = child.process.returncode
            _end_rest(child.process.pid)  # what it left behind would hold its port
            child.course = after_exit(child.course, code, now_s, once=child.part.once)
            child.process, child.started = None, None
            self._log(f"{child.part.name} {exit_in_words(code)}; {child.course.state}")
        # What was left by a part, and has ended since, goes from the table of processes.
        own = {child.process.pid for child in self._children if child.process is not None}
        for pid in {orphan.pid for orphan in psutil.Process().children()} - own:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _start_due(self) -> None:
        now_s = time.monotonic()
        for child in self._children:
            state = child.course.state
            if state == "waiting" or (state == "restarting" and now_s >= child.course.due_s):
                self._start(child)
            if not child.course.proven:
                return  # what comes after it needs it

    def _start(self, child: Child) -> None:
        part = child.part
        try:
            with (self._folder / "logs" / f"{part.name}.log").open("ab") as log:
                child.process = subprocess.Popen(
                    part.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=part.cwd,
                    env={**(inherited(self._environ) if part.inherits else {}), **part.env},
                    start_new_session=True,
                    preexec_fn=_tie(part.stop),  # noqa: PLW1509  (there are no threads here)
                    **as_account(part.account),
                )
        except OSError as problem:
            why = f"cannot be started: {problem}"
            child.course = after_exit(after_start(child.course), 127, time.monotonic(), why=why)
            self._log(f"{part.name} {why}")
            return
        child.course = after_start(child.course)
        child.started, child.probe_s = None, 0.0
        with suppress(psutil.Error):
            child.started = float(psutil.Process(child.process.pid).create_time())
        self._log(f"{part.name} started as process {child.process.pid}")

    def _probe(self) -> None:
        for child in self._children:
            now_s = time.monotonic()
            if child.process is None or child.part.once or now_s < child.probe_s or self._stopping:
                continue
            before = child.course
            child.course = after_check(before, self._probe_part(child.part.name), now_s)
            unwell_s = _RETRY_S if before.proven else _SOON_S
            child.probe_s = now_s + (self._seldom_s if child.course.state == "healthy" else unwell_s)
            if child.course.state != before.state:
                self._log(f"{child.part.name} is {child.course.state} {child.course.detail}".rstrip())

    def _end(self) -> None:
        for child in reversed(self._children):
            if child.process is not None:
                self._log(f"{child.part.name} is asked to end")
                _end_one(child.process, child.part)
                child.process, child.started = None, None
            child.course = RestartState("stopped")
        end_children()

    # What is reported

    def _write_notes(self) -> None:
        notes = Notes(os.getpid(), self._started, tuple(child.note() for child in self._children))
        if notes != self._written:
            with suppress(OSError):  # a full disk is no reason to end everything
                keep(self._folder, STATUS, notes)
                self._written = notes

    def _trim_logs(self) -> None:
        """Keep the newer part of a log that has grown; its writer continues at its end."""
        for path in (self._folder / "logs").glob("*.log"):
            with suppress(OSError):
                if path.stat().st_size > _LOG_BYTES:
                    path.with_suffix(".log.1").write_bytes(path.read_bytes())
                    os.truncate(path, 0)

    def _log(self, text: str) -> None:
        with suppress(OSError):
            sys.stdout.write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}\n")
            sys.stdout.flush()


def supervisor_runs(folder: Path) -> bool:
    return is_held(folder / SUPERVISOR)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the user, without those that mean another server."""
    return {name: value for name, value in environ.items() if not name.startswith(_NOT_INHERITED)}


def _end_one(process: subprocess.Popen[bytes], part: SystemPart) -> None:
    """Ask a part to end, and make it after a while."""
    with suppress(ProcessLookupError):
        process.send_signal(part.stop)
    try:
        process.wait(timeout=part.grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _end_rest(process.pid)


def _end_rest(leader: int) -> None:
    """End what is left of the group and session of a part whose first process has ended."""
    for process in descendants(os.getpid())[1:]:
        with suppress(OSError, psutil.Error):
            if leader in (os.getpgid(process.pid), os.getsid(process.pid)):
                process.kill()


def _tie(stop: signal.Signals) -> Callable[[], None] | None:
    """Have a child asked to end when this process is gone, however it went; only Linux can."""
    if sys.platform != "linux":
        return None
    import ctypes

    library, parent, set_parent_death_signal = ctypes.CDLL(None), os.getpid(), 1

    def tie() -> None:
        library.prctl(set_parent_death_signal, int(stop), 0, 0, 0)
        if os.getppid() != parent:  # it went before this was reported
            os._exit(1)

    return tie
