"""The end of a campaign on a cluster: services asked to end, everything that is left taken out of Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from assay.engines.slurm.folder import SharedFolder, SlurmCampaign
from assay.engines.slurm.node.end import GRACE_S, ask_to_end
from assay.engines.slurm.scheduler import BatchState, Scheduler
from assay.engines.slurm.states import WAITING, is_final
from assay.engines.slurm.submit import all_of
from assay.errors import AssayError, MeasureError
from assay.spec.clusters import MONITOR

# How long batch jobs may take to leave the queue once they were cancelled: Slurm kills what does not end by itself.
LEAVING_S = 90.0
_LOOK_S = 0.5
_TRIES = 5
T = TypeVar("T")


def ask_all_to_end(folder: SharedFolder, document: SlurmCampaign) -> None:
    """Ask the services of every group and the monitor to end."""
    for group in document.groups:
        if group.services:
            ask_to_end(folder, group.name)
    if document.monitored:
        ask_to_end(folder, MONITOR)


def left(folder: SharedFolder, document: SlurmCampaign, scheduler: Scheduler) -> list[BatchState]:
    """The batch jobs of a campaign that have not ended."""
    return [one for one in all_of(folder, document.campaign, scheduler) if not is_final(one.state)]


def take_out(
    folder: SharedFolder,
    document: SlurmCampaign,
    scheduler: Scheduler,
    *,
    within_s: float = LEAVING_S,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """Cancel every batch job of a campaign and wait until none is left; return those that would not go.

    Raises:
        MeasureError: if Slurm does not answer.
    """
    until_s = time.monotonic() + within_s
    while True:
        ids = {one.id for one in _patiently(lambda: left(folder, document, scheduler), sleep)}
        if not ids or time.monotonic() >= until_s:
            return tuple(sorted(ids))
        scheduler.cancel(sorted(ids))
        # Only the controller is asked meanwhile: finding jobs anew asks accounting too, which a whole site shares.
        while _alive(scheduler, ids, sleep) and time.monotonic() < until_s:
            sleep(_LOOK_S)


def _alive(scheduler: Scheduler, ids: Collection[str], sleep: Callable[[float], None]) -> bool:
    states = _patiently(lambda: scheduler.states(ids), sleep)
    return any(not is_final(one.state) for one in states.values())


def _let_end(document: SlurmCampaign, ids: Mapping[str, str], scheduler: Scheduler) -> None:
    """Give services the time to end in good order, as they were asked to."""
    held = [ids[one.name] for one in document.batches if one.role == "service" and one.name in ids]
    until_s = time.monotonic() + GRACE_S
    while held and time.monotonic() < until_s:
        states = scheduler.states(held).values()
        if not any(one.state not in WAITING and not is_final(one.state) for one in states):
            return
        time.sleep(_LOOK_S)


def _patiently(ask: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Ask Slurm a few times: a controller that is busy or starts anew answers a moment later."""
    for _ in range(_TRIES - 1):
        try:
            return ask()
        except MeasureError:
            sleep(_LOOK_S)
    return ask()


def tear_down(folder: SharedFolder, document: SlurmCampaign, ids: Mapping[str, str], scheduler: Scheduler) -> str:
    """End whatever is left of a campaign; return what will not end in words, empty where nothing is left.

    Args:
        ids: name of each sbatch → its number, as far as they are known.
    """
    try:
        ask_all_to_end(folder, document)
        _let_end(document, ids, scheduler)
        stubborn = take_out(folder, document, scheduler)
    except AssayError as problem:
        return (
            f"batch jobs of campaign {document.campaign} may be left: {problem.problem.message}; "
            f"`assay campaigns cancel {document.campaign}` ends them"
        )
    return f"still in the queue: {', '.join(stubborn)}; Slurm was asked to end them" if stubborn else ""
