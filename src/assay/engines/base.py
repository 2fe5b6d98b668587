"""The seam of the engines: what each of them tells the driver, and what it must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.place.fleet.client import FleetClient


@dataclass(frozen=True, slots=True)
class FailureReason:
    """Why a job gave no result, in the words of the engine that ran it."""

    code: str
    message: str
    try_: str


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a campaign is followed."""

    detach: bool = False
    """Leave once everything is submitted."""
    cancel_on_interrupt: bool = False
    """End the campaign on Ctrl-C, instead of leaving it to the cluster."""
    server: FleetClient | None = None
    """A server that progress is reported to; it ends nothing, and nothing waits for it."""
