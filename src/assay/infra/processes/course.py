"""What becomes of a part by what happens to it: pure, so that every case can be tried."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import Literal

State = Literal["waiting", "starting", "healthy", "unhealthy", "restarting", "done", "failed", "stopped"]
# One that was never healthy and ended this often will not get healthy by itself.
TRIES = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
# After so long in good health an end is a new trouble, and not a part of the last one.
STEADY_S = 60.0


@dataclass(frozen=True, slots=True)
class Course:
    """How it goes with one part."""

    state: State = "waiting"
    tries: int = 0
    """Starts in a row without a long time in good health."""
    restarts: int = 0
    proven: bool = False
    """It was healthy once."""
    healthy_s: float = 0.0
    """Since when it is healthy, on a clock that only goes forwards."""
    due_s: float = 0.0
    """When it may be started again."""
    detail: str = ""


def started(course: Course) -> Course:
    again = course.restarts + (course.tries > 0 or course.proven)
    return replace(course, state="starting", tries=course.tries + 1, restarts=again, detail="")


def answered(course: Course, answer: str | None, now_s: float) -> Course:
    """It was asked whether it works: None for yes, else what it said."""
    if answer is None:
        since = course.healthy_s if course.state == "healthy" else now_s
        return replace(course, state="healthy", proven=True, healthy_s=since, detail="")
    return replace(course, state="unhealthy" if course.proven else "starting", detail=answer)


def ended(course: Course, code: int, now_s: float, *, once: bool = False, why: str = "") -> Course:
    how = why or in_words(code)
    if once and code == 0:
        return replace(course, state="done", proven=True, detail="")
    steady = course.state == "healthy" and now_s - course.healthy_s >= STEADY_S
    tries = 1 if steady else course.tries
    if not course.proven and tries >= TRIES:
        return replace(course, state="failed", detail=f"{how}, {tries} times in a row")
    return replace(course, state="restarting", tries=tries, due_s=now_s + back_off_s(tries), detail=how)


def back_off_s(tries: int) -> float:
    """How long to wait before the next start."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** max(0, min(tries, 20) - 1))


def in_words(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
