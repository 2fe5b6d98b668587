"""Progress of a campaign: a live picture on a terminal, plain lines elsewhere, JSON lines for programs, or nothing.

A view draws on the error stream, so that standard output holds the result alone. The live one redraws
at most four times a second: more would take processor time from what is being measured.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from assay.analyse.records import MultiRunJobResult
from assay.analyse.text import count
from assay.errors import AssayError
from assay.report.wording import (
    failure_sentence,
    headline_of,
    job_label,
    one_line,
    unmeasured_sentence,
    unreported,
    verdict_word,
)
from assay.run.records import SingleRunResult
from assay.units import show_seconds

if TYPE_CHECKING:
    from rich.console import Group
    from rich.progress import TaskID

REDRAWS_PER_S = 4
HEARTBEAT_S = 60.0  # a log in which nothing appears for longer looks like a program that hangs
WAIT_S = 5.0  # a wait for another process is reported sooner: perhaps it never answers
PROGRESS_PER_S = 4
MAX_LINE = 1000  # characters of one line of a log
# A reader that takes nothing for this long is given up for the current event; measuring continues.
PATIENCE_S = 2.0
_ENOUGH_SHARE = 0.1  # of what is measured, before it says how long the rest takes
_CHUNK = 512  # what every system writes to a pipe that has room without waiting


class View:
    """Shows how a campaign goes. This one shows nothing; the others override what they show."""

    def campaign(self, campaign_id: str, jobs: int, runs: int, note: str) -> None:
        """A campaign of this many jobs and runs begins."""

    def job(self, job_id: str, label: str, index: int, of: int) -> None:
        """A job begins; `index` counts from 0."""

    def run(self, run_id: int, of: int) -> None:
        """A run of the current job begins; `run_id` counts from 0."""

    def phase(self, name: str) -> None:
        """A phase of the current run begins."""

    def progress(self, share: float, note: str) -> None:
        """So much of the current phase is done, from 0 to 1."""

    def log(self, lines: Sequence[str]) -> None:
        """The last lines that the process of the current run wrote."""

    def run_done(self, result: SingleRunResult) -> None:
        """A run ended, well or not."""

    def job_done(self, result: MultiRunJobResult) -> None:
        """A job ended, well or not."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def status(self, text: str) -> None:
        """Something that holds for now only: a note, unless overridden."""
        self.note(text)

    def waiting(self, text: str) -> None:
        """Another measurement holds the device, so that measuring waits."""
        self.status(text)

    def close(self) -> None:
        """Nothing more will come."""


def view_for(*, text: bool, quiet: bool = False, stream: TextIO | None = None) -> View:
    """The view that fits: live on a terminal with text output, plain lines elsewhere, silent when asked."""
    out = stream or sys.stderr
    if quiet:
        return QuietView(out)
    return LiveView(out) if text and out.isatty() else PlainView(out)


class SilentView(View):
    """Shows nothing at all."""


class QuietView(SilentView):
    """Shows nothing but, once, that it waits: a command that says nothing for minutes looks as if it hung."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said = False

    def waiting(self, text: str) -> None:
        if not self._said:
            self._said = True
            self._stream.write(f"{text}\n")
            self._stream.flush()


class PlainView(View):
    """One line per event; where a run takes long, a line every minute says how far it is, and one what it waits for."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._now = now
        self._job = self._current_run = self._current_phase = self._doing = ""
        self._runs = 0
        self._began_s = self._said_s = now()
        self._waits_since_s: float | None = None  # for what `_doing` names
        self._reason = ""  # why the last run failed
        self._closed = threading.Event()

    def campaign(self, campaign_id: str, jobs: int, runs: int, note: str) -> None:
        self._say("campaign", campaign_sentence(campaign_id, jobs, runs, note))
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def job(self, job_id: str, label: str, index: int, of: int) -> None:
        self._job = one_line(label)
        self._say("job", f"{index + 1}/{of} {self._job} ({one_line(job_id)})")

    def run(self, run_id: int, of: int) -> None:
        self._runs = of
        self._current_run = f"{run_id + 1}/{of}"

    def phase(self, name: str) -> None:
        self._current_phase = self._doing = one_line(name)
        self._waits_since_s = None

    def progress(self, share: float, note: str) -> None:
        before, self._doing = self._doing, progress_sentence(self._current_phase, share, note)
        if share > 0 or not note:
            self._waits_since_s = None
        elif self._doing != before:
            self._waits_since_s = self._now()

    def run_done(self, result: SingleRunResult) -> None:
        self._waits_since_s = None
        self._reason = failure_sentence(result.error) if result.error else ""
        self._say("run", f"{result.run_id + 1}/{self._runs or '?'} {self._job}: {run_sentence(result)}")

    def job_done(self, result: MultiRunJobResult) -> None:
        known = self._reason and result.state != "done" and unmeasured_sentence(result) == self._reason
        sentence = verdict_word(result) if known else job_sentence(result)
        self._say("done", f"{result_label(result)}: {sentence}")

    def note(self, text: str) -> None:
        self._say("note", one_line(text))

    def heartbeat(self) -> None:
        """Say how far the campaign is if nothing was printed for a while, or it has begun to wait."""
        now_s = self._now()
        notable_s = math.inf if self._waits_since_s is None else self._waits_since_s + WAIT_S
        if now_s - self._said_s >= HEARTBEAT_S or self._said_s < notable_s <= now_s:
            run = f"run {self._current_run} " if self._current_run else ""
            self._say("...", f"{run}{self._doing or 'waiting'} · {show_seconds(now_s - self._began_s)} so far")

    def close(self) -> None:
        self._closed.set()

    def _beat(self) -> None:
        while not self._closed.wait(WAIT_S / 2):
            self.heartbeat()

    def _say(self, kind: str, text: str) -> None:
        # Flushed immediately: a log that is read while the campaign runs must not lag behind it.
        self._said_s = self._now()
        self._stream.write(f"{kind:<8}  {text}\n")
        self._stream.flush()


class LiveView(View):
    """A bar for the jobs, one for the runs and a line of what comes in, redrawn in place; what is over stays above."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        # Here, as only a picture needs it: a plain or silent run starts sooner and stays smaller without.
        from rich.console import Console
        from rich.live import Live
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        self._escape = escape
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        # Cut off at the edge, and at no other column's cost: a row that wraps would make the picture jump.
        last = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", table_column=last),
            console=self._console,
            expand=True,
        )
        self._detail = ""
        self._live = Live(
            console=self._console,
            get_renderable=self.picture,
            refresh_per_second=REDRAWS_PER_S,
            transient=True,
        )
        self._jobs: TaskID | None = None
        self._runs: TaskID | None = None
        self._label = ""
        self._phase = ""
        self._left = TimeLeft(0, now)

    def campaign(self, campaign_id: str, jobs: int, runs: int, note: str) -> None:
        self._print("campaign", campaign_sentence(campaign_id, jobs, runs, note))
        self._left.runs = runs
        self._jobs = self._bars.add_task("jobs", total=jobs, note="")
        self._runs = self._bars.add_task("runs", total=None, note="")
        self._live.start()

    def picture(self) -> Group:
        """What is redrawn: the bars, and below them what the current run reports."""
        from rich.console import Group
        from rich.text import Text

        detail = Text(f"{'':5}{self._detail}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(self._bars.get_renderable(), detail)

    def job(self, job_id: str, label: str, index: int, of: int) -> None:  # noqa: ARG002  (the label is shorter)
        self._label = one_line(label)
        if self._jobs is not None:
            self._bars.update(self._jobs, completed=index, total=of)
        if self._runs is not None:
            self._bars.reset(self._runs, total=None, note="")
        self._show_job()

    def run(self, run_id: int, of: int) -> None:
        self._left.begin()
        self._set_run(completed=run_id, total=of, note="")

    def phase(self, name: str) -> None:
        self._phase = one_line(name)
        self._left.phase(name)
        self._set_run(note=self._escape(self._phase))

    def progress(self, share: float, note: str) -> None:
        self._left.progress(share)
        self._show_job()
        self._set_run(note=self._escape(how_far(self._phase, share, note)), detail=note)

    def run_done(self, result: SingleRunResult) -> None:
        self._left.end()
        self._show_job()
        self._set_run(completed=result.run_id + 1, note="")
        if result.error:
            self._print("run", f"{result.run_id + 1} {self._label}: {run_sentence(result)}")

    def job_done(self, result: MultiRunJobResult) -> None:
        self._print("done", f"{result_label(result)}: {job_sentence(result)}")
        self._left.skip(len(result.runs))
        if self._jobs is not None:
            self._bars.advance(self._jobs)

    def note(self, text: str) -> None:
        self._print("note", one_line(text))

    def status(self, text: str) -> None:
        """In place of the phase, until the next one: what holds no longer disappears."""
        if self._runs is None:
            self.note(text)
        self._set_run(note="", detail=text)

    def close(self) -> None:
        self._live.stop()

    def _show_job(self) -> None:
        if self._jobs is not None:
            left = self._left.sentence()
            self._bars.update(self._jobs, note=self._escape(f"{left} · {self._label}" if left else self._label))

    def _set_run(self, *, detail: str = "", **fields: object) -> None:
        self._detail = one_line(detail)
        if self._runs is not None:
            self._bars.update(self._runs, **fields)  # type: ignore[arg-type]

    def _print(self, kind: str, text: str) -> None:
        from assay.report.sheet import wrap

        head = f"{kind:<8}  "
        self._console.print("\n".join(wrap(text, self._console.width, " " * len(head), head)), markup=False)


class TimeLeft:
    """How long the rest of a campaign takes, by the runs that this process has seen."""

    def __init__(self, runs: int, now: Callable[[], float] = time.monotonic) -> None:
        self.runs = runs
        """Of the whole campaign."""
        self._now = now
        self._ended = 0
        self._of_job = 0
        self._spent_s = 0.0
        self._measured = 0
        self._began_s: float | None = None
        self._measures_since_s: float | None = None
        self._share = 0.0

    def begin(self) -> None:
        self._began_s, self._measures_since_s, self._share = self._now(), None, 0.0

    def phase(self, name: str) -> None:
        self._measures_since_s, self._share = (self._now() if name == "measure" else None), 0.0

    def progress(self, share: float) -> None:
        """So much of the phase is done, from 0 to 1."""
        self._share = min(share, 1.0)

    def end(self) -> None:
        if self._began_s is not None:
            self._spent_s += self._now() - self._began_s
            self._measured += 1
            self._began_s = None
        self._ended += 1
        self._of_job += 1

    def skip(self, runs: int) -> None:
        """A job of this many runs has ended; those that were measured earlier took no time now."""
        self._ended += max(0, runs - self._of_job)
        self._of_job = 0

    def sentence(self) -> str:
        left = self.runs - self._ended
        gone_s = 0.0 if self._began_s is None else self._now() - self._began_s
        each_s = self._each_s(gone_s)
        if each_s is None or left <= 0:
            return ""
        left_s = max(1, round(left * each_s - min(gone_s, each_s)))
        return f"about {f'{left_s} s' if left_s < 60 else show_seconds(left_s)} left"

    def _each_s(self, gone_s: float) -> float | None:
        """How long a run takes: as those that ended did, else as far as the first one has come; None before that."""
        if self._measured:
            return self._spent_s / self._measured
        if self._measures_since_s is None or self._share < _ENOUGH_SHARE:
            return None
        return gone_s + (self._now() - self._measures_since_s) * (1 - self._share) / self._share


def progress_sentence(phase: str, share: float, note: str) -> str:
    return f"{how_far(phase, share, note)}{f' · {one_line(note)}' if note else ''}"


def how_far(phase: str, share: float, note: str) -> str:
    """The phase with how much of it is done; without that where it waits for something, or has just begun."""
    return phase if share <= 0 and note else f"{phase} {min(max(share, 0.0), 1.0):.0%}"


def campaign_sentence(campaign_id: str, jobs: int, runs: int, note: str) -> str:
    counts = f"{jobs} job{'' if jobs == 1 else 's'}, {runs} run{'' if runs == 1 else 's'}"
    return one_line(f"{campaign_id}: {counts}{f' · {note}' if note else ''}")


def result_label(result: MultiRunJobResult) -> str:
    """The name of a job from its result alone: several may run concurrently, so the last one begun may be another."""
    return one_line(job_label(result.point, result.definition))


def run_sentence(result: SingleRunResult) -> str:
    if result.error:
        return failure_sentence(result.error)
    samples = max(result.sample_counts.values(), default=0)
    suffix = f", {count(samples, 'sample')}" if samples else ""
    return f"ok in {show_seconds(result.duration_seconds)}{suffix}"


def job_sentence(result: MultiRunJobResult) -> str:
    """The outcome of a job, as one line with its headline numbers and their doubt."""
    word = verdict_word(result)
    if result.state != "done":
        return f"{word}: {unmeasured_sentence(result)}"
    parts = [_headline_sentence(result, name) for name in headline_of(result)]
    parts += [f"{name} not reported" for name in unreported(result)]
    doubts = f" ({', '.join(titles)})" if (titles := _doubts(result)) else ""
    return one_line(f"{word}: {'; '.join(parts) or 'nothing measured'}{doubts}")


def _doubts(result: MultiRunJobResult) -> tuple[str, ...]:
    if all(check.passed is not False for check in result.checks) and all(gate.passed for gate in result.gates):
        return ()
    from assay.report.reasons import reason_titles  # with it comes numpy, which a result in doubt has loaded anyway

    return reason_titles(result)


def _headline_sentence(result: MultiRunJobResult, name: str) -> str:
    from assay.report.numbers import name_with_unit, show_statistics

    stats = result.metrics[name]
    shown = show_statistics(stats, name)
    return f"{name_with_unit(name, stats.unit)} {shown.median} {shown.spread}"


class EventView(View):
    """Writes every event as a line of JSON to a file descriptor; a reader that has gone or hangs disturbs nothing."""

    def __init__(self, result: Path, fd: int = 1, now: Callable[[], float] = time.monotonic) -> None:
        self._result = result
        self._fd = fd
        self._now = now
        self._printed_s = float("-inf")
        self._deaf = False
        self._patience_s = PATIENCE_S
        self._torn = False  # the last line was not written whole

    def campaign(self, campaign_id: str, jobs: int, runs: int, note: str) -> None:
        self._send("campaign", campaign=campaign_id, jobs=jobs, runs=runs, note=note)

    def job(self, job_id: str, label: str, index: int, of: int) -> None:
        self._send("job", job=job_id, label=label, index=index, of=of)

    def run(self, run_id: int, of: int) -> None:
        self._send("run", run=run_id, of=of)

    def phase(self, name: str) -> None:
        self._printed_s = float("-inf")
        self._send("phase", name=name)

    def progress(self, share: float, note: str) -> None:
        if self._now() - self._printed_s < 1 / PROGRESS_PER_S:
            return
        self._printed_s = self._now()
        self._send("progress", share=round(min(max(share, 0.0), 1.0), 4) if math.isfinite(share) else 0.0, note=note)

    def log(self, lines: Sequence[str]) -> None:
        self._send("log", lines=[line[:MAX_LINE] for line in lines])

    def run_done(self, result: SingleRunResult) -> None:
        self._send("run_done", run=result.run_id, ok=result.error is None, sentence=run_sentence(result))

    def job_done(self, result: MultiRunJobResult) -> None:
        self._send("result", path=str(self._result), state=result.state, verdict=result.verdict)

    def note(self, text: str) -> None:
        self._send("note", text=text)

    def error(self, error: AssayError) -> None:
        problem = error.problem
        self._send("error", code=problem.code, text=problem.message, at=problem.at, **{"try": problem.try_})

    def _send(self, event: str, /, **facts: object) -> None:
        if self._deaf:
            return
        line = b"\n" * self._torn + json.dumps({"event": event, **facts}, allow_nan=False).encode() + b"\n"
        try:
            self._write(line)
        except OSError:
            # The reader is gone. What was measured is on disk, which is where the next reader will look.
            self._deaf = True

    def _write(self, line: bytes) -> None:
        """Write a line, or give it up when the reader takes nothing; the next line then starts on a new one."""
        written = 0
        while written < len(line):
            if not _has_room(self._fd, self._patience_s):
                self._torn = self._torn or written > 0
                self._patience_s = 0.0  # it was waited for once; from now on it is given what it has room for
                return
            written += os.write(self._fd, line[written : written + _CHUNK])
        self._torn, self._patience_s = False, PATIENCE_S


def _has_room(fd: int, patience_s: float) -> bool:
    if sys.platform == "win32":
        return True  # select knows sockets only there; a hanging reader holds us up until it goes
    return bool(select.select((), (fd,), (), patience_s)[1])
