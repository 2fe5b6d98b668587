"""How a campaign stands in Slurm, in words: what waits and for what, what runs, which services are ready."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime

from assay.engines.node.progress import read_progress
from assay.engines.slurm.folder import BatchPlan, SharedFolder, SlurmCampaign
from assay.engines.slurm.node.publication import read_published
from assay.engines.slurm.scheduler import BatchState
from assay.engines.slurm.states import WAITING, is_final, waiting_words
from assay.engines.slurm.told import Seen
from assay.errors import AssayError
from assay.plan.job import Job
from assay.report.live import View
from assay.spec.clusters import MONITOR

# Jobs whose progress is told beside how the campaign stands.
_SHOWN = 4


class Shown:
    """Tells a view what changed since the last look."""

    def __init__(self, view: View, folder: SharedFolder, document: SlurmCampaign, now: datetime) -> None:
        self._view, self._folder, self._document, self._now = view, folder, document, now
        self._told: set[str] = set()
        self._key: object = None

    def once(self, key: str, text: str) -> None:
        """Tell something that a person should know, one time."""
        if key not in self._told:
            self._told.add(key)
            self._view.note(text)

    def look(self, seen: Seen, open_jobs: Collection[Job], total: int, now: datetime) -> None:
        self._now = now
        states = [(job, state) for job in open_jobs if (state := seen.state_of(job)) is not None]
        waiting = [state for _, state in states if state.state in WAITING]
        at_work = [(job, state) for job, state in states if state.state not in WAITING and not is_final(state.state)]
        running = [state for _, state in at_work]
        line = self._line(waiting, running, total - len(open_jobs), total)
        far = [found for job, _ in at_work[:_SHOWN] if (found := read_progress(self._folder.progress(job.index)))]
        self._view.phase(" · ".join([line, *([", ".join(map(str, far))] if far else [])]))
        # The reasons and whether anything runs: counts alone change with every job, and those have lines of their own.
        key = (frozenset(state.reason.partition(",")[0] for state in waiting), bool(running))
        if key != self._key and (waiting or running):
            self._key = key
            self._view.note(line)
        self._services(seen)

    def _line(self, waiting: list[BatchState], running: list[BatchState], done: int, total: int) -> str:
        parts = []
        if running:
            nodes = sorted({state.node for state in running if state.node})
            where = f" on {', '.join(nodes[:4])}{' …' if len(nodes) > 4 else ''}" if nodes else ""
            parts.append(f"{len(running)} running{where}")
        if waiting:
            # The one that Slurm means to start first tells most.
            first = min(waiting, key=lambda one: (one.estimated_start is None, one.estimated_start or self._now))
            parts.append(f"{len(waiting)} {waiting_words(first, self._now)}")
        return " · ".join([*parts, f"{done} of {total} done"])

    def _services(self, seen: Seen) -> None:
        for one in self._document.batches:
            if one.role == "service":
                self._service(one, seen)
        path = self._folder.service(MONITOR, MONITOR)
        if self._document.monitored and MONITOR not in self._told and path.is_file():
            self.once(MONITOR, _monitor_words(path.read_bytes(), self._folder))

    def _service(self, one: BatchPlan, seen: Seen) -> None:
        if one.name in self._told:
            return
        try:
            found = read_published(self._folder, one.group, one.service)
        except AssayError as failure:
            self.once(one.name, f"the service {one.service} failed: {failure.problem.message}")
            return
        if found is not None:
            at = f"{found.node}, {found.base_url}" if found.node else found.base_url
            self.once(
                one.name,
                f"the service {one.service} is ready on {at}, {found.start_to_ready_s:.1f} s after its "
                f"start (batch job {seen.ids.get(one.name, '?')})",
            )


def _monitor_words(content: bytes, folder: SharedFolder) -> str:
    try:
        told = json.loads(content)
        where = f"{told['node']}, port {told['port']}"
    except (ValueError, KeyError, TypeError):
        where = "its node"
    return f"Prometheus watches on {where}; `assay monitoring tunnel LOGIN {folder.path}` prints the way there"
