"""Going on with a campaign on Kubernetes: from wherever the process before was lost, to its end.

Ctrl-C leaves what was submitted to Kubernetes, as people expect of a cluster, and says how to come back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from assay.analyse.records import CampaignRecord, MultiRunJobResult
from assay.clock import Clock
from assay.engines.base import FailureReason, FollowOptions
from assay.engines.collect import Ended, collect
from assay.engines.kubernetes.client.api import SILENT, Api
from assay.engines.kubernetes.client.kubeconfig import connect
from assay.engines.kubernetes.folder import KubernetesCampaign, PodFolder, known_folder, read_document
from assay.engines.kubernetes.follow import Follower
from assay.engines.kubernetes.submit import Submitter
from assay.engines.kubernetes.teardown import tear_down
from assay.engines.notes import note_findings
from assay.engines.reporting import NullReporter, Reporter, reporting_to
from assay.errors import MeasureError
from assay.place.fleet.client import FleetClient
from assay.plan.lifecycle import FINAL, campaign_state
from assay.report.live import View
from assay.report.reading import read_campaign
from assay.run.scratch import held
from assay.store.store import Store

_CANCELLED = "cancelled"
_LEFT = "left to Kubernetes: nobody follows it for now"


def attach(
    store: Store, campaign: str, view: View, clock: Clock, manner: FollowOptions | None = None
) -> CampaignRecord:
    """Follow a campaign to its end, and return its results.

    Raises:
        UsageError: if it was not submitted to Kubernetes from this store, or nothing says where the cluster is.
        MeasureError: if Kubernetes refuses what is still to be submitted.
    """
    folder = known_folder(store, campaign)
    document = read_document(folder)
    _, stored = store.campaign(campaign)
    runs = sum(one.job.definition.measure.runs for one in stored)
    view.campaign(campaign, len(stored), runs, f"in the namespace {document.namespace}")
    return Attached(store, folder, view, clock, reach(document, view), manner or FollowOptions()).run()


def cancel(store: Store, campaign: str, view: View, clock: Clock, server: FleetClient | None = None) -> CampaignRecord:
    """End every job of a campaign, keep what was measured, and return it.

    Raises:
        UsageError: if it was not submitted to Kubernetes from this store.
        MeasureError: if Kubernetes does not answer.
    """
    folder = known_folder(store, campaign)
    api = reach(read_document(folder), view)
    summary, _ = store.campaign(campaign)
    if summary.state == "running":
        folder.cancel()
    tear_down(api, campaign, view.note)
    return Attached(store, folder, view, clock, api, FollowOptions(server=server)).run()


def reach(document: KubernetesCampaign, view: View) -> Api:
    """The cluster of a campaign; the one that is current here may be another, which is told.

    Raises:
        UsageError: if nothing says where it is.
        MeasureError: if the official client is not installed.
    """
    api = connect(document.section.model_copy(update={"namespace": document.namespace}))
    if api.address != document.address:
        view.note(
            f"campaign {document.campaign} was submitted to {document.address}; the cluster here is {api.address}"
        )
    return api


@dataclass(slots=True)
class Attached:
    """One process and one campaign."""

    store: Store
    folder: PodFolder
    view: View
    clock: Clock
    api: Api
    manner: FollowOptions = field(default_factory=FollowOptions)
    _relay: Reporter = field(default_factory=NullReporter)

    def run(self) -> CampaignRecord:
        """Submit what is due, follow, collect, tear down."""
        document = read_document(self.folder)
        try:
            with (
                held(self.folder.path, lambda: self.view.note("another process follows this campaign; waiting for it")),
                reporting_to(
                    self.manner.server, self.store, document.campaign, self.folder.path, self.view.note
                ) as self._relay,
            ):
                if self.store.campaign(document.campaign)[0].state != "running":
                    return read_campaign(self.store, document.campaign)
                return self._followed(document)
        finally:
            self.view.close()

    def _followed(self, document: KubernetesCampaign) -> CampaignRecord:
        _, stored = self.store.campaign(document.campaign)
        jobs = {one.job.index: self.folder.read_job(one.job.index) for one in stored}
        submitter = Submitter(self.folder, document, self.api, jobs)
        follower = Follower(self.store, self.folder, document, self.api, self.view, self.clock, submitter, self._relay)
        try:
            if not self.folder.is_cancelled:
                submitter.begin()
                if self.manner.detach:
                    return self._detached(document, follower)
            follower.follow()
        except KeyboardInterrupt:
            self._interrupted(document, follower)
            raise
        except MeasureError as problem:
            self._refused(document, problem)
            raise
        return self._finished(document)

    def _detached(self, document: KubernetesCampaign, follower: Follower) -> CampaignRecord:
        """Hand over all that may be there at once, and leave."""
        left = follower.submit_first()
        if left:
            self.view.note(f"{left} jobs are submitted when those before them have ended, by whoever attaches")
        self._relay.left(_LEFT)
        self.view.note(_how_to_come_back(document.campaign))
        return read_campaign(self.store, document.campaign)

    def _interrupted(self, document: KubernetesCampaign, follower: Follower) -> None:
        if not self.manner.cancel_on_interrupt:
            self._relay.left(_LEFT)
            self.view.note(_how_to_come_back(document.campaign))
            return
        self.view.note(f"cancelling campaign {document.campaign}; what was measured is kept")
        self.folder.cancel()
        tear_down(self.api, document.campaign, self.view.note)
        follower.follow()
        self._finished(document)

    def _refused(self, document: KubernetesCampaign, problem: MeasureError) -> None:
        """Leave a campaign to a later process where Kubernetes is silent; take it back where it refuses a part."""
        said = problem.problem
        if said.code == SILENT or said.code in ("disk", "store", "samples"):
            self.view.note(_how_to_come_back(document.campaign))
            return
        self.folder.cancel()
        tear_down(self.api, document.campaign, self.view.note)
        _, stored = self.store.campaign(document.campaign)
        why = FailureReason(said.code, said.message, said.try_)
        for one in stored:
            if one.state not in FINAL:
                ended = Ended(None, why, {}, {}, by_us=said.code == _CANCELLED, final=True)
                collect(self.store, self.folder, one.job, ended, self.clock.utc())
        _, ended_jobs = self.store.campaign(document.campaign)
        self.store.end_campaign(document.campaign, campaign_state(Counter(one.state for one in ended_jobs)), self.clock)
        self._relay.all_ended()

    def _ended_as(self, job: MultiRunJobResult) -> str:
        """How a job ended; one that a cancel cut short kept the runs that it had, and is cancelled all the same."""
        return _CANCELLED if self.folder.is_cancelled and job.failed_runs else job.state

    def _finished(self, document: KubernetesCampaign) -> CampaignRecord:
        tear_down(self.api, document.campaign, self.view.note)
        record = read_campaign(self.store, document.campaign)
        state = campaign_state(Counter(self._ended_as(job) for job in record.jobs))
        self.store.end_campaign(document.campaign, state, self.clock)
        self.folder.forget_results()
        record = replace(record, state=state)
        note_findings(self.store, record, self.view, self.clock)
        self._relay.all_ended()
        return record


def _how_to_come_back(campaign: str) -> str:
    return (
        f"campaign {campaign} goes on in Kubernetes without this process; `assay campaigns attach {campaign}` follows "
        f"it and collects its results, `assay campaigns cancel {campaign}` ends it"
    )
