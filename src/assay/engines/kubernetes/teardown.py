"""The end of a campaign on Kubernetes: everything that carries its label is removed, and seen to be gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from assay.engines.kubernetes.client.api import FORBIDDEN, SILENT, Api, Document, Kind, metadata, name_of, uid_of
from assay.engines.kubernetes.failures import lost_node
from assay.engines.kubernetes.objects.names import of_campaign, secrets_name, value
from assay.engines.kubernetes.observation import moment, seen
from assay.errors import MeasureError

# Makers before what they make, so that nothing is made again.
KINDS: tuple[Kind, ...] = ("Job", "Deployment", "Service", "ConfigMap", "Pod")
# How long pods may take to end once they were asked to.
LEAVING_S = 90.0
# A pod that its node does not end this long after it had to is forced out: the node is lost.
_OVERDUE_S = 10.0
_LOOK_S, _TRIES = 0.5, 5
Sleep = Callable[[float], None]


def remove_job(api: Api, own: dict[str, str]) -> None:
    """Remove the Jobs of one job, with their pods.

    Raises:
        MeasureError: if Kubernetes does not answer.
    """
    for name, uid in own.items():
        api.delete("Job", name, uid=uid)


def remove_shared(api: Api, campaign: str, group: str) -> None:
    """Remove what the jobs of a group shared: its services, and the name under which its pods met.

    Raises:
        MeasureError: if Kubernetes does not answer.
    """
    for kind in ("Deployment", "Service"):
        for one in api.list(kind, of_campaign(campaign, group=value(group))).items:
            api.delete(kind, name_of(one), uid=uid_of(one))


def take_out(api: Api, campaign: str, *, within_s: float = LEAVING_S, sleep: Sleep = time.sleep) -> tuple[str, ...]:
    """Remove everything of a campaign and wait until its pods are gone; return what would not go.

    Raises:
        MeasureError: if Kubernetes does not answer.
    """
    until_s = time.monotonic() + within_s
    _remove_secret(api, campaign)
    while True:
        left: list[str] = []
        for kind in KINDS:
            there = _listed(api, kind, campaign, sleep)
            left += [f"{kind} {name_of(one)}" for one in there]
            _remove(api, kind, there)
        if not left or time.monotonic() >= until_s:
            return tuple(left)
        sleep(_LOOK_S)


def _remove_secret(api: Api, campaign: str) -> None:
    """Remove the Secret of a campaign by its name: nobody needs the right to look at those of others."""
    try:
        api.delete("Secret", secrets_name(campaign))
    except MeasureError as problem:
        if problem.problem.code != FORBIDDEN:  # who may not remove any has made none
            raise


def _remove(api: Api, kind: Kind, there: Iterable[Document]) -> None:
    for one in there:
        over = moment(metadata(one).get("deletionTimestamp"))
        if over is None:
            api.delete(kind, name_of(one), uid=uid_of(one))
        elif kind == "Pod" and _nobody_ends(one, over):
            api.delete(kind, name_of(one), uid=uid_of(one), grace_s=0)


def _nobody_ends(pod: Document, over: datetime) -> bool:
    """Whether a pod that should end has no node any more that would end it."""
    if lost_node(seen("", None, [pod], [])) is not None:
        return True
    return datetime.now(UTC) - over > timedelta(seconds=_OVERDUE_S)


def _listed(api: Api, kind: Kind, campaign: str, sleep: Sleep) -> tuple[Document, ...]:
    """Ask a few times: a server that starts anew answers a moment later. What one may not see is not there for one."""
    for attempt in range(_TRIES):
        try:
            return api.list(kind, of_campaign(campaign)).items
        except MeasureError as problem:
            if problem.problem.code == FORBIDDEN:
                return ()
            if problem.problem.code != SILENT or attempt + 1 == _TRIES:
                raise
            sleep(_LOOK_S * 2**attempt)
    raise AssertionError("the last try returns or raises")


def tear_down(api: Api, campaign: str) -> str:
    """Remove whatever is left of a campaign; return what will not go in words, empty where nothing is left."""
    try:
        stubborn = take_out(api, campaign)
    except MeasureError as problem:
        return (
            f"objects of campaign {campaign} may be left: {problem.problem.message}; "
            f"`assay campaigns cancel {campaign}` removes them"
        )
    return f"still there: {', '.join(stubborn[:10])}; Kubernetes was asked to remove them" if stubborn else ""
