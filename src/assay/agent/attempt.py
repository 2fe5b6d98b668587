"""One attempt at a job: files from a cache, and a measuring process whose events are read as they come."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from assay.agent.heartbeat import HeldLeases, ProgressSender
from assay.agent.identity import FULL
from assay.agent.spool import Spool, SpoolEntry
from assay.analyse.records import unmeasured_result
from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.documents import to_json
from assay.errors import AssayError, Problem
from assay.files import file_digest, write_whole
from assay.place.fleet.client import AwayError, FleetClient
from assay.place.fleet.protocol import Progress
from assay.place.fleet.transport import back_off_s
from assay.plan.job import Job, JobFile
from assay.run.processes import TAG_VARIABLE, kill_tree
from assay.run.records import Failure
from assay.spec.paths import programs_in_words

# An agent's own secrets; a job could ask for them by name and send them anywhere.
OWN_VARIABLES = ("ASSAY_TOKEN", "ASSAY_AGENT_TOKEN")
SECRET_VARIABLES = (*OWN_VARIABLES, "ASSAY_TOKEN_FILE")
_TAIL_BYTES = 16384
_MAX_LINE = 1 << 20


class ProcessExecutor:
    """Starts `assay exec` under `parent_guard`, in a session of its own."""

    def __init__(self, hidden: tuple[str, ...] = ()) -> None:
        """Which further variables of the agent's environment a job must not see."""
        self._hidden = {*SECRET_VARIABLES, *hidden}

    def start(self, entry: SpoolEntry, environment: Mapping[str, str]) -> Execution:
        inherited = {name: value for name, value in os.environ.items() if name not in self._hidden}
        command = [sys.executable, "-m", "assay.agent.parent_guard", "exec", str(entry.document)]
        apart: dict[str, Any] = {"start_new_session": True}  # a signal to the agent's terminal is the agent's alone
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        with entry.log.open("wb") as errors:
            process = subprocess.Popen(
                [*command, "--out", str(entry.out), "--events"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**inherited, **environment, TAG_VARIABLE: entry.tag},
                **apart,
            )
        return Execution(process, entry.tag)


class Execution:
    """A job that is being measured, by a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], tag: str) -> None:
        self._process = process
        self._tag = tag

    def events(self) -> Iterator[Mapping[str, Any]]:
        """What it says about itself, line by line; what is no event is left out."""
        stdout = self._process.stdout
        while stdout is not None and (line := stdout.readline(_MAX_LINE)):
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

    def kill(self) -> None:
        """End it immediately, with everything that it started; harmless when it has ended."""
        if self._process.poll() is None:
            kill_tree(self._process.pid, self._tag)

    def wait(self) -> int:
        """Its exit code, negative for a signal; its standard input stays open until then, see `parent_guard`."""
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def last_lines(log: Path, lines: int = 20) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


class InputCache:
    """A folder of files by content; the ones used longest ago make room for new ones."""

    def __init__(self, folder: Path, client: FleetClient, max_bytes: int) -> None:
        self._folder = folder
        self._client = client
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def put(self, file: JobFile, to: Path, *, own: bool) -> None:
        cached = self._folder / file.sha256
        with self._lock:
            if not _is_sound(cached, file):
                self._make_room(file.size_bytes)
                self._client.download(file.sha256, cached)
            os.utime(cached)  # used now
            _place(cached, to, own=own)

    def empty(self) -> None:
        with self._lock:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_room(self, needed: int) -> None:
        with suppress(OSError):
            paths = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            total = needed
            for path in paths:
                total += path.stat().st_size
                if total > self._max_bytes:
                    path.unlink(missing_ok=True)


def _is_sound(path: Path, file: JobFile) -> bool:
    try:
        return path.stat().st_size == file.size_bytes and file_digest(path) == file.sha256
    except OSError:
        return False


def _place(kept: Path, to: Path, *, own: bool) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    if not own:
        with suppress(OSError):  # another disk, or a file system without links
            os.link(kept, to)
            return
    shutil.copyfile(kept, to)


_log = logging.getLogger("assay.agent")
DISK_CODES = frozenset({"disk", "disk-full", "store", "samples", "cache"})
Kind = Literal["result", "crashed", "given back", "lost"]


def failed_result(job: Job, problem: Problem, clock: Clock, phase: str = "prepare") -> bytes:
    """The result of a job that an agent cannot start or deliver: failed, with the reason, so that nothing repeats."""
    failure = Failure.of(problem, phase)
    result = unmeasured_result(job, "failed", failure, verdict="invalid", at=iso(clock.utc()))
    return to_json(result, indent=2).encode()


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended."""

    kind: Kind
    reason: str = ""
    code: str = ""
    """Of the failure, where the attempt has one."""


@dataclass(frozen=True, slots=True)
class AttemptTools:
    """What every attempt of an agent works with."""

    executor: ProcessExecutor
    spool: Spool
    leases: HeldLeases
    progress: ProgressSender
    inputs: InputCache
    allow: frozenset[str] = frozenset()
    environment: Mapping[str, str] | None = None
    clock: Clock = SYSTEM_CLOCK


class Attempt:
    """One try at a job under one lease."""

    def __init__(self, job: Job, entry: SpoolEntry, tools: AttemptTools, environment: Mapping[str, str]) -> None:
        self._job = job
        self._entry = entry
        self._tools = tools
        self._environment = {**(tools.environment or {}), **environment}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._why: AttemptEnd | None = None
        self._execution: Execution | None = None
        self._progress = Progress(entry.agent, runs=job.definition.measure.least_runs)
        self._error: Problem | None = None

    def stop(self, ended: AttemptEnd) -> None:
        """End the attempt immediately, from any thread; the first reason counts."""
        with self._lock:
            if self._why is None:
                self._why = ended
            self._stopped.set()
            execution = self._execution
        if execution is not None:
            execution.kill()

    def run(self) -> AttemptEnd:
        """Measure, and say how it ended; nothing of it still runs."""
        if self._why is not None:
            return self._why
        try:
            job = self._prepare()
            return self._why or self._execute(job)
        except OSError as problem:
            return self._why or self._disk(problem)
        except AssayError as problem:
            return self._why or self._refuse(problem.problem)

    def _prepare(self) -> Job:
        """Refuse what is not allowed, fetch the job's files, and write the document that the executor reads."""
        from assay.run.job_files import materialise

        programs = programs_in_words(self._job.definition)
        if programs and "command" not in self._tools.allow:
            raise AssayError(
                f"the job runs {' and '.join(programs)}; this agent allows no commands",
                code="not-allowed",
                try_="start the agent with --allow command, or choose another one",
            )
        work = self._entry.work
        work.mkdir(parents=True, exist_ok=True)
        self._report("fetch")
        job = materialise(self._job, work, lambda file, path: self._fetch(file, path, own=bool(programs)))
        job = replace(job, base=str(work))
        write_whole(self._entry.document, to_json(job).encode())
        return job

    def _fetch(self, file: JobFile, path: Path, *, own: bool) -> None:
        """Fetch a file; a server that is away is waited for, as long as the attempt is not stopped."""
        failures = 0
        while not self._stopped.is_set():
            try:
                self._tools.inputs.put(file, path, own=own)
            except AwayError as problem:
                failures += 1
                said = problem.problem.message
                _log.warning("cannot fetch %s for job=%s: %s", file.sha256[:12], self._entry.job, said)
                self._stopped.wait(back_off_s(failures))
            else:
                return
        raise AssayError("the attempt was stopped", code="stopped")

    def _execute(self, job: Job) -> AttemptEnd:
        entry, tools = self._entry, self._tools
        with self._lock:
            if self._why is not None:
                return self._why
            self._execution = tools.executor.start(entry, self._environment)
        execution = self._execution
        try:
            for event in execution.events():
                self._take(event)
        except BaseException:
            execution.kill()
            raise
        finally:
            code = execution.wait()
        _log.info("executor ended job=%s fence=%d code=%d", job.id, entry.fence, code)
        return self._judge(code)

    def _judge(self, code: int) -> AttemptEnd:
        """What the executor left behind; a result that is whole counts even when the process was ended after it."""
        if self._entry.result.is_file():
            failure = _failure(self._entry.result)
            if failure in DISK_CODES and (shortage := self._tools.spool.shortage()):
                return AttemptEnd("given back", shortage, failure)
            return AttemptEnd("result", code=failure)
        if self._why is not None:
            return self._why
        if self._error is not None:
            return self._refuse(self._error)
        lines, shortage = last_lines(self._entry.log), self._tools.spool.shortage()
        if shortage or "No space left on device" in lines:
            return AttemptEnd("given back", shortage or "the disk is full", "disk-full")
        reason = f"the measuring process ended without a result ({_in_words(code)})"
        return AttemptEnd("crashed", f"{reason}\n{lines}".strip())

    def _refuse(self, problem: Problem) -> AttemptEnd:
        """Leave a failed result; where the disk is to blame, the job is another agent's."""
        if problem.code in DISK_CODES:
            return AttemptEnd("given back", problem.message, problem.code)
        _log.warning("refused job=%s [%s] %s", self._entry.job, problem.code, problem.message)
        try:
            write_whole(self._entry.result, failed_result(self._job, problem, self._tools.clock))
        except OSError as full:
            return self._disk(full)
        return AttemptEnd("result", problem.message, problem.code)

    def _disk(self, problem: OSError) -> AttemptEnd:
        code = "disk-full" if problem.errno in FULL else "disk"
        return AttemptEnd("given back", f"the agent cannot write: {problem.strerror or problem}", code)

    def _take(self, event: Mapping[str, Any]) -> None:
        now = self._progress
        match event.get("event"):
            case "run":
                run, runs = _int(event, "run"), _int(event, "of")
                self._progress = replace(now, run=run, runs=runs, phase="", share=0.0, note="")
            case "phase":
                self._progress = replace(now, phase=str(event.get("name", "")), share=0.0, note="")
            case "progress":
                share = event.get("share")
                share = float(share) if isinstance(share, int | float) else 0.0
                self._progress = replace(now, share=share, note=str(event.get("note", "")))
            case "error":
                words = (str(event.get(name, "")) for name in ("text", "at", "try"))
                self._error = Problem(str(event.get("code", "failed")), *words)
        self._report(log=_lines(event))

    def _report(self, phase: str = "", log: tuple[str, ...] = ()) -> None:
        if phase:
            self._progress = replace(self._progress, phase=phase)
        self._tools.progress.note(self._entry.held, replace(self._progress, log=log))


def _lines(event: Mapping[str, Any]) -> tuple[str, ...]:
    match event.get("event"):
        case "log":
            lines = event.get("lines")
            return tuple(str(line) for line in lines) if isinstance(lines, list) else ()
        case "note" | "error":
            return (str(event.get("text", "")),)
        case "run_done":
            return (f"run {_int(event, 'run') + 1}: {event.get('sentence', '')}",)
    return ()


def _int(event: Mapping[str, Any], name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0


def _failure(result: Path) -> str:
    """The code of a result's failure, empty if it has none."""
    try:
        error = json.loads(result.read_bytes()).get("error")
        return str(error.get("code", "")) if isinstance(error, dict) else ""
    except (OSError, ValueError, AttributeError):
        return ""


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    import signal

    signals = {number.value: number.name for number in signal.Signals}
    name = signals.get(-code, f"signal {-code}")
    return f"killed by {name}, perhaps for lack of memory" if name == "SIGKILL" else f"killed by {name}"
