"""What becomes of the due times of a schedule that have passed: which are run, which wait, which are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

Missed = Literal["skip", "once", "all"]

# Servers look every second; one that was away for longer than this has missed what was due.
LATE_AFTER_S = 60.0
# A server that was away for a month must not begin with a month of runs.
MOST_AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class Decided:
    """What becomes of one due time."""

    due: datetime
    word: Literal["fire", "wait", "miss"]
    because: str = ""


def decide(
    due: Sequence[datetime],
    now: datetime,
    missed: Missed,
    *,
    start: Callable[[datetime], datetime] = lambda due: due,
    more: bool = False,
) -> tuple[Decided, ...]:
    """Decide about due times that have passed, oldest first.

    Args:
        more: there are older ones, which are too many to be named.
    """
    late = [one for one in due if (now - start(one)).total_seconds() > LATE_AFTER_S]
    fired = set(due) - set(late)
    waits: set[datetime] = set()
    if missed == "once" and late and not fired:
        fired = {late[-1]}
    elif missed == "all":
        waits = set(late[-MOST_AT_ONCE:])
    left_out = _why_left_out(missed, max(fired) if fired else None)
    found = []
    for one in due:
        if one in fired:
            found.append(Decided(one, "fire", _lateness(one, now) if one in late else ""))
        elif one in waits:
            found.append(Decided(one, "wait", "no server ran; it is made up for"))
        else:
            found.append(Decided(one, "miss", left_out))
    if more and found:
        first = found[0]
        found[0] = Decided(first.due, first.word, f"{first.because}; there were earlier ones too".lstrip("; "))
    return tuple(found)


def in_words(moment: datetime) -> str:
    """A moment in UTC, to the minute."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _why_left_out(missed: Missed, instead: datetime | None) -> str:
    if missed == "skip":
        return "no server ran; missed is skip"
    if missed == "once" and instead is not None:
        return f"no server ran; the run of {in_words(instead)} stands for it"
    return f"no server ran; only the newest {MOST_AT_ONCE} are made up for"


def _lateness(due: datetime, now: datetime) -> str:
    minutes = round((now - due).total_seconds() / 60)
    return f"no server ran; begun {minutes} min late"
