"""What a program sees while a job runs: one JSON object per line, for an agent that passes it on."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.errors import AssayError
from assay.report.live import run_sentence
from assay.run.records import SingleRunResult

PROGRESS_PER_S = 4
MAX_LINE = 1000  # characters of one line of a log
# A reader that takes nothing for this long is given up for the current event; measuring goes on.
PATIENCE_S = 2.0
_CHUNK = 512  # what every system writes to a pipe that has room without waiting


class EventView:
    """Writes every event as a line of JSON to a file descriptor; a reader that has gone or hangs disturbs nothing."""

    def __init__(self, result: Path, fd: int = 1, now: Callable[[], float] = time.monotonic) -> None:
        self._result = result
        self._fd = fd
        self._now = now
        self._told_s = float("-inf")
        self._deaf = False
        self._patience_s = PATIENCE_S
        self._torn = False  # the last line was not written whole

    def campaign(self, campaign_id: str, jobs: int, runs: int, note: str) -> None:
        """Send what begins."""
        self._send("campaign", campaign=campaign_id, jobs=jobs, runs=runs, note=note)

    def job(self, job_id: str, label: str, index: int, of: int) -> None:
        """Send which job begins."""
        self._send("job", job=job_id, label=label, index=index, of=of)

    def run(self, run_id: int, of: int) -> None:
        """Send which run begins."""
        self._send("run", run=run_id, of=of)

    def phase(self, name: str) -> None:
        """Send which phase begins."""
        self._told_s = float("-inf")
        self._send("phase", name=name)

    def progress(self, share: float, note: str) -> None:
        """Send how far the phase is, a few times a second at most."""
        if self._now() - self._told_s < 1 / PROGRESS_PER_S:
            return
        self._told_s = self._now()
        self._send("progress", share=round(min(max(share, 0.0), 1.0), 4) if isfinite(share) else 0.0, note=note)

    def log(self, lines: Sequence[str]) -> None:
        """Send the last lines of a run."""
        self._send("log", lines=[line[:MAX_LINE] for line in lines])

    def run_done(self, result: SingleRunResult) -> None:
        """Send how a run went."""
        self._send("run_done", run=result.run_id, ok=result.error is None, sentence=run_sentence(result))

    def job_done(self, result: MultiRunJobResult) -> None:
        self._send("result", path=str(self._result), state=result.state, verdict=result.verdict)

    def note(self, text: str) -> None:
        self._send("note", text=text)

    def waiting(self, text: str) -> None:
        """A note like any other."""
        self.note(text)

    def error(self, error: AssayError) -> None:
        """Send why there will be no result."""
        problem = error.problem
        self._send("error", code=problem.code, text=problem.message, at=problem.at, **{"try": problem.try_})

    def close(self) -> None:
        """Nothing is open here."""

    def _send(self, event: str, /, **facts: object) -> None:
        if self._deaf:
            return
        line = b"\n" * self._torn + json.dumps({"event": event, **facts}, allow_nan=False).encode() + b"\n"
        try:
            self._write(line)
        except OSError:
            # Nobody reads any more. What was measured is on disk, which is where the next reader will look.
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
