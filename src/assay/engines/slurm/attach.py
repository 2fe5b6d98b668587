"""Going on with a campaign on a cluster: from wherever the process before was lost, to its end.

Ctrl-C leaves the campaign to Slurm, as people on a login node expect of batch jobs, and says how to come back; only
while it is being submitted does Ctrl-C take everything back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NoReturn

from assay.analyse.records import CampaignRecord
from assay.clock import Clock
from assay.engines.base import FollowOptions
from assay.engines.collect import Ended, collect
from assay.engines.notes import note_findings
from assay.engines.reporting import NullReporter, Reporter, reporting_to
from assay.engines.slurm.folder import SharedFolder, SlurmCampaign, folder_of, read_document
from assay.engines.slurm.follow import Follower
from assay.engines.slurm.metrics import join_metrics
from assay.engines.slurm.scheduler import Scheduler, scheduler_for
from assay.engines.slurm.states import FailureReason
from assay.engines.slurm.submit import note_cancelled, read_submitted, submit_all
from assay.engines.slurm.teardown import tear_down
from assay.errors import MeasureError
from assay.place.fleet.client import FleetClient
from assay.plan.lifecycle import FINAL, campaign_state
from assay.report.live import View
from assay.report.reading import read_campaign
from assay.run.scratch import held
from assay.store.store import Store

_CANCELLED = "cancelled"
_LEFT = "left to Slurm: nobody follows it for now"
_SILENT = ("slurm-silent", "slurm-missing")


def attach(
    store: Store, campaign: str, view: View, clock: Clock, manner: FollowOptions | None = None
) -> CampaignRecord:
    """Follow a campaign to its end, and return its results.

    Raises:
        UsageError: if it was not submitted to a cluster from this store.
        MeasureError: if Slurm refuses what was still to be submitted, or its commands are not here.
    """
    folder = folder_of(store.folder, campaign)
    document = read_document(folder)
    _, stored = store.campaign(campaign)
    runs = sum(one.job.definition.measure.runs for one in stored)
    view.campaign(campaign, len(stored), runs, f"in {folder.path}")
    return Attached(store, folder, view, clock, scheduler_for(document.slurm), manner or FollowOptions()).run()


def cancel(store: Store, campaign: str, view: View, clock: Clock, server: FleetClient | None = None) -> CampaignRecord:
    """End every batch job of a campaign, keep what was measured, and return it.

    Raises:
        UsageError: if it was not submitted to a cluster from this store.
        MeasureError: if Slurm does not answer.
    """
    folder = folder_of(store.folder, campaign)
    document = read_document(folder)
    scheduler = scheduler_for(document.slurm)
    summary, _ = store.campaign(campaign)
    if summary.state == "running":
        note_cancelled(folder)
        tear_down(folder, document, read_submitted(folder).ids, scheduler, view.note)
    return Attached(store, folder, view, clock, scheduler, FollowOptions(server=server)).run()


@dataclass(slots=True)
class Attached:
    """One process and one campaign."""

    store: Store
    folder: SharedFolder
    view: View
    clock: Clock
    scheduler: Scheduler
    manner: FollowOptions = field(default_factory=FollowOptions)
    _relay: Reporter = field(default_factory=NullReporter)

    def run(self) -> CampaignRecord:
        """Submit what is missing, follow, collect, tear down."""
        document = read_document(self.folder)
        campaign = document.campaign
        try:
            with (
                held(self.folder.path, lambda: self.view.note("another process follows this campaign; waiting for it")),
                reporting_to(self.manner.server, self.store, campaign, self.folder.path, self.view.note) as self._relay,
            ):
                if self.store.campaign(campaign)[0].state != "running":
                    return read_campaign(self.store, campaign)
                ids = self._submitted(document)
                if self.manner.detach:
                    self._relay.left(_LEFT)
                    self.view.note(_how_to_come_back(campaign))
                    return read_campaign(self.store, campaign)
                return self._followed(document, ids)
        finally:
            self.view.close()

    def _submitted(self, document: SlurmCampaign) -> dict[str, str]:
        if read_submitted(self.folder).cancelled:
            tear_down(self.folder, document, read_submitted(self.folder).ids, self.scheduler, self.view.note)
            return read_submitted(self.folder).ids
        try:
            return submit_all(self.folder, document, self.scheduler, self.view.note)
        except KeyboardInterrupt:
            self.view.note("not all of it was submitted: taking it back")
            self._take_back(
                document,
                FailureReason(_CANCELLED, "the campaign was interrupted while it was submitted", "run it again"),
            )
            raise
        except MeasureError as problem:
            if problem.problem.code == _CANCELLED:
                return read_submitted(self.folder).ids
            self._refused(document, problem)

    def _refused(self, document: SlurmCampaign, problem: MeasureError) -> NoReturn:
        """Leave a campaign to a later process where Slurm is silent; take it back where Slurm refuses a part of it."""
        if problem.problem.code in _SILENT:
            self.view.note(
                f"not all of campaign {document.campaign} was submitted; "
                f"`assay campaigns attach {document.campaign}` goes on with it"
            )
            raise problem
        said = problem.problem
        self._take_back(document, FailureReason(said.code, said.message, said.try_))
        raise problem

    def _take_back(self, document: SlurmCampaign, why: FailureReason) -> None:
        note_cancelled(self.folder)
        tear_down(self.folder, document, read_submitted(self.folder).ids, self.scheduler, self.view.note)
        _, stored = self.store.campaign(document.campaign)
        for one in stored:
            if one.state not in FINAL:
                ended = Ended(None, why, {}, {}, by_us=why.code == _CANCELLED)
                collect(self.store, self.folder, one.job, ended, self.clock.utc())
        _, ended_jobs = self.store.campaign(document.campaign)
        self.store.end_campaign(document.campaign, campaign_state(Counter(one.state for one in ended_jobs)), self.clock)
        self._relay.all_ended()

    def _followed(self, document: SlurmCampaign, ids: dict[str, str]) -> CampaignRecord:
        _, stored = self.store.campaign(document.campaign)
        jobs = tuple(one.job for one in stored)
        follower = Follower(
            self.store, self.folder, document, ids, self.scheduler, self.view, self.clock, jobs, self._relay
        )
        try:
            follower.follow()
            follower.wait_for_monitor()
        except KeyboardInterrupt:
            self._interrupted(document, follower)
            raise
        return self._finished(document, ids)

    def _interrupted(self, document: SlurmCampaign, follower: Follower) -> None:
        if not self.manner.cancel_on_interrupt:
            self._relay.left(_LEFT)
            self.view.note(_how_to_come_back(document.campaign))
            return
        self.view.note(f"cancelling campaign {document.campaign}; what was measured is kept")
        note_cancelled(self.folder)
        tear_down(self.folder, document, follower.ids, self.scheduler, self.view.note)
        follower.follow()
        self._finished(document, dict(follower.ids))

    def _finished(self, document: SlurmCampaign, ids: dict[str, str]) -> CampaignRecord:
        campaign = document.campaign
        tear_down(self.folder, document, ids, self.scheduler, self.view.note)
        join_metrics(self.store, self.folder, document, self.view.note)
        record = read_campaign(self.store, campaign)
        state = campaign_state(Counter(job.state for job in record.jobs))
        self.store.end_campaign(campaign, state, self.clock)
        record = replace(record, state=state)
        note_findings(self.store, record, self.view, self.clock)
        self._relay.all_ended()  # what the monitor saw was put in
        return record


def _how_to_come_back(campaign: str) -> str:
    return (
        f"campaign {campaign} goes on in Slurm without this process; `assay campaigns attach {campaign}` follows it, "
        f"`assay campaigns cancel {campaign}` ends it"
    )
