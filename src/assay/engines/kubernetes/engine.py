"""Kubernetes as an engine: jobs are submitted as their turn comes, and the logs of their pods bring the results."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from assay.clock import Clock
from assay.engines.base import (
    CANCELLED,
    FailureReason,
    FinishedJob,
    JobStatus,
    LogChunk,
    RunningJob,
    RunOptions,
    Snapshot,
    WaitingJob,
)
from assay.engines.collect import Termination, has_result
from assay.engines.folder import unfollowed
from assay.engines.kubernetes.client.api import SILENT
from assay.engines.kubernetes.client.client import Client, connect
from assay.engines.kubernetes.client.watch import watch_campaign
from assay.engines.kubernetes.folder import (
    KubernetesCampaign,
    PodFolder,
    folder_of,
    is_on_kubernetes,
    known_folder,
    remove_folder,
)
from assay.engines.kubernetes.observation import Observation
from assay.engines.kubernetes.observer import Observer, environment_of, execution_of, has_ended, pods_by_rank
from assay.engines.kubernetes.phases import DELETED, lost_node, phase_of, waiting_words
from assay.engines.kubernetes.pod_logs import PodDelivery, PodLogs, refused_by_rank
from assay.engines.kubernetes.submission import Submitter, remove_job, remove_shared, tear_down
from assay.engines.ledger import StoreLedger
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.plan.plan import Plan
from assay.report.live import View
from assay.spec.load import Loaded
from assay.store.store import Store

if TYPE_CHECKING:
    from assay.engines.kubernetes.draft import KubernetesDraft

# Kubernetes says by itself when something changes; in between logs are read, and clocks looked at.
_PAUSE_S = 1.0
# A job whose first pod is done waits so long for its other pods to end by themselves.
_OTHERS_S = 30.0
# A node that does not give out what a job left, while the cluster answers, is asked for so long.
_UNREAD_S = 60.0
# Which node, and how many of them are full, changes all the time.
_REASON = re.compile(r" \(| on ")


class KubernetesEngine:
    """One campaign on Kubernetes."""

    NAME: ClassVar[str] = "kubernetes"
    TITLE: ClassVar[str] = "Kubernetes"
    TRANSIENT: ClassVar[Collection[str]] = (SILENT,)
    RESUMABLE: ClassVar[Collection[str]] = (SILENT,)
    REQUEUES: ClassVar[bool] = False
    OUTLIVES: ClassVar[bool] = True
    IS_SERVED: ClassVar[bool] = False

    def __init__(
        self,
        ledger: StoreLedger,
        folder: PodFolder,
        document: KubernetesCampaign,
        api: Client,
        clock: Clock,
        notify: Callable[[str], None],
        where: str,
    ) -> None:
        self.ledger, self.folder, self.document, self.api = ledger, folder, document, api
        self.campaign = document.campaign
        self.clock, self.notify, self.where = clock, notify, where
        self._group_of = {index: group for group in document.groups for index in group.jobs}
        self._logbook = PodLogs(api, folder, document.section, notify)
        self._open_watch = ExitStack()
        self._running: set[int] = set()
        self._fetched: set[int] = set()
        """Jobs that were fetched, and whose objects are still there."""
        self._doomed: dict[str, FailureReason] = {}
        """Group → why its services cannot be used."""
        self._ended_groups: set[str] = set()
        self._done_s: dict[int, float] = {}
        """Job → since when its first pod has handed everything out."""
        self._unread_s: dict[int, float] = {}
        """Job that ended → since when its node does not give out what it left."""

    @classmethod
    def resume(cls, home: Store, plan: Plan, view: View, clock: Clock) -> KubernetesEngine | None:
        campaign = unfollowed(cls, home, plan.digest, view)
        return None if campaign is None else cls.open(home, campaign, view, clock)

    @classmethod
    def check(cls, loaded: Loaded, plan: Plan, home: Store, options: RunOptions) -> KubernetesDraft:
        from assay.engines.kubernetes.draft import draft

        return draft(loaded, plan, home, options)

    @classmethod
    def folder_of(cls, store: Path, campaign: str) -> PodFolder | None:
        return folder_of(store, campaign) if is_on_kubernetes(store, campaign) else None

    @classmethod
    def open(cls, home: Store, campaign: str, view: View, clock: Clock) -> KubernetesEngine:
        """A campaign that an earlier process began; if the current cluster is another one, that is reported."""
        folder = known_folder(home, campaign)
        document = folder.read_campaign(KubernetesCampaign)
        api = connect(document.section.model_copy(update={"namespace": document.namespace}))
        if api.address != document.address:
            view.note(f"campaign {campaign} was submitted to {document.address}; the cluster here is {api.address}")
        ledger = StoreLedger(home, campaign, clock, folder, folder)
        return cls(ledger, folder, document, api, clock, view.note, f"in the namespace {document.namespace}")

    @classmethod
    def remove(cls, store: Path, campaign: str) -> str:
        """Remove what a store has of a campaign beside its results."""
        remove_folder(store, campaign)
        return ""

    @classmethod
    def logs(cls, home: Store, job: Job, service: str = "", *, follow: bool = False) -> Iterator[LogChunk]:
        from assay.engines.kubernetes.logs import job_logs

        return job_logs(home, job, service, follow=follow)

    @property
    def is_cancelled(self) -> bool:
        return self.folder.is_cancelled

    # Submitting and ending

    @cached_property
    def _submitter(self) -> Submitter:
        jobs = {index: self.folder.read_job(index) for index in self._group_of}
        return Submitter(self.folder, self.document, self.api, jobs)

    def submit(self) -> None:
        """Make what all jobs share; jobs follow as their turn comes."""
        self._submitter.begin()

    def advance(self, jobs: Collection[int]) -> int:
        """Remove what ended jobs and groups leave, and submit jobs whose turn has come.

        Groups have their turn in order, and of each only as many jobs as may be in the cluster at the same time.
        """
        for index in self._fetched - set(jobs):
            remove_job(self.api, self._submitter.noted.jobs.get(index, {}))
            self._fetched.discard(index)
        self._end_groups(jobs)
        if self.is_cancelled:
            return 0
        for group in self.document.groups:
            here = [index for index in group.jobs if index in jobs]
            if not here or (group.after and group.after not in self._ended_groups):
                continue
            left = [index for index in here if not self._submitter.is_begun(index)]
            room = len(left) if group.at_once is None else group.at_once - (len(here) - len(left))
            due = left[: max(0, room)]
            if due or group.name not in self._submitter.noted.groups:
                self._submitter.submit(group, due)
        return sum(not self._submitter.is_begun(index) for index in jobs)

    def _end_groups(self, jobs: Collection[int]) -> None:
        """Remove the services of a group once its jobs have ended."""
        for group in self.document.groups:
            if group.name in self._ended_groups or any(index in jobs for index in group.jobs):
                continue
            if (group.services or group.meets) and group.name in self._submitter.noted.groups:
                remove_shared(self.api, self.campaign, group.name)
            self._ended_groups.add(group.name)

    def wait(self, *, moved: bool) -> None:  # noqa: ARG002  (the watch knows)
        self._observer.watching.wait(_PAUSE_S)

    def cancel(self) -> None:
        self.folder.cancel()

    def finish(self) -> bool:
        self.advance(())
        return True

    def tear_down(self) -> str:
        return tear_down(self.api, self.campaign)

    def settle(self) -> None:
        """Remove what the store has taken in."""
        self.folder.forget_results()

    def close(self) -> None:
        self._open_watch.close()

    # Looking

    @cached_property
    def _observer(self) -> Observer:
        watch = self._open_watch.enter_context(watch_campaign(self.api, self.campaign))
        watch.wait_listed()
        self._submitter.adopt(watch.objects("Job"))
        return Observer(self.api, self.document, watch)

    def snapshot(self, jobs: Mapping[int, Job]) -> Snapshot:
        """How jobs stand, with what their logs say about how far they are."""
        observer = self._observer
        observer.watching.refuse_lasting()
        observer.refresh()
        cancelled = self.is_cancelled
        running = [index for index in jobs if index in self._running]
        self._logbook.read(
            delivery for index in running for delivery in self._deliveries(index, self._observed(index)).values()
        )
        statuses: dict[int, JobStatus] = {}
        for index in jobs:
            if self._submitter.is_begun(index):
                statuses[index] = self._status(index)
            elif cancelled:
                why = "the campaign was cancelled before it was submitted"
                statuses[index] = FinishedJob(FailureReason(CANCELLED, why, "run it again"))
        notes = dict(self._care_for_services())
        problem = observer.watching.trouble()
        return Snapshot(statuses, notes, "" if problem is None else problem.problem.message)

    def _observed(self, index: int, *, events: bool = False, sure: bool = False) -> Observation:
        group, own = self._group_of[index], self._submitter.noted.jobs.get(index, {})
        return self._observer.job(group, self._submitter.jobs[index], own, events=events, sure=sure)

    def _deliveries(self, index: int, observation: Observation) -> dict[int, PodDelivery]:
        return self._logbook.deliveries(index, pods_by_rank(observation.pods, self._observer.documents(index)))

    def _status(self, index: int) -> JobStatus:
        """How a job that was submitted stands."""
        group, now, observation = self._group_of[index], self.clock.utc(), self._observed(index)
        if has_ended(observation, now, self._observer.gone) or self._is_delivered(index, observation):
            return FinishedJob()
        handle = f"Job {observation.name}"
        if phase_of(observation) == "waiting":
            # Why no node is found stands in the pod itself; events tell why there is no pod, or none that starts.
            observation = self._observed(
                index, events=not observation.pods or any(pod.node for pod in observation.pods)
            )
            reason = self._observer.failure_reason(observation, group, now) or self._doomed.get(group.name)
            if reason is not None:
                return FinishedJob(reason)
            return WaitingJob(handle, waiting_words(observation, now), _REASON.split(waiting_words(observation))[0])
        if group.name in self._doomed:
            return FinishedJob(self._doomed[group.name])
        self._running.add(index)
        nodes = tuple(sorted({pod.node for pod in observation.pods if pod.node}))
        first = self._deliveries(index, observation).get(0)
        return RunningJob(handle, nodes, (None if first is None else first.progress))

    def _is_delivered(self, index: int, observation: Observation) -> bool:
        """Whether the first pod has handed out everything, and the others need not be waited for."""
        first = self._deliveries(index, observation).get(0)
        if first is None or not first.is_complete:
            return False
        since_s = self._done_s.setdefault(index, time.monotonic())
        others = sum(not pod.is_over for pod in observation.pods) > 1
        return not others or time.monotonic() - since_s > _OTHERS_S

    # Fetching

    def fetch(self, job: Job, ended: FinishedJob) -> Termination | None:
        """Read what is left in the logs of a job's pods; a node that is silent now is asked again for a while."""
        index = job.index
        if ended.reason is not None:
            begun = self._submitter.is_begun(index)
            return self._termination(index, self._observed(index) if begun else None, ended.reason)
        try:
            return self._fetched_from_pods(index)
        except MeasureError as problem:
            if problem.problem.code != SILENT or self._observer.watching.trouble() is not None:
                raise
            since_s = self._unread_s.setdefault(index, time.monotonic())
            if time.monotonic() - since_s < _UNREAD_S:
                return None
            return self._fetched_from_pods(index, reachable=False)

    def _fetched_from_pods(self, index: int, *, reachable: bool = True) -> Termination:
        """Everything that is still available of a job that ended, or why it left no result."""
        group, job = self._group_of[index], self._submitter.jobs[index]
        observation = self._observed(index, sure=True)
        ranks = pods_by_rank(observation.pods, self._observer.documents(index))
        reachable = reachable and lost_node(observation) is None  # a lost node does not answer
        for rank, delivery in self._deliveries(index, observation).items():
            there = reachable and ranks[rank].uid not in self._observer.gone
            delivery.finish(runs=there and not ranks[rank].is_over, there=there)
        reason = refused_by_rank(self.folder, group, job)
        if reason is None and not has_result(self.folder, job):
            observation = self._observed(index, events=True, sure=True)
            reason = self._observer.failure_reason(observation, group, self.clock.utc()) or _no_result(observation)
        return self._termination(index, observation, reason)

    def _termination(self, index: int, observation: Observation | None, reason: FailureReason | None) -> Termination:
        group = self._group_of[index]
        if reason is not None and reason.code == DELETED and self.is_cancelled:
            reason = FailureReason(CANCELLED, "the campaign was cancelled before it had ended", "run it again")
        services = {service.name: self._observer.service(group, service.name) for service in group.services}
        for name, observed in services.items():
            self._logbook.read_service(group, name, observed)
        logs = self._logbook.of_job(index, group)
        self._running.discard(index)
        self._fetched.add(index)
        if observation is None:
            return Termination(None, reason, logs, {}, final=True)
        first = pods_by_rank(observation.pods, self._observer.documents(index)).get(0)
        about = environment_of(observation, group, self.document, services)
        delivery = self._deliveries(index, observation).get(0)
        missing = {} if delivery is None else delivery.absent
        return Termination(execution_of(first), reason, logs, about, final=True, missing=missing)

    # Services

    def _care_for_services(self) -> Iterator[tuple[str, str]]:
        """If a service cannot be used, end the jobs that wait for it, so that none waits without end."""
        read = self._logbook.is_time_for_services()
        for group in self.document.groups:
            if group.name in self._ended_groups or group.name not in self._submitter.noted.groups:
                continue
            for service in group.services:
                observation = self._observer.service(group, service.name)
                ready = next((pod for pod in observation.pods if pod.ready), None)
                if ready is not None:
                    where = f"on {ready.node or 'its node'} (pod {ready.name})"
                    yield f"service {observation.name}", f"the service {service.name} is ready {where}"
                if read:
                    self._logbook.read_service(group, service.name, observation)
                if ready is None or _is_troubled(observation):
                    observation = self._observer.service(group, service.name, events=True)
                reason = self._observer.service_failure_reason(service.name, observation, group, self.clock.utc())
                if reason is not None and group.name not in self._doomed:
                    self._logbook.read_service(group, service.name, observation)
                    reason = replace(reason, message=f"{reason.message}{self._logbook.last_words(group, service.name)}")
                    self._doomed[group.name] = reason
                    yield f"doomed {group.name}", f"{reason.message}; {reason.try_}"


def _is_troubled(observation: Observation) -> bool:
    return any(box.restarts or box.state == "ended" for pod in observation.pods for box in pod.containers)


def _no_result(observation: Observation) -> FailureReason:
    """A job that ended well for all that Kubernetes knows, and whose result did not come."""
    message = f"the Job {observation.name} ended and its result did not come out of its pod"
    remedy = "look into its log with `assay logs`; does the node keep less than 10 MiB of a log (containerLogMaxSize)?"
    return FailureReason("kubernetes-failed", message, remedy)
