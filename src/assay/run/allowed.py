"""What a job may do on this machine: an agent says so to its measuring process, a person's own machine allows all."""

from __future__ import annotations

import os

from assay.errors import MeasureError

VARIABLE = "ASSAY_JOB_ALLOW"


def programs_allowed() -> bool:
    """Whether a job may run programs here: its commands, and models that can run code."""
    text = os.environ.get(VARIABLE)
    return text is None or "command" in text.split(",")


def refuse_program(what: str, at: str = "target.model") -> None:
    """Refuse something that can run code, on an agent that allows none.

    Args:
        what: what is refused and why, as a sentence without a full stop.

    Raises:
        MeasureError: if this machine's agent was not started with `--allow command`.
    """
    if programs_allowed():
        return
    raise MeasureError(
        f"{what}; this agent allows no commands",
        code="not-allowed",
        at=at,
        try_="start the agent with --allow command, or choose another one",
    )
