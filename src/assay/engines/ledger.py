"""The record of a campaign in the store here: its jobs as they move, what they left, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import Clock
from assay.engines.base import CampaignSize, NullReporter, OpenJobs, Reporter
from assay.engines.collect import ResultFolders, Termination, collect
from assay.engines.status import note_findings
from assay.exec.machine import surroundings
from assay.plan.job import FINAL, Job
from assay.plan.plan import Plan
from assay.report.live import View
from assay.report.result import CampaignResult, kept_result, read_campaign
from assay.run.scratch import held
from assay.spec.load import Loaded
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.engines.folder import CampaignFolder
    from assay.place.fleet.client import FleetClient


class StoreLedger:
    """One campaign of a store."""

    def __init__(
        self,
        store: Store,
        campaign: str,
        clock: Clock,
        results: ResultFolders,
        folder: CampaignFolder | None = None,
        new: Plan | None = None,
    ) -> None:
        """Keep the record of a campaign.

        Args:
            results: where jobs leave what they measured.
            folder: what its engine keeps of the campaign beside the store; it is locked while it is followed.
            new: its plan, if it was recorded a moment ago, so that nothing has to be read back.
        """
        self.store = store
        self.campaign = campaign
        self._clock = clock
        self._results = results
        self._folder = folder
        self._new = new

    @contextmanager
    def following(self, server: FleetClient | None, note: Callable[[str], None]) -> Iterator[Reporter]:
        folder = self._folder
        if folder is None:
            yield NullReporter()
            return
        with held(folder.path, lambda: note("another process follows this campaign; waiting for it")):
            if server is None:
                yield NullReporter()
                return
            from assay.engines.reporting import reporting_to  # it brings the HTTP client

            with reporting_to(server, self.store, self.campaign, folder.path, note) as reporter:
                yield reporter

    def state(self) -> str:
        return "running" if self._new else self.store.campaign(self.campaign)[0].state

    def size(self) -> CampaignSize:
        jobs: Iterable[Job] = self._new.jobs if self._new else self._stored()
        runs = [job.definition.measure.least_runs for job in jobs]
        return CampaignSize(len(runs), sum(runs))

    def open_jobs(self) -> OpenJobs[Job]:
        new, self._new = self._new, None
        if new is not None:
            return OpenJobs({job.index: job for job in new.jobs}, set(), len(new.jobs))
        _, jobs = self.store.campaign(self.campaign)
        return OpenJobs(
            {stored.job.index: stored.job for stored in jobs if stored.state not in FINAL},
            {stored.job.index for stored in jobs if stored.state == "running"},
            len(jobs),
        )

    def _stored(self) -> Iterator[Job]:
        _, jobs = self.store.campaign(self.campaign)
        return (stored.job for stored in jobs)

    def started(self, job: Job) -> None:
        self.store.move_job(job.id, "start")

    def released(self, job: Job) -> None:
        self.store.move_job(job.id, "release")

    def collect(self, job: Job, ended: Termination) -> MultiRunJobResult:
        return collect(self.store, self._results, job, ended, self._clock.utc())

    def end(self, state: str) -> None:
        self.store.end_campaign(self.campaign, state, self._clock)

    def findings(self, record: CampaignRecord, view: View) -> None:
        note_findings(self.store, record, view, self._clock)

    def result(self) -> CampaignResult:
        return kept_result(self.store.folder, read_campaign(self.store, self.campaign))


@contextmanager
def new_campaign(store: Store, loaded: Loaded, plan: Plan, engine: str, clock: Clock) -> Iterator[Plan]:
    """Record a new campaign; one that cannot be written down for its engine has failed."""
    document, labels = loaded.source.document, loaded.benchmark.labels
    plan = store.create_campaign(plan, document, labels, surroundings(), clock, engine)
    try:
        yield plan
    except BaseException:
        store.end_campaign(plan.jobs[0].campaign, "failed", clock)
        raise
