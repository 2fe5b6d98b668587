"""A campaign submitted to Slurm as a whole, and removed again: a later process can continue where this one ended.

Before each sbatch a line is written, and after it another with its number. A first line without a second means that
it is unknown whether Slurm took it; then Slurm is asked for the comment that the job would carry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from assay.engines.slurm.folder import SharedFolder, SlurmCampaign
from assay.engines.slurm.node.context import CODE
from assay.engines.slurm.node.end import GRACE_S, request_end
from assay.engines.slurm.node.publication import read_published
from assay.engines.slurm.scheduler import WAITING, BatchState, Dependency, Scheduler, comment_of, is_final, named_in
from assay.errors import AssayError, MeasureError
from assay.spec.slurm import MONITOR

# An sbatch whose caller was killed may still be on its way: for this long after its line it is not submitted again.
SETTLE_S = 10.0
_ALL = "all"
_CANCEL = "cancel"
# How long batch jobs may take to leave the queue once they were cancelled: Slurm kills what does not end by itself.
LEAVING_S = 90.0
_POLL_S = 0.5
_TRIES = 5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SlurmSubmission:
    """What is known of the submissions of a campaign."""

    ids: dict[str, str]
    """Name of the sbatch → its number."""
    unsure: dict[str, float]
    """Name → when it was about to be submitted, for those whose number was not written down."""
    cancelled: bool = False
    """The end of the campaign was requested."""
    complete: bool = False


def read_submitted(folder: SharedFolder) -> SlurmSubmission:
    """What the lines of a campaign say about its submissions."""
    ids: dict[str, str] = {}
    unsure: dict[str, float] = {}
    cancelled = complete = False
    for line in folder.noted():
        name, number, at = str(line.get("name", "")), line.get("id"), line.get("at")
        if line.get("event") == _CANCEL:
            cancelled = True
        elif line.get("event") == _ALL:
            complete = True
        elif number:
            ids[name] = str(number)
            unsure.pop(name, None)
        elif name and name not in ids:
            unsure[name] = float(at) if isinstance(at, int | float) else 0.0
    return SlurmSubmission(ids, unsure, cancelled, complete)


def note_cancelled(folder: SharedFolder) -> None:
    """Record that the campaign is to end: nothing more is submitted from now on."""
    folder.note({"event": _CANCEL, "at": time.time()})


def submit_all(
    folder: SharedFolder,
    document: SlurmCampaign,
    scheduler: Scheduler,
    notify: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Submit what has not been submitted yet; return the number of every batch job."""
    submitted = read_submitted(folder)
    if submitted.complete:
        return submitted.ids
    ids = {**submitted.ids, **_found_again(folder, document, scheduler, submitted, notify, sleep)}
    _forget_abandoned(folder, document, ids, notify)
    for batch in document.batches:
        if batch.name not in ids:
            if read_submitted(folder).cancelled:
                message = f"campaign {document.campaign} was cancelled while it was submitted"
                raise MeasureError(message, code="cancelled", try_="run it again")
            folder.note({"name": batch.name, "at": time.time()})
            after = [
                Dependency(dependency.kind, tuple(ids[name] for name in dependency.names)) for dependency in batch.after
            ]
            number = scheduler.submit(
                folder.script(batch.name), after=after, comment=comment_of(document.campaign, batch.name)
            )
            folder.note({"name": batch.name, "id": number, "at": time.time()})
            ids[batch.name] = number
    folder.note({"event": _ALL, "at": time.time()})
    return ids


def _forget_abandoned(
    folder: SharedFolder, document: SlurmCampaign, ids: dict[str, str], notify: Callable[[str], None]
) -> None:
    """Let what ended because no process continued the submission be submitted again."""
    for batch in document.batches:
        named = (batch.group, batch.service or batch.name)
        may = batch.role == "monitor" or (batch.role == "service" and batch.group not in ids)
        if batch.name in ids and may and _is_abandoned(folder, *named):
            notify(f"{batch.name} did not wait for the rest of the submission: submitting it again")
            folder.failed_service(*named).unlink(missing_ok=True)
            folder.service(*named).unlink(missing_ok=True)
            del ids[batch.name]


def _is_abandoned(folder: SharedFolder, group: str, name: str) -> bool:
    if not folder.failed_service(group, name).is_file():
        return False
    try:
        read_published(folder, group, name)
    except MeasureError as failure:
        return failure.problem.code == CODE
    return False


def _found_again(
    folder: SharedFolder,
    document: SlurmCampaign,
    scheduler: Scheduler,
    known: SlurmSubmission,
    notify: Callable[[str], None],
    sleep: Callable[[float], None],
) -> dict[str, str]:
    """The numbers of jobs that Slurm took although none was written down; a job that it took twice is kept once."""
    if not known.unsure:
        return {}
    late_s = max(known.unsure.values()) + SETTLE_S - time.time()
    if late_s > 0:
        notify(f"the last submission was cut off; waiting {late_s:.0f} s until Slurm must know it")
        sleep(min(late_s, SETTLE_S))
    numbers: dict[str, str] = {}
    spare: set[str] = set()
    # Also those without any line: a shared folder may lose the last that was written.
    missing = {batch.name for batch in document.batches} - set(known.ids)
    for state in all_of(folder, document.campaign, scheduler):
        name = name_of(state, document.campaign)
        if name in missing and numbers.setdefault(name, state.id) != state.id:
            spare.add(state.id)
    if spare:
        scheduler.cancel(sorted(spare))
    for name, number in numbers.items():
        folder.note({"name": name, "id": number, "at": time.time(), "found": True})
    return numbers


def all_of(folder: SharedFolder, campaign: str, scheduler: Scheduler) -> tuple[BatchState, ...]:
    """Every batch job of a campaign that Slurm knows, whether or not its number was written down."""
    return scheduler.find(comment_of(campaign, ""), work_dir=folder.path)


def name_of(state: BatchState, campaign: str) -> str:
    """The name of a campaign's sbatch: from its comment, or from its job's name where no comment was kept."""
    return named_in(state.comment, campaign) or state.name


def request_end_of_all(folder: SharedFolder, document: SlurmCampaign) -> None:
    """Ask the services of every group and the monitor to end."""
    for group in document.groups:
        if group.services:
            request_end(folder, group.name)
    if document.monitored:
        request_end(folder, MONITOR)


def left(folder: SharedFolder, document: SlurmCampaign, scheduler: Scheduler) -> list[BatchState]:
    """The batch jobs of a campaign that have not ended."""
    return [state for state in all_of(folder, document.campaign, scheduler) if not is_final(state.state)]


def take_out(folder: SharedFolder, document: SlurmCampaign, scheduler: Scheduler) -> tuple[str, ...]:
    """Cancel every batch job of a campaign and wait until none is left; return those that would not go."""
    until_s = time.monotonic() + LEAVING_S
    while True:
        ids = {state.id for state in _patiently(lambda: left(folder, document, scheduler))}
        if not ids or time.monotonic() >= until_s:
            return tuple(sorted(ids))
        scheduler.cancel(sorted(ids))
        # Only the controller is asked meanwhile: a new search asks accounting too, which a whole site shares.
        while _alive(scheduler, ids) and time.monotonic() < until_s:
            time.sleep(_POLL_S)


def _alive(scheduler: Scheduler, ids: Collection[str]) -> bool:
    states = _patiently(lambda: scheduler.states(ids))
    return any(not is_final(state.state) for state in states.values())


def _let_end(document: SlurmCampaign, ids: Mapping[str, str], scheduler: Scheduler) -> None:
    """Give services the time to end in good order, as they were asked to."""
    held = [ids[batch.name] for batch in document.batches if batch.role == "service" and batch.name in ids]
    until_s = time.monotonic() + GRACE_S
    while held and time.monotonic() < until_s:
        states = scheduler.states(held).values()
        if not any(state.state not in WAITING and not is_final(state.state) for state in states):
            return
        time.sleep(_POLL_S)


def _patiently(act: Callable[[], T]) -> T:
    """Ask Slurm a few times: a controller that is busy or restarts answers a moment later."""
    for _ in range(_TRIES - 1):
        try:
            return act()
        except MeasureError:
            time.sleep(_POLL_S)
    return act()


def tear_down(folder: SharedFolder, document: SlurmCampaign, ids: Mapping[str, str], scheduler: Scheduler) -> str:
    """End whatever is left of a campaign; return what will not end in words, empty where nothing is left.

    Args:
        ids: name of each sbatch → its number, as far as they are known.
    """
    try:
        request_end_of_all(folder, document)
        _let_end(document, ids, scheduler)
        stubborn = take_out(folder, document, scheduler)
    except AssayError as problem:
        return (
            f"batch jobs of campaign {document.campaign} may be left: {problem.problem.message}; "
            f"`assay campaigns cancel {document.campaign}` ends them"
        )
    return f"still in the queue: {', '.join(stubborn)}; Slurm was asked to end them" if stubborn else ""
