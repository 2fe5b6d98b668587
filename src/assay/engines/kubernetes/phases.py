"""What the states of Kubernetes mean: whether a job ended, why it failed and what to change, what it waits on. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

from assay.engines.base import FailureReason
from assay.engines.kubernetes.objects.plan import PodResources
from assay.engines.kubernetes.objects.pods import Unplaced, unplaced
from assay.engines.kubernetes.observation import ContainerObservation, EventObservation, Observation, PodObservation
from assay.units import show_bytes, show_seconds

Phase = Literal["waiting", "running", "ended"]
# How long a pod may wait for a node to be found, unless the benchmark says otherwise.
PATIENCE_S = 600.0
# Why the Job controller cannot make a pod, and yet may later.
_QUOTA = "exceeded quota"
_OUTLOOK = {
    "busy": "other measuring pods come first",
    "unsure": "no node has room",
    "lasting": "no node will take it as it is asked for",
}
IMAGE, UNSCHEDULABLE, NOT_CREATED = "kubernetes-image-pull", "kubernetes-unschedulable", "kubernetes-not-created"
EVICTED, PREEMPTED, NODE_LOST = "kubernetes-evicted", "kubernetes-preempted", "kubernetes-node-lost"
OOM, DEADLINE, DELETED = "kubernetes-oom", "kubernetes-deadline", "kubernetes-deleted"
START, VOLUME, FAILED = "kubernetes-start", "kubernetes-volume", "kubernetes-failed"
LATE = "service-not-ready"
# A pull that fails for one of these reasons fails for ever; others may pass, and get some time for it.
_LASTING_PULL = re.compile(
    r"not found|notfound|manifest unknown|repository does not exist|name unknown|denied|unauthori[sz]ed|authentication"
    r"|forbidden|not present with pull policy|invalid reference|couldn't parse image|no match for platform"
    r"|no such image",
    re.IGNORECASE,
)
_PULLING = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
            "RegistryUnavailable", "SignatureValidationFailed")  # fmt: skip
_AT_ONCE = ("ErrImageNeverPull", "InvalidImageName", "SignatureValidationFailed")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError",
           "PreCreateHookError")  # fmt: skip
_CANNOT_START = ("StartError", "ContainerCannotRun")
_NODE_REASONS = ("NodeLost", "NodeShutdown", "Shutdown", "Terminated")
_BY_NODE = ("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
# Passing troubles of the network, and of objects that are a moment late.
_PULL_PATIENCE_S, _CONFIG_PATIENCE_S, _MOUNT_PATIENCE_S = 120.0, 30.0, 300.0
# A node that cannot mount something says so again and again, at least every two minutes; one that went silent could.
_MOUNT_AGAIN_S = 150.0
# How often a first container may fail before its pod is given up.
_FETCH_TRIES = 3
_AGAIN = "run it again: what was measured before is kept"


def phase_of(seen: Observation) -> Phase:
    """Where an attempt stands; one of several pods waits as long as one of them does."""
    going = [pod for pod in seen.pods if not pod.is_over]
    if seen.job is None or seen.job.is_over or (seen.pods and not going):
        return "ended"
    return "running" if going and all(map(_runs, going)) else "waiting"


def failure_of(
    seen: Observation, now: datetime, *, free_since: datetime | None = None, patience_s: float = PATIENCE_S
) -> FailureReason | None:
    """Why an attempt gave no result; None while it may still give one, and where Kubernetes saw nothing wrong.

    Args:
        free_since: since when no other pod of the campaign could be in the way of this one; None while one is.
        patience_s: how long a pod may wait for a node that the scheduler does not find.
    """
    if first_reason := _first(seen):
        return first_reason
    if seen.job is None:
        message = f"the Job {seen.name} is gone, and with it whatever its pod had measured: it was deleted"
        return FailureReason(DELETED, message, "run the campaign again: what was measured before is kept")
    if seen.job.failure:
        return _given_up(seen)
    if seen.job.complete:
        return None
    if not seen.pods:
        # Why the Job controller makes no pod: a quota may get free, anything else stays as it is
        assert seen.job is not None  # noqa: S101  (for the type alone)
        event = newest(seen, seen.job.uid, "FailedCreate")
        if event is None or seen.job.suspended:
            return None
        if _QUOTA in event.message and not _too_long(seen.job.created_at, now, free_since, patience_s):
            return None
        return _refused_pod(seen, event)
    for pod in seen.pods:
        # What its own siblings hold never gets free for it: they wait for it.
        held = any(sibling.node and not sibling.is_over for sibling in seen.pods if sibling is not pod)
        reason = of_waiting(pod, seen, now) or _never_placed(pod, now, free_since, patience_s, held=held)
        if reason is not None:
            return reason
    return None


def service_failure_of(
    name: str, seen: Observation, now: datetime, *, free_since: datetime | None = None, patience_s: float = PATIENCE_S
) -> FailureReason | None:
    """Why a service can no longer be used; None while it may get ready, and while it runs as it was started.

    A service that ended and was started again by Kubernetes is another one than was measured before: it failed.

    Args:
        free_since: since when no other pod of the campaign could be in its way; None while one is.
    """
    for pod in seen.pods:
        reason = of_late(pod, seen) or of_ended(pod, seen) or of_restarted(pod, seen)
        reason = reason or of_waiting(pod, seen, now) or _never_placed(pod, now, free_since, patience_s)
        if reason is not None:
            return FailureReason(reason.code, f"the service {name}: {reason.message}", reason.try_)
    return None


def waiting_words(seen: Observation, now: datetime | None = None) -> str:
    """Why an attempt waits, in words.

    Args:
        now: the present, to say for how long; the duration is omitted when left out.
    """
    if seen.job is not None and seen.job.suspended:
        queue = f" {seen.job.queue}" if seen.job.queue else ""
        return f"waiting: the queue{queue} has not let it in yet"
    if not seen.pods:
        created = newest(seen, seen.job.uid if seen.job is not None else "", "FailedCreate")
        why = f"its pod cannot be made yet ({created.message})" if created else "its pod is not made yet"
        return f"waiting: {why}"
    pod = next((candidate for candidate in seen.pods if not _runs(candidate) and not candidate.is_over), seen.pods[0])
    since = "" if now is None or pod.created_at is None else f", since {show_seconds(_since(pod.created_at, now))}"
    if pod.unplaced:
        placement = unplaced(pod.unplaced)
        return f"waiting: {_OUTLOOK[placement.outlook]} ({placement.message}){since}"
    if not pod.node:
        return f"waiting: the scheduler has not looked at it yet{since}"
    return f"waiting: {_starting(pod)} on {pod.node}{since}"


def facts_of(seen: Observation) -> dict[str, str | int | float]:
    """What Kubernetes tells about an attempt, for its result; what it does not say is left out."""
    pod = seen.pods[0] if seen.pods else None
    if pod is None:
        return {"job": seen.name, "state": "not told"}
    main = pod.containers[0] if pod.containers else None
    facts: dict[str, str | int | float | None] = {
        "job": seen.name,
        "pod": pod.name,
        "pod_uid": pod.uid or None,
        "state": pod.phase or "not told",
        "reason": pod.reason or pod.disruption or (main.reason if main is not None else "") or None,
        "node": pod.node or None,
        "pods": len(seen.pods) if len(seen.pods) > 1 else None,
        "created_at": pod.created_at.isoformat() if pod.created_at else None,
        "started_at": pod.started_at.isoformat() if pod.started_at else None,
        "waited_s": _since(pod.created_at, pod.started_at) if pod.created_at and pod.started_at else None,
        "image": main.image or None if main is not None else None,
        "image_digest": digest_of(main) or None if main is not None else None,
        "exit_code": main.exit_code if main is not None else None,
        "restarts": main.restarts or None if main is not None else None,
        # What it was held to, which makes a part of the node another machine than the whole.
        "limit_cpus": seen.resources.cpus if seen.resources.limited else None,
        "limit_memory_bytes": seen.resources.memory if seen.resources.limited else None,
        "gpus": seen.resources.gpus,
    }
    return {name: value for name, value in facts.items() if value is not None}


def digest_of(container: ContainerObservation) -> str:
    """The digest of the image that the node really ran; empty where it does not say one."""
    return container.image_id.rpartition("@")[2] if "@sha256:" in container.image_id else ""


def _runs(pod: PodObservation) -> bool:
    return not pod.is_over and any(container.state == "running" for container in pod.containers)


def _first(seen: Observation) -> FailureReason | None:
    """What went wrong first: where one pod of several fails, Kubernetes ends the others, which then failed too."""
    ended = sorted(seen.pods, key=_ended_at)
    reasons = [(pod, reason) for pod in ended if (reason := of_ended(pod, seen)) is not None]
    own = [reason for pod, reason in reasons if reason.code != DELETED]
    return own[0] if own else reasons[0][1] if reasons else None


def _ended_at(pod: PodObservation) -> float:
    return min(
        (container.ended_at.timestamp() for container in pod.containers if container.ended_at is not None),
        default=float("inf"),
    )


def _given_up(seen: Observation) -> FailureReason:
    """A Job that Kubernetes gave up, and whose pods do not say why: they are gone."""
    assert seen.job is not None  # noqa: S101  (for the type alone)
    lost = lost_node(seen)
    if lost is not None:
        return lost
    said = f": {seen.job.failure_message}" if seen.job.failure_message else ""
    if seen.job.failure == "DeadlineExceeded":
        return deadline(seen.name, "", seen.resources, said)
    if not seen.pods:
        message = f"the pod of the Job {seen.name} was deleted before it had ended ({seen.job.failure}{said})"
        return FailureReason(DELETED, message, "run the campaign again: what was measured before is kept")
    message = f"Kubernetes gave up the Job {seen.name} ({seen.job.failure}{said})"
    return FailureReason(FAILED, message, "look into its log with `assay logs`")


def _refused_pod(seen: Observation, event: EventObservation) -> FailureReason:
    message = event.message.removeprefix("Error creating: ")
    hints = {
        _QUOTA: "lower what is asked for, wait until others have ended, or ask for a larger quota of the namespace",
        "PriorityClass": "change place.kubernetes.priority_class: kubectl get priorityclasses",
        "serviceaccount": "change place.kubernetes.service_account: kubectl get serviceaccounts",
        "PodSecurity": "set place.kubernetes.restricted: true, with an image that does not run as root",
        "usage per": "ask for what the namespace's limit range allows (place.kubernetes.cpus, memory)",
    }
    hint = next((text for word, text in hints.items() if word in message), "change place.kubernetes as it says")
    return FailureReason(NOT_CREATED, f"Kubernetes makes no pod for the Job {seen.name}: {message}", hint)


def _never_placed(
    pod: PodObservation, now: datetime, free_since: datetime | None, patience_s: float, *, held: bool = False
) -> FailureReason | None:
    if not pod.unplaced or pod.node:
        return None
    placement = unplaced(pod.unplaced)
    if placement.outlook == "busy" and not held:  # it is its turn when they have ended
        return None
    # Others of the campaign cannot be in the way of a pod that no node would take anyway.
    free = pod.created_at if placement.outlook == "lasting" else free_since
    since = pod.unplaced_since or pod.created_at
    if not _too_long(since, now, free, patience_s):
        return None
    return _unschedulable(pod, placement, patience_s)


def _unschedulable(pod: PodObservation, unplaced: Unplaced, patience_s: float) -> FailureReason:
    message = (
        f"the scheduler found no node for the pod {pod.name} within {show_seconds(patience_s)}: {unplaced.message}"
    )
    remedy = f"{unplaced.try_}; or raise place.kubernetes.unschedulable where the nodes are only busy"
    return FailureReason(UNSCHEDULABLE, message, remedy)


def _too_long(since: datetime | None, now: datetime, free_since: datetime | None, patience_s: float) -> bool:
    if since is None or free_since is None:
        return False
    return _since(max(since, free_since), now) >= patience_s


def _since(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


def _starting(pod: PodObservation) -> str:
    if any(container.state == "running" for container in pod.before):
        return "its files are fetched"
    waiting = [container for container in (*pod.before, *pod.containers) if container.state == "waiting"]
    reasons = [container.reason for container in waiting if container.reason]
    if not reasons:
        return "its node takes it"
    if reasons[0] in ("ContainerCreating", "PodInitializing"):
        return "its image is fetched and its volumes are mounted"
    said = next((container.message for container in waiting if container.message), "")
    return reasons[0] + (f" ({said})" if said else "")


def of_ended(pod: PodObservation, seen: Observation) -> FailureReason | None:
    """Why a pod ended without having done its part; None for one that has not ended, or ended well."""
    if pod.phase == "Succeeded":
        return None
    if pod.reason == "Evicted":
        return _evicted(pod)
    if pod.reason == "DeadlineExceeded":
        return deadline(pod.name, pod.node, seen.resources)
    if _by_node(pod, seen):
        return _node_lost(pod)
    if reason := _disrupted(pod, seen):
        return reason
    if reason := _ended_badly(pod, seen.resources, deleted=pod.deleted_at is not None):
        return reason
    if pod.deleted_at is not None:
        return _deleted(pod)
    if pod.phase != "Failed":
        return None
    if pod.reason == "NodeAffinity" or pod.reason.startswith(("OutOf", "Outof")) or "Admission" in pod.reason:
        message = f"the node {pod.node or ''} did not take the pod {pod.name} ({pod.reason}: {pod.message})"
        return FailureReason(FAILED, message, f"{_AGAIN}; what was free when it was planned was taken when it came")
    said = ": ".join(part for part in (pod.reason, pod.message) if part) or "it does not say why"
    return FailureReason(
        FAILED, f"the pod {pod.name} failed{_where(pod)} ({said})", "look into its log with `assay logs`"
    )


def of_waiting(pod: PodObservation, seen: Observation, now: datetime) -> FailureReason | None:
    """Why a pod that has a node cannot start; None while it may."""
    # A pod may have waited long for its node, which says a moment late that it took it.
    since = pod.started_at or pod.placed_at or pod.created_at
    waited_s = 0.0 if since is None else (now - since).total_seconds()
    if reason := _not_fetched(pod, seen):
        return reason
    for container in (*pod.before, *pod.containers):
        if container.state != "waiting":
            continue
        if container.reason in _PULLING and (reason := _image(pod, container, seen, waited_s)) is not None:
            return reason
        if container.reason in _CONFIG and waited_s >= _CONFIG_PATIENCE_S:
            message = f"the pod {pod.name} cannot start{_where(pod)} ({container.reason}: {container.message})"
            remedy = "see that the Secrets of place.kubernetes.secrets and the keys in them exist"
            return FailureReason(START, message, remedy)
    if waited_s >= _MOUNT_PATIENCE_S and (mount := _unmounted(pod, seen, now)) is not None:
        message = f"a volume of the pod {pod.name} cannot be mounted{_where(pod)}: {mount.message}"
        remedy = "see that the claims of place.kubernetes.volumes exist and fit the node: kubectl get pvc"
        return FailureReason(VOLUME, message, remedy)
    return None


def _unmounted(pod: PodObservation, seen: Observation, now: datetime) -> EventObservation | None:
    """The trouble with a volume that keeps a pod from starting; None where there is none, or there was one before."""
    event = newest(seen, pod.uid, "FailedMount", "FailedAttachVolume")
    if event is None or any(container.state == "running" for container in pod.containers):
        return None
    lasts = event.at is None or (now - event.at).total_seconds() <= _MOUNT_AGAIN_S
    return event if lasts else None


def _not_fetched(pod: PodObservation, seen: Observation) -> FailureReason | None:
    """A first container that failed repeatedly; Kubernetes restarts it, since networks fail now and then."""
    for container in pod.before:
        last = container if container.state == "ended" else container.before
        if last is None or not last.exit_code or (container.restarts or 0) < _FETCH_TRIES - 1:
            continue
        reason = _ended_container(pod, last, seen.resources, f"; it was tried {(container.restarts or 0) + 1} times")
        return FailureReason(
            reason.code, reason.message, "see that the files of `fetch` can be reached from the cluster"
        )
    return None


def of_restarted(pod: PodObservation, seen: Observation) -> FailureReason | None:
    """How a container ended that Kubernetes started again; None where none was."""
    for container in pod.containers:
        if container.before is not None and container.restarts:
            again = f"; Kubernetes started it again ({container.restarts} times)"
            return _ended_container(pod, container.before, seen.resources, again)
    return None


def of_late(pod: PodObservation, seen: Observation) -> FailureReason | None:
    """A service that Kubernetes ended because it was not ready in time; None where it was not so."""
    killed = [event for event in seen.events_of(pod.uid, "Killing") if "startup probe" in event.message]
    if not killed:
        return None
    event = newest(seen, pod.uid, "Unhealthy")
    said = f"; last it answered: {event.message}" if event is not None else ""
    message = f"the pod {pod.name} was not ready in time{_where(pod)}{said}"
    return FailureReason(LATE, message, "look into its log with `assay logs`, or raise ready.within")


def newest(seen: Observation, uid: str, *reasons: str) -> EventObservation | None:
    """The newest event of an object with one of these reasons."""
    return next(iter(seen.events_of(uid, *reasons)), None)


def deadline(pod: str, node: str, resources: PodResources, said: str = "") -> FailureReason:
    """A pod that was ended at its time limit."""
    limit = (
        "its time limit" if resources.deadline_s is None else f"its time limit of {show_seconds(resources.deadline_s)}"
    )
    where = f" on {node}" if node else ""
    message = f"the pod {pod} was ended{where} at {limit}{said}"
    return FailureReason(DEADLINE, message, "raise place.kubernetes.deadline, or lower measure.runs or measure.timeout")


def lost_node(seen: Observation) -> FailureReason | None:
    """The first pod whose node was lost; None where none was."""
    return next((_node_lost(pod) for pod in seen.pods if _by_node(pod, seen)), None)


def _by_node(pod: PodObservation, seen: Observation) -> bool:
    if pod.reason in _NODE_REASONS or (pod.disruption in _BY_NODE and pod.reason != "Preempting"):
        return True
    if pod.deleted_at is None:  # a node that is away may come back, and its pods with it
        return False
    return newest(seen, pod.uid, "TaintManagerEviction", "NodeNotReady") is not None or pod.unready_reason == "NodeLost"


def _node_lost(pod: PodObservation) -> FailureReason:
    node = pod.node or "its node"
    said = pod.message or pod.disruption_message
    message = f"the pod {pod.name} was lost because {node} failed or was shut down{f' ({said})' if said else ''}"
    remedy = f"{_AGAIN}; if {node} fails again, keep pods away from it: kubectl cordon {pod.node or 'NODE'}"
    return FailureReason(NODE_LOST, message, remedy)


def _evicted(pod: PodObservation) -> FailureReason:
    return FailureReason(
        EVICTED,
        f"the pod {pod.name} was evicted{_where(pod)}: {pod.message or 'the node does not say why'}",
        "ask for the memory and the disk that it uses (place.kubernetes.memory, storage), so that its node keeps them "
        "free",
    )


def _disrupted(pod: PodObservation, seen: Observation) -> FailureReason | None:
    said = f" ({pod.disruption_message})" if pod.disruption_message else ""
    preempted = newest(seen, pod.uid, "Preempted")
    if pod.disruption.startswith("PreemptionBy") or pod.reason == "Preempting" or preempted is not None:
        said = said or (f" ({preempted.message})" if preempted is not None else "")
        message = f"the pod {pod.name} was preempted{_where(pod)} by a higher-priority pod{said}"
        remedy = f"{_AGAIN}, or use a place.kubernetes.priority_class that is not preempted"
        return FailureReason(PREEMPTED, message, remedy)
    if pod.disruption == "EvictionByEvictionAPI":
        message = f"the pod {pod.name} was evicted{_where(pod)}: the node is being drained{said}"
        return FailureReason(EVICTED, message, f"{_AGAIN}, when the node is back")
    return None


def _ended_badly(pod: PodObservation, resources: PodResources, *, deleted: bool) -> FailureReason | None:
    """The container that failed first; one that ended because the pod was deleted did not fail by itself."""
    ended = [
        candidate
        for candidate in pod.containers
        if candidate.state == "ended" and (candidate.exit_code or candidate.reason in _CANNOT_START)
    ]
    for container in sorted(ended, key=lambda each: each.ended_at.timestamp() if each.ended_at else 0.0):
        by_itself = (
            container.reason == "OOMKilled"
            or not deleted
            or (container.ended_at and pod.deleted_at and container.ended_at < pod.deleted_at)
        )
        if by_itself:
            return _ended_container(pod, container, resources)
    return None


def _ended_container(
    pod: PodObservation, container: ContainerObservation, resources: PodResources, more: str = ""
) -> FailureReason:
    if container.reason == "OOMKilled":
        return _out_of_memory(pod, resources, more)
    if container.reason in _CANNOT_START:
        return FailureReason(
            START,
            f"the container {container.name} of the pod {pod.name} could not be started{_where(pod)}: "
            f"{container.message or container.reason}{more}",
            "see that the image holds what is started: place.kubernetes.python for jobs, the command for a service",
        )
    how = f"signal {container.signal}" if container.signal else f"exit code {container.exit_code}"
    said = f" ({container.message.strip()})" if container.message.strip() else ""
    message = f"the container {container.name} of the pod {pod.name} ended{_where(pod)} with {how}{said}{more}"
    return FailureReason(FAILED, message, "look into its log with `assay logs`")


def _out_of_memory(pod: PodObservation, resources: PodResources, more: str) -> FailureReason:
    limit = "nothing was asked for" if resources.memory is None else f"{show_bytes(resources.memory)} was asked for"
    message = f"the pod {pod.name} was ended{_where(pod)} because its memory ran out: {limit}{more}"
    remedy = "raise place.kubernetes.memory (or needs.memory; shared memory counts too), or measure something smaller"
    return FailureReason(OOM, message, remedy)


def _deleted(pod: PodObservation) -> FailureReason:
    return FailureReason(
        DELETED, f"the pod {pod.name} was deleted{_where(pod)} before it had ended, by a person or by a program", _AGAIN
    )


def _image(
    pod: PodObservation, container: ContainerObservation, seen: Observation, waited_s: float
) -> FailureReason | None:
    events = [
        event.message
        for event in seen.events_of(pod.uid, "Failed", "FailedToPull", "InspectFailed")
        if "image" in event.message.lower()
    ]
    # `Back-off pulling image` says nothing; the reason was reported before, and newer versions repeat it.
    said = next((text for text in (container.message, *events) if text and not _is_back_off(text)), container.message)
    lasting = container.reason in _AT_ONCE or _LASTING_PULL.search(" ".join((container.message, *events)))
    if not lasting and waited_s < _PULL_PATIENCE_S:
        return None
    return FailureReason(
        IMAGE,
        f"the image {container.image or 'of the container ' + container.name} cannot be fetched{_where(pod)} "
        f"({container.reason}{f': {said}' if said else ''})",
        "see that its name and tag are right and that the nodes may fetch it (place.kubernetes.pull_secret); an image "
        "that only the nodes have wants place.kubernetes.pull: never",
    )


def _is_back_off(text: str) -> bool:
    return text.startswith("Back-off pulling image") and ": " not in text.partition('"')[2].partition('"')[2]


def _where(pod: PodObservation) -> str:
    return f" on {pod.node}" if pod.node else ""
