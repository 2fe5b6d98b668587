"""What a process that measures a job elsewhere needs, whichever engine started it.

How it is asked to end, where it meets the clients that share its load, and how it says how far it is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any

from assay.engines.base import Progress
from assay.errors import MeasureError
from assay.report.live import PlainView
from assay.run.load.barrier import BarrierOutcome, Meeting, give_up, meet
from assay.spec.benchmark import Definition, Service
from assay.spec.target import Served, ServiceTarget

# Set to `off` by a campaign that was begun without the control workload.
CONTROL = "ASSAY_CONTROL"
NOT_MEASURED, ENDED_BY_SIGNAL = 3, 143
# Fetching its image, getting ready and warming its model may each take as long as `ready.within`; then a service says
# that it failed. Only if it was killed together with whatever would report that does anybody wait longer.
_STEPS = 3
_SLACK_S = 60.0
# What a batch system sends before it kills, and what a lost terminal or Ctrl-C in a step sends.
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
_POLL_S = 0.2
# Jobs of a cluster begin when there is room for them; this meeting only sees to it that all have begun.
_FIRST_LEAD_S = 0.0
# A shared file system is not written to more often than this during a phase: the node is measuring.
EVERY_S = 5.0


def service_patience_s(service: Service) -> float:
    """How long others wait for a service: longer than it can take to get ready or to report that it failed."""
    return _STEPS * service.ready.within + _SLACK_S


def warm_facts(name: str, base_url: str, definition: Definition, unless: Callable[[], None]) -> dict[str, str]:
    """Have a service load its model, where it is the target and its protocol can ask for that."""
    target = definition.target
    if not isinstance(target, ServiceTarget) or not isinstance(target, Served) or target.service != name:
        return {}
    from assay.run.endpoint import warm  # the protocols of served targets

    return warm(target, base_url, definition.services[name].ready.within, unless=unless).facts()


class TerminationRequest(BaseException):
    """This process is to end; like KeyboardInterrupt, nothing on the way may treat it as a failure."""


class TerminationWatch:
    """Watches for requests to end this process."""

    def __init__(self, stop: Path | None = None, abandoned: Callable[[], str] = lambda: "") -> None:
        """What to look at.

        Args:
            abandoned: says why no other process will request the end; empty as long as one may.
        """
        self._stop = stop
        self._abandoned = abandoned
        self.left_alone = False
        self._parent = os.getppid()
        self._end_requested = threading.Event()
        self.why = ""

    def in_good_hands(self) -> None:
        """Another process will request the end in any case."""
        self._abandoned = lambda: ""

    def listen(self) -> None:
        """From now on the first signal raises TerminationRequest wherever the process is; later ones are ignored."""
        for name in _SIGNALS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._signalled)

    def check(self) -> None:
        """Raise if the end was requested.

        Raises:
            TerminationRequest: with the reason in `why`.
        """
        if not self.why and self._stop is not None and self._stop.exists():
            self.why = "stop"
        if not self.why and os.getppid() != self._parent:
            self.why = "its parent process is gone"
        if not self.why and (why := self._abandoned()):
            self.why, self.left_alone = why, True
        if self.why:
            raise TerminationRequest(self.why)

    def wait(self) -> None:
        """Sleep for a moment, and look.

        Raises:
            TerminationRequest: with the reason in `why`.
        """
        self._end_requested.wait(_POLL_S)
        self.check()

    @property
    def stopped(self) -> bool:
        """Whether it was the `stop` file that asked: the end in good order."""
        return self.why == "stop"

    def _signalled(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (signal's signature)
        self._end_requested.set()
        if self.why:  # it is ending already: nothing may disturb that
            return
        if self._stop is not None and self._stop.exists():
            self.why = "stop"  # `stop` was written first, and the signal came with it
        else:
            self.why = f"{signal.Signals(number).name}: cancelled, preempted or out of time"
        raise TerminationRequest(self.why)


def begin_together(meeting: Meeting, within_s: float) -> BarrierOutcome:
    """Wait until the jobs of all clients have begun; their times in the queue may be far apart.

    A client whose job is run again after a failure finds that the others have begun: it joins them at the next run.
    """
    place = meeting.of_jobs()
    try:
        return meet(place, meeting.who, meeting.of, within_s, lead_s=_FIRST_LEAD_S)
    except MeasureError as problem:
        if problem.problem.code != "barrier-missed":
            raise
        return BarrierOutcome(meeting.of, 0, 0.0, 0.0, None)


def give_up_all(meeting: Meeting, runs: int, why: str) -> None:
    """Say at every meeting to which this client has not come that it will not."""
    for place in meeting_places(meeting, runs):
        give_up(place, meeting.who, why)


def meeting_places(meeting: Meeting, runs: int) -> list[Path]:
    """The place of the first meeting, then that of each run."""
    return [meeting.of_jobs(), *(meeting.of_run(run) for run in range(runs))]


class ProgressView(PlainView):
    """Says on its own log what a plain view says, and reports how far the job is, now and then."""

    def __init__(self, report: Callable[[Progress], None]) -> None:
        super().__init__(sys.stdout)
        self._report = report
        self._progress: Progress | None = None
        self._reported_s = -EVERY_S

    def run(self, run_id: int, of: int) -> None:
        super().run(run_id, of)
        self._report_now(Progress(run_id + 1, of))

    def phase(self, name: str) -> None:
        super().phase(name)
        if self._progress is not None:
            self._report_now(replace(self._progress, phase=name, share=0.0))

    def progress(self, share: float, note: str) -> None:
        super().progress(share, note)
        if self._progress is not None:
            self._progress = replace(self._progress, share=share)
            if time.monotonic() - self._reported_s >= EVERY_S:
                self._report_now(self._progress)

    def _report_now(self, progress: Progress) -> None:
        self._progress, self._reported_s = progress, time.monotonic()
        self._report(progress)


def progress_of(document: Mapping[str, Any]) -> Progress | None:
    """How far a job is, as it was written down; None where that is not what was written."""
    try:
        return Progress(int(document["run"]), int(document["of"]), str(document["phase"]), float(document["share"]))
    except (KeyError, TypeError, ValueError):
        return None


def write_progress(path: Path, progress: Progress) -> None:
    """Write it whole; a folder that cannot be written to now must not end a measurement."""
    partial = path.with_suffix(".part")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(asdict(progress)))
        partial.replace(path)


def read_progress(path: Path) -> Progress | None:
    """How far a job is; None where it has not said so yet."""
    try:
        return progress_of(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None
