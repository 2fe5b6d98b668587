"""When a schedule is due, and which of its passed due times are run, delayed or skipped.

Times are wall-clock times of the schedule's zone, each due at most once:

- A time skipped when clocks are put forward is due right after the gap; several skipped times are due once.
- A time shown twice when clocks are put back is due the first time.

All results are in UTC.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

from assay.spec.schedule import Schedule


def next_times(schedule: Schedule, after: datetime, count: int) -> tuple[datetime, ...]:
    """The first due times after a moment."""
    return tuple(itertools.islice(_forwards(schedule, after), count))


def due_between(schedule: Schedule, start: datetime, end: datetime, most: int | None = None) -> tuple[datetime, ...]:
    """Due times after one moment and up to another, in order."""
    moments = itertools.takewhile(lambda due: due > start, _backwards(schedule, end))
    return tuple(reversed(tuple(itertools.islice(moments, most))))


def start_of(schedule: Schedule, name: str, due: datetime) -> datetime:
    """The start of a due time: later by a share of the jitter that is the same on every server."""
    if not schedule.jitter:
        return due
    digest = hashlib.sha256(f"{due.timestamp():.0f} {name}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    return due + timedelta(seconds=share * schedule.jitter)


def _forwards(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    from cronsim import CronSim

    zone, last = schedule.zone, after
    for wall in CronSim(schedule.fields, after.astimezone(zone).replace(tzinfo=None, fold=0)):
        due = _moment(wall, zone)
        if due > last:  # neither a second time nor one of a repeated hour
            last = due
            yield due


def _backwards(schedule: Schedule, until: datetime) -> Iterator[datetime]:
    from cronsim import CronSim

    zone, last = schedule.zone, until + timedelta.resolution
    for wall in CronSim(schedule.fields, _latest_wall(until.astimezone(zone)), reverse=True):
        due = _moment(wall, zone)
        if due < last:
            last = due
            yield due


def _latest_wall(local: datetime) -> datetime:
    """The latest wall-clock time shown up to a moment: in a repeated hour, its end."""
    wall = local.replace(tzinfo=None, fold=0)
    first, now = local.replace(fold=0).utcoffset(), local.utcoffset()
    if local.fold and first is not None and now is not None:
        wall += first - now
    # With a part of a second the library begins with this very second, else with the one before.
    return wall.replace(microsecond=1)


def _moment(wall: datetime, zone: tzinfo) -> datetime:
    """The first moment at which clocks show a time; for a skipped one, the end of the gap."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == wall:
        return instant
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(int(before.timestamp()), int(instant.timestamp()), zone)


def _change(before: int, after: int, zone: tzinfo) -> datetime:
    """The moment between two others at which the offset of a zone changes."""
    old = datetime.fromtimestamp(before, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return datetime.fromtimestamp(after, UTC)


Missed = Literal["skip", "once", "all"]

# Servers look every second; one that was down for longer than this has missed what was due.
LATE_AFTER_S = 60.0
# A server that was down for a month must not start with a month of runs.
MOST_AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class ScheduleDecision:
    """What to do about one due time."""

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
) -> tuple[ScheduleDecision, ...]:
    """Decide about due times that have passed, oldest first.

    Args:
        more: whether there are older ones, too many to be listed.
    """
    late = [moment for moment in due if (now - start(moment)).total_seconds() > LATE_AFTER_S]
    fired = set(due) - set(late)
    waits: set[datetime] = set()
    if missed == "once" and late and not fired:
        fired = {late[-1]}
    elif missed == "all":
        waits = set(late[-MOST_AT_ONCE:])
    left_out = _why_left_out(missed, max(fired) if fired else None)
    decisions = []
    for moment in due:
        if moment in fired:
            minutes = round((now - moment).total_seconds() / 60)
            lateness = f"no server ran; begun {minutes} min late" if moment in late else ""
            decisions.append(ScheduleDecision(moment, "fire", lateness))
        elif moment in waits:
            decisions.append(ScheduleDecision(moment, "wait", "no server ran; it is made up for"))
        else:
            decisions.append(ScheduleDecision(moment, "miss", left_out))
    if more and decisions:
        because = f"{decisions[0].because}; there were earlier ones too".lstrip("; ")
        decisions[0] = replace(decisions[0], because=because)
    return tuple(decisions)


def in_words(moment: datetime) -> str:
    """A moment in UTC, to the minute."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _why_left_out(missed: Missed, instead: datetime | None) -> str:
    if missed == "skip":
        return "no server ran; missed is skip"
    if missed == "once" and instead is not None:
        return f"no server ran; the run of {in_words(instead)} stands for it"
    return f"no server ran; only the newest {MOST_AT_ONCE} are made up for"
