"""What a campaign says while it runs: how it stands, in lines for people and as a server keeps it, and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from assay.analyse.records import CampaignRecord
from assay.clock import Clock
from assay.engines.base import FinishedJob, RunningJob, Snapshot, WaitingJob
from assay.errors import AssayError
from assay.place.fleet.protocol import JobProgress
from assay.report.live import View
from assay.spec.benchmark import Benchmark
from assay.store.store import Store

# Jobs whose progress, and nodes whose names, are shown in one line.
_SHOWN = 4


class StatusPrinter:
    """Prints what has changed from one snapshot to the next."""

    def __init__(self, view: View, title: str) -> None:
        self._view, self._title = view, title
        self._said: set[str] = set()
        self._key: object = None
        self._is_silent = False

    def once(self, key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            self._view.note(text)

    def silent(self, problem: str) -> None:
        """Say that the engine does not answer, once until it does again; the empty text stands for "it does"."""
        if problem and not self._is_silent:
            self._view.note(f"{problem}; the campaign continues, waiting for {self._title}")
        self._is_silent = bool(problem)

    def show(self, snapshot: Snapshot, done: int, total: int) -> None:
        waiting = [status for status in snapshot.jobs.values() if isinstance(status, WaitingJob)]
        running = {index: status for index, status in snapshot.jobs.items() if isinstance(status, RunningJob)}
        line = _line(waiting, list(running.values()), done, total)
        progress = [f"job {index} {status.progress}" for index, status in running.items() if status.progress][:_SHOWN]
        if waiting or running:
            self._view.phase(" · ".join([line, *([", ".join(progress)] if progress else [])]))
        # The reasons and whether anything runs: counts alone change with every job, and those have lines of their own.
        key = (frozenset(status.reason for status in waiting), bool(running))
        if key != self._key and (waiting or running):
            self._key = key
            self._view.status(line)
        for name, text in snapshot.notes.items():
            self.once(name, text)


def _line(waiting: list[WaitingJob], running: list[RunningJob], done: int, total: int) -> str:
    parts = []
    if running:
        nodes = sorted({node for status in running for node in status.nodes})
        where = f" on {', '.join(nodes[:_SHOWN])}{' …' if len(nodes) > _SHOWN else ''}" if nodes else ""
        parts.append(f"{len(running)} running{where}")
    if waiting:
        # The one that is to start first says most.
        last = datetime.max.replace(tzinfo=UTC)
        parts.append(f"{len(waiting)} {min(waiting, key=lambda status: status.starts_at or last).why}")
    return " · ".join([*parts, f"{done} of {total} done"])


def standings(snapshot: Snapshot, jobs: Mapping[int, Any]) -> Iterator[JobProgress]:
    """How jobs that have not ended stand, for a server."""
    for index, status in snapshot.jobs.items():
        if index not in jobs or isinstance(status, FinishedJob):
            continue
        runs = jobs[index].definition.measure.least_runs
        if isinstance(status, WaitingJob):
            yield JobProgress(index, "waiting", f"{status.why} ({status.handle})", runs=runs)
            continue
        where = f"on {', '.join(sorted(status.nodes))} ({status.handle})" if status.nodes else status.handle
        far = status.progress
        if far is None:
            yield JobProgress(index, "running", where, runs=runs)
        else:
            yield JobProgress(index, "running", where, max(0, far.run - 1), far.of, far.phase, far.share)


def note_unused(benchmark: Benchmark, view: View, run: str) -> None:
    """Say which keys of the file a run without a server does not act on; `run` names it, such as `a run on Slurm`."""
    if benchmark.schedule:
        view.note(f"schedule is kept with the campaign; {run} does not act on it")
    if benchmark.alerts:
        view.note(f"alerts are listed by `assay alerts`; {run} sends no messages")


def note_findings(store: Store, record: CampaignRecord, view: View, clock: Clock) -> None:
    """Take results into their series, and say what changed; the results are kept, whatever comes of it."""
    from assay.alert.ingest import observe
    from assay.report.series import finding_sentence

    try:
        alerts = observe(store, record, clock)
    except AssayError as problem:
        view.note(f"the series were not updated: {problem.problem.message}; try `assay series collect`")
        return
    for alert in alerts:
        if alert.state == "open" and alert.finding.answer != "cannot tell":
            view.note(finding_sentence(alert))
