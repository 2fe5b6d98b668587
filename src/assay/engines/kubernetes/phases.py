"""What the states of Kubernetes mean: whether a job ended, why it failed and what to change, what it waits on. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from assay.engines.base import FailureReason
from assay.engines.kubernetes import failures
from assay.engines.kubernetes.objects.pods import Unplaced, unplaced
from assay.engines.kubernetes.observation import ContainerObservation, EventObservation, Observation, PodObservation
from assay.units import show_seconds

Phase = Literal["waiting", "running", "ended"]
# How long a pod may wait for no node to be found, where nobody says otherwise.
PATIENCE_S = 600.0
# Why the Job controller cannot make a pod, and yet may later.
_QUOTA = "exceeded quota"


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
        message = f"the Job {seen.name} is gone, and with it whatever its pod had measured: somebody deleted it"
        return FailureReason(failures.DELETED, message, "run the campaign again: what was measured before is kept")
    if seen.job.failure:
        return _given_up(seen)
    if seen.job.complete:
        return None
    if not seen.pods:
        # Why the Job controller makes no pod: a quota may get free, anything else stays as it is
        assert seen.job is not None  # noqa: S101  (for the type alone)
        event = failures.newest(seen, seen.job.uid, "FailedCreate")
        if event is None or seen.job.suspended:
            return None
        if _QUOTA in event.message and not _too_long(seen.job.created_at, now, free_since, patience_s):
            return None
        return _refused_pod(seen, event)
    for pod in seen.pods:
        # What its own siblings hold never gets free for it: they wait for it.
        held = any(sibling.node and not sibling.is_over for sibling in seen.pods if sibling is not pod)
        reason = failures.of_waiting(pod, seen, now) or _never_placed(pod, now, free_since, patience_s, held=held)
        if reason is not None:
            return reason
    return None


def service_failure_of(
    name: str, seen: Observation, now: datetime, *, free_since: datetime | None = None, patience_s: float = PATIENCE_S
) -> FailureReason | None:
    """Why a service cannot be used (any more); None while it may get ready, and while it runs as it was started.

    A service that ended and was started again by Kubernetes is another one than was measured before: it failed.

    Args:
        free_since: since when no other pod of the campaign could be in its way; None while one is.
    """
    for pod in seen.pods:
        reason = failures.of_late(pod, seen) or failures.of_ended(pod, seen) or failures.of_restarted(pod, seen)
        reason = reason or failures.of_waiting(pod, seen, now) or _never_placed(pod, now, free_since, patience_s)
        if reason is not None:
            return FailureReason(reason.code, f"the service {name}: {reason.message}", reason.try_)
    return None


def waiting_words(seen: Observation, now: datetime | None = None) -> str:
    """Why an attempt waits, in words.

    Args:
        now: the present, to say for how long; nothing is said of it when left out.
    """
    if seen.job is not None and seen.job.suspended:
        queue = f" {seen.job.queue}" if seen.job.queue else ""
        return f"waiting: the queue{queue} has not let it in yet"
    if not seen.pods:
        created = failures.newest(seen, seen.job.uid if seen.job is not None else "", "FailedCreate")
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
    """What Kubernetes tells about an attempt, for its result; what it does not tell is left out."""
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
        "limit_cpus": seen.asked.cpus if seen.asked.limited else None,
        "limit_memory_bytes": seen.asked.memory if seen.asked.limited else None,
        "gpus": seen.asked.gpus,
    }
    return {name: value for name, value in facts.items() if value is not None}


def digest_of(container: ContainerObservation) -> str:
    """The digest of the image that the node really ran; empty where it does not tell one."""
    return container.image_id.rpartition("@")[2] if "@sha256:" in container.image_id else ""


def _runs(pod: PodObservation) -> bool:
    return not pod.is_over and any(container.state == "running" for container in pod.containers)


def _first(seen: Observation) -> FailureReason | None:
    """What went wrong first: where one pod of several fails, Kubernetes ends the others, which then failed too."""
    ended = sorted(seen.pods, key=_ended_at)
    reasons = [(pod, reason) for pod in ended if (reason := failures.of_ended(pod, seen)) is not None]
    own = [reason for pod, reason in reasons if reason.code != failures.DELETED]
    return own[0] if own else reasons[0][1] if reasons else None


def _ended_at(pod: PodObservation) -> float:
    return min(
        (container.ended_at.timestamp() for container in pod.containers if container.ended_at is not None),
        default=float("inf"),
    )


def _given_up(seen: Observation) -> FailureReason:
    """A Job that Kubernetes gave up, and whose pods do not tell why: they are gone."""
    assert seen.job is not None  # noqa: S101  (for the type alone)
    lost = failures.lost_node(seen)
    if lost is not None:
        return lost
    said = f": {seen.job.failure_message}" if seen.job.failure_message else ""
    if seen.job.failure == "DeadlineExceeded":
        return failures.deadline(seen.name, "", seen.asked, said)
    if not seen.pods:
        message = f"the pod of the Job {seen.name} was deleted before it had ended ({seen.job.failure}{said})"
        return FailureReason(failures.DELETED, message, "run the campaign again: what was measured before is kept")
    message = f"Kubernetes gave up the Job {seen.name} ({seen.job.failure}{said})"
    return FailureReason(failures.FAILED, message, "look into its log with `assay logs`")


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
    return FailureReason(failures.NOT_CREATED, f"Kubernetes makes no pod for the Job {seen.name}: {message}", hint)


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


def _unschedulable(pod: PodObservation, found: Unplaced, patience_s: float) -> FailureReason:
    message = f"the scheduler found no node for the pod {pod.name} within {show_seconds(patience_s)}: {found.message}"
    remedy = f"{found.try_}; or raise place.kubernetes.unschedulable where the nodes are only busy"
    return FailureReason(failures.UNSCHEDULABLE, message, remedy)


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


_OUTLOOK = {
    "busy": "other measuring pods come first",
    "unsure": "no node has room",
    "lasting": "no node will take it as it is asked for",
}
