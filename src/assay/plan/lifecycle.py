"""The life of a job: one table of (state, event) → state; and how a campaign ends, by how its jobs did.

Nothing else may decide what follows what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from assay.errors import AssayError

State = Literal["pending", "running", "done", "failed", "cancelled", "poisoned"]
Event = Literal["start", "finish", "fail", "cancel", "interrupt", "release", "expire", "poison", "retry"]

TABLE: dict[tuple[State, Event], State] = {
    ("pending", "start"): "running",
    ("pending", "fail"): "failed",  # nobody can run it
    ("pending", "cancel"): "cancelled",
    ("running", "finish"): "done",
    ("running", "fail"): "failed",
    ("running", "cancel"): "cancelled",
    ("running", "interrupt"): "pending",  # the process that ran it is gone; its finished runs are kept
    ("running", "release"): "pending",  # its agent gave it back unfinished, through no fault of the job
    ("running", "expire"): "pending",  # its agent fell silent; the lease is void and the job is offered again
    ("running", "poison"): "poisoned",  # too many agents fell silent over it
    ("failed", "retry"): "pending",
    ("poisoned", "retry"): "pending",
    ("cancelled", "retry"): "pending",
}

FINAL: frozenset[State] = frozenset({"done", "failed", "cancelled", "poisoned"})

CampaignState = Literal["done", "partial", "failed", "cancelled"]


def campaign_state(counts: Mapping[str, int]) -> CampaignState:
    """How a campaign ended, by how its jobs did; the same on every engine."""
    ended = {state for state, jobs in counts.items() if jobs}
    if ended == {"done"}:
        return "done"
    if ended == {"cancelled"}:
        return "cancelled"
    return "partial" if "done" in ended else "failed"


def after(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        AssayError: for a step that the table does not have.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        raise AssayError(f"a job that is {state} cannot {event}", code="lifecycle") from None
