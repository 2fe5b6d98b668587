"""What Kubernetes tells about the jobs and services of a campaign: how each stands, since when, and why it failed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from assay.engines.base import FailureReason
from assay.engines.kubernetes.client.api import Document, name_of, uid_of
from assay.engines.kubernetes.client.client import Client
from assay.engines.kubernetes.client.watch import CampaignWatch
from assay.engines.kubernetes.folder import KubernetesCampaign
from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.names import Part, part_of
from assay.engines.kubernetes.objects.plan import Group, resources_of
from assay.engines.kubernetes.objects.pods import CONTAINER, PROGRAM
from assay.engines.kubernetes.observation import Observation, PodObservation, observe
from assay.engines.kubernetes.phases import digest_of, facts_of, failure_of, lost_node, phase_of, service_failure_of
from assay.errors import MeasureError
from assay.plan.job import Job

# Events are asked for by pod, and not more often than this: a whole cluster shares them.
_EVENTS_EVERY_S = 5.0
# How many waiting jobs are asked about in one look: a campaign may have hundreds of them.
_EVENTS_AT_ONCE = 20
# A pod that should have ended by then has no kubelet left to report its end: its node is lost.
_LATE_S = 5.0


@dataclass(frozen=True, slots=True)
class PodExecution:
    """When a pod ran and how its container ended; None means unknown."""

    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    memory_max_bytes: int | None = None

    @property
    def elapsed_s(self) -> float | None:
        """How long its container ran."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


@dataclass(slots=True)
class Observer:
    """Puts together what is known of the jobs and services of a campaign, one look after another."""

    api: Client
    campaign: KubernetesCampaign
    watching: CampaignWatch
    _jobs: dict[str, Document] = field(default_factory=dict)
    _of_jobs: dict[int, list[Document]] = field(default_factory=dict)
    """Index → the pods of a job, those that are gone first."""
    _of_services: dict[tuple[str, str], list[Document]] = field(default_factory=dict)
    _gone: frozenset[str] = frozenset()
    _holding: list[tuple[str, str]] = field(default_factory=list)
    """Uid and group of each pod that has a node."""
    _events: dict[str, tuple[float, tuple[Document, ...]]] = field(default_factory=dict)
    """Uid → when its events were asked for, and what they are."""
    _events_left: int = _EVENTS_AT_ONCE
    """How many questions about events are left in this look."""
    _free: dict[str, datetime] = field(default_factory=dict)
    """Job or service → since when no other pod of the campaign could be in its way."""

    def refresh(self) -> None:
        """Take what is known now: everything after this speaks of the same moment."""
        self._events_left = _EVENTS_AT_ONCE
        self._jobs = {name_of(job): job for job in self.watching.objects("Job")}
        gone, there = self.watching.gone("Pod"), self.watching.objects("Pod")
        self._gone = frozenset(map(uid_of, gone))
        self._of_jobs, self._of_services, self._holding = {}, {}, []
        for pod in (*gone, *there):
            part = part_of(pod)
            if part is None:
                continue
            if part.role == "job" and part.job is not None:
                self._of_jobs.setdefault(part.job, []).append(pod)
            elif part.role == "service":
                self._of_services.setdefault((part.group, part.service), []).append(pod)
            if _holds_room(pod) and uid_of(pod) not in self._gone:
                self._holding.append((uid_of(pod), part.group))

    @property
    def gone(self) -> frozenset[str]:
        """The uids of pods that were there and no longer are."""
        return self._gone

    def documents(self, index: int) -> tuple[Document, ...]:
        """The pods of a job as the server tells them."""
        return tuple(self._of_jobs.get(index, ()))

    def job(
        self, group: Group, job: Job, own: Mapping[str, str], *, events: bool = False, sure: bool = False
    ) -> Observation:
        """One job.

        Args:
            events: whether to ask what happened to it, which tells why it waits or failed.
            sure: whether to ask for its pods where none is known: a watch may be a moment late.
        """
        jobs = [document for name in own if (document := self._job(name)) is not None]
        pods = self._of_jobs.get(job.index, [])
        if sure and not pods:
            part = Part(self.campaign.campaign, "job", group.name, job.index)
            pods = self._of_jobs[job.index] = list(self.api.list("Pod", part.selector()).items)
        happened = [
            event for owner in (*jobs, *pods) for event in self._events_of(uid_of(owner), fresh=events, sure=sure)
        ]
        # Where one Job of several is gone, the attempt is.
        there = None if len(jobs) < len(own) else next(iter(jobs), None)
        return observe(next(iter(own), ""), there, pods, happened, resources_of(job, group))

    def service(self, group: Group, service: str, *, events: bool = False) -> Observation:
        pods = self._of_services.get((names.value(group.name), names.value(service)), [])
        happened = [event for pod in pods for event in self._events_of(uid_of(pod), fresh=events)]
        resources = next(entry.resources for entry in group.services if entry.name == service)
        return observe(names.service_name(self.campaign.campaign, group.name, service), None, pods, happened, resources)

    def failure_reason(self, observation: Observation, group: Group, now: datetime) -> FailureReason | None:
        """Why a job gives no result; None while it may."""
        free = self._free_since(observation, group, now)
        return failure_of(observation, now, free_since=free, patience_s=self.campaign.section.unschedulable)

    def service_failure_reason(
        self, name: str, observation: Observation, group: Group, now: datetime
    ) -> FailureReason | None:
        """Why a service cannot be used; None while it may."""
        free = self._free_since(observation, group, now)
        patience_s = self.campaign.section.unschedulable
        return service_failure_of(name, observation, now, free_since=free, patience_s=patience_s)

    def _job(self, name: str) -> Document | None:
        """A Job; one that the watch does not show is asked for, since a watch may be a moment late."""
        return self._jobs.get(name) or self.api.get("Job", name)

    def _free_since(self, observation: Observation, group: Group, now: datetime) -> datetime | None:
        """Since when only pods that go with it hold room: those never make place for it."""
        own = {pod.uid for pod in observation.pods}
        beside = names.value(group.name) if group.kind != "jobs" else None
        if any(uid not in own and other != beside for uid, other in self._holding):
            self._free.pop(observation.name, None)
            return None
        return self._free.setdefault(observation.name, now)

    def _events_of(self, uid: str, *, fresh: bool, sure: bool = False) -> tuple[Document, ...]:
        at_s, events = self._events.get(uid, (float("-inf"), ()))
        if not fresh or time.monotonic() - at_s < _EVENTS_EVERY_S or (self._events_left <= 0 and not sure):
            return events
        self._events_left -= 1
        try:
            events = self.api.list("Event", fields=f"involvedObject.uid={uid}").items
        except MeasureError:  # events only explain; without them less is explained
            return events
        self._events[uid] = (time.monotonic(), events)
        return events


def environment_of(
    observation: Observation, group: Group, campaign: KubernetesCampaign, services: Mapping[str, Observation]
) -> dict[str, JsonValue]:
    """What is kept with a result about where it was measured; what Kubernetes does not say is left out."""
    facts: dict[str, JsonValue] = {
        **facts_of(observation),
        "group": group.name,
        "namespace": campaign.namespace,
        "version": str(campaign.version),
    }
    program = next((box for pod in observation.pods for box in pod.containers if box.name == PROGRAM), None)
    if program is not None:
        facts["program"] = {"image": program.image, "image_digest": digest_of(program) or "not told"}
    if services:
        facts["services"] = {name: {**facts_of(service)} for name, service in services.items()}
    return {"kubernetes": facts}


def execution_of(pod: PodObservation | None) -> PodExecution | None:
    """When the measuring container of a pod ran; None where nothing is known of it."""
    main = None if pod is None else pod.container(CONTAINER)
    if main is None:
        return None
    return PodExecution(main.started_at, main.ended_at, main.exit_code, main.signal)


def has_ended(observation: Observation, now: datetime, gone: Collection[str]) -> bool:
    """Whether nothing more is measured: the attempt ended, the container that measures did, or its pod is gone.

    A pod that is asked to end may still hand something out, until it is gone or the time that it was given has passed.
    """
    if phase_of(observation) == "ended":
        return True
    lost = lost_node(observation) is not None  # no pod will hand anything out there
    for pod in observation.pods:
        over = pod.deleted_at if lost else pod.over_at
        if pod.uid in gone or (over is not None and (now - over).total_seconds() > _LATE_S):
            return True
    mains = [box for pod in observation.pods if (box := pod.container(CONTAINER)) is not None]
    return bool(mains) and len(mains) == len(observation.pods) and all(box.state == "ended" for box in mains)


def pods_by_rank(pods: Iterable[PodObservation], documents: Iterable[Document]) -> dict[int, PodObservation]:
    """The first pod of each rank: one that replaced it is another attempt, which was not asked for."""
    labels = {uid_of(document): part_of(document) for document in documents}
    first_pods: dict[int, PodObservation] = {}
    for pod in pods:
        part = labels.get(pod.uid)
        rank = pod.rank if pod.rank is not None else (part.rank if part is not None else None)
        first_pods.setdefault(rank or 0, pod)
    return first_pods


def _holds_room(pod: Document) -> bool:
    placed = bool(pod.get("spec", {}).get("nodeName"))
    return placed and pod.get("status", {}).get("phase") in ("Pending", "Running")
