"""What Kubernetes reports about jobs, pods and events, read once into records. Pure; None and "" mean unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from assay.engines.kubernetes.client.api import Document, labels_of, metadata, name_of, uid_of
from assay.engines.kubernetes.objects.plan import PodResources

_INDEX = "batch.kubernetes.io/job-completion-index"
_QUEUE = "kueue.x-k8s.io/queue-name"
# An exit code above this is a signal that ended the process.
_SIGNALS = 128


@dataclass(frozen=True, slots=True)
class ContainerObservation:
    """One container of a pod."""

    name: str
    state: Literal["waiting", "running", "ended", ""]
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    restarts: int | None = None
    ready: bool = False
    image: str = ""
    image_id: str = ""
    """What the node really ran, by its digest."""
    before: ContainerObservation | None = None
    """How its last life ended, where it was started again."""


@dataclass(frozen=True, slots=True)
class PodObservation:
    """One pod."""

    name: str
    uid: str = ""
    phase: str = ""
    """Kubernetes' own word: Pending, Running, Succeeded, Failed or Unknown."""
    reason: str = ""
    message: str = ""
    node: str = ""
    ip: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    """When its node took it."""
    placed_at: datetime | None = None
    """When the scheduler found a node."""
    deleted_at: datetime | None = None
    """When its end was requested; what ends later may have ended because of that."""
    over_at: datetime | None = None
    """When the time that it was given to end is over."""
    unplaced: str = ""
    """Why the scheduler finds no node, in its own words."""
    unplaced_since: datetime | None = None
    disruption: str = ""
    """Why Kubernetes itself ended it, in its own word."""
    disruption_message: str = ""
    ready: bool = False
    unready_reason: str = ""
    rank: int | None = None
    """Its index in an Indexed Job."""
    containers: tuple[ContainerObservation, ...] = ()
    before: tuple[ContainerObservation, ...] = ()
    """Containers that must have ended before those start."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good and nothing in it runs again."""
        return self.phase in ("Succeeded", "Failed")

    def container(self, name: str) -> ContainerObservation | None:
        """One of its containers; None where Kubernetes has not reported it."""
        return next((container for container in self.containers if container.name == name), None)


@dataclass(frozen=True, slots=True)
class JobObservation:
    """One Job."""

    name: str
    uid: str = ""
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: bool = False
    complete: bool = False
    failure: str = ""
    """Why Kubernetes gave it up, in its own word; empty while it has not."""
    failure_message: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    deleted_at: datetime | None = None
    queue: str = ""
    """Queue of Kueue in which it waits."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        return self.complete or bool(self.failure)


@dataclass(frozen=True, slots=True)
class EventObservation:
    """Something that happened to an object."""

    reason: str
    message: str
    kind: str = ""
    name: str = ""
    uid: str = ""
    at: datetime | None = None
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of one attempt at one moment."""

    name: str
    """Of its Job."""
    job: JobObservation | None = None
    """None where there is no such Job, or no longer."""
    pods: tuple[PodObservation, ...] = ()
    """The oldest first."""
    events: tuple[EventObservation, ...] = ()
    resources: PodResources = field(default_factory=PodResources)

    def events_of(self, uid: str, *reasons: str) -> list[EventObservation]:
        """What happened to one object, the newest first."""
        events = [event for event in self.events if event.uid == uid and (not reasons or event.reason in reasons)]
        return sorted(events, key=lambda event: _seconds(event.at), reverse=True)


def read_pod(document: Document) -> PodObservation:
    meta, status = metadata(document), _part(document, "status")
    conditions = {str(condition.get("type")): condition for condition in _parts(status, "conditions")}
    scheduled, disrupted = conditions.get("PodScheduled", {}), conditions.get("DisruptionTarget", {})
    ready = conditions.get("Ready", {})
    unplaced = scheduled.get("status") == "False"
    hit = disrupted.get("status") == "True"
    annotations = meta.get("annotations")
    index = annotations.get(_INDEX) if isinstance(annotations, Mapping) else None
    # When the end of an object was asked for: Kubernetes writes down when its time to end is over
    over, grace = moment(meta.get("deletionTimestamp")), meta.get("deletionGracePeriodSeconds")
    return PodObservation(
        name=name_of(document),
        uid=uid_of(document),
        phase=_text(status, "phase"),
        reason=_text(status, "reason"),
        message=_text(status, "message"),
        node=_text(_part(document, "spec"), "nodeName"),
        ip=_text(status, "podIP"),
        created_at=moment(meta.get("creationTimestamp")),
        started_at=moment(status.get("startTime")),
        deleted_at=(over - timedelta(seconds=grace) if over is not None and isinstance(grace, int) else over),
        over_at=moment(meta.get("deletionTimestamp")),
        unplaced=(_text(scheduled, "message") or _text(scheduled, "reason")) if unplaced else "",
        unplaced_since=moment(scheduled.get("lastTransitionTime")) if unplaced else None,
        placed_at=moment(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None,
        disruption=_text(disrupted, "reason") if hit else "",
        disruption_message=_text(disrupted, "message") if hit else "",
        ready=ready.get("status") == "True",
        unready_reason=_text(ready, "reason"),
        rank=int(index) if isinstance(index, str) and index.isdecimal() else None,
        containers=tuple(_container(container) for container in _parts(status, "containerStatuses")),
        before=tuple(_container(container) for container in _parts(status, "initContainerStatuses")),
    )


def read_job(document: Document) -> JobObservation:
    meta, status = metadata(document), _part(document, "status")
    held = {
        str(condition.get("type")): condition
        for condition in _parts(status, "conditions")
        if condition.get("status") == "True"
    }
    failed = held.get("Failed", {})
    return JobObservation(
        name=name_of(document),
        uid=uid_of(document),
        active=_count(status, "active"),
        succeeded=_count(status, "succeeded"),
        failed=_count(status, "failed"),
        suspended=_part(document, "spec").get("suspend") is True,
        complete="Complete" in held,
        failure=(_text(failed, "reason") or "Failed") if failed else "",
        failure_message=_text(failed, "message"),
        created_at=moment(meta.get("creationTimestamp")),
        started_at=moment(status.get("startTime")),
        ended_at=moment(status.get("completionTime") or failed.get("lastTransitionTime")),
        deleted_at=moment(meta.get("deletionTimestamp")),
        queue=str(labels_of(document).get(_QUEUE, "")),
    )


def read_event(document: Document) -> EventObservation:
    about = _part(document, "involvedObject")
    at = document.get("lastTimestamp") or document.get("eventTime") or metadata(document).get("creationTimestamp")
    return EventObservation(
        reason=_text(document, "reason"),
        message=_text(document, "message"),
        kind=_text(about, "kind"),
        name=_text(about, "name"),
        uid=_text(about, "uid"),
        at=moment(at),
        warning=document.get("type") == "Warning",
    )


def observe(
    name: str,
    job: Document | None,
    pods: Iterable[Document],
    events: Iterable[Document] = (),
    resources: PodResources | None = None,
) -> Observation:
    """What is known of one attempt, from the objects as the server keeps them."""
    observed_pods = sorted(map(read_pod, pods), key=lambda pod: (_seconds(pod.created_at), pod.rank or 0, pod.name))
    observed_job = None if job is None else read_job(job)
    uids = {pod.uid for pod in observed_pods} | ({observed_job.uid} if observed_job is not None else set())
    own = tuple(event for event in map(read_event, events) if event.uid in uids)
    return Observation(name, observed_job, tuple(observed_pods), own, resources or PodResources())


def _seconds(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()


def moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def _container(status: Mapping[str, Any]) -> ContainerObservation:
    current = _life(status, _part(status, "state"))
    last = _part(status, "lastState")
    return replace(current, before=_life(status, last)) if last else current


def _life(status: Mapping[str, Any], state: Mapping[str, Any]) -> ContainerObservation:
    """One life of a container: what it waits for, how it runs, or how it ended."""
    waiting, running, ended = (_part(state, key) for key in ("waiting", "running", "terminated"))
    detail = ended or waiting
    code = ended.get("exitCode")
    signal = ended.get("signal") or (code - _SIGNALS if isinstance(code, int) and code > _SIGNALS else None)
    return ContainerObservation(
        name=_text(status, "name"),
        state="ended" if "terminated" in state else "running" if "running" in state else "waiting" if waiting else "",
        reason=_text(detail, "reason"),
        message=_text(detail, "message"),
        exit_code=code if isinstance(code, int) else None,
        signal=signal if isinstance(signal, int) else None,
        started_at=moment((running or ended).get("startedAt")),
        ended_at=moment(ended.get("finishedAt")),
        restarts=status["restartCount"] if isinstance(status.get("restartCount"), int) else None,
        ready=status.get("ready") is True,
        image=_text(status, "image"),
        image_id=_text(status, "imageID"),
    )


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}


def _parts(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = document.get(key)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _count(document: Mapping[str, Any], key: str) -> int:
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
