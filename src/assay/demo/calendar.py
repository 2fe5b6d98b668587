"""Which campaigns there are, and when: most by their schedules, some by hand, a few that end otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from assay.demo.scene import chance
from assay.demo.studies import STUDIES, Study
from assay.plan.cron import due_between
from assay.spec.watching import Schedule

Ends = Literal["well", "one failed", "all failed", "cancelled", "lost once", "busy", "running", "waiting"]
# How often a campaign ends otherwise than well.
_OTHERWISE: Mapping[Ends, float] = {"one failed": 0.05, "all failed": 0.015, "cancelled": 0.02, "lost once": 0.03,
                                    "busy": 0.05}  # fmt: skip
_NEWEST = 2
# Days between two campaigns, at least → when they are due.
_DUE = ((30.0, "{} {} 1 * *"), (15.0, "{} {} 1,15 * *"), (7.0, "{} {} * * 1"), (3.5, "{} {} * * 1,4"),
        (2.3, "{} {} * * 1,3,5"), (1.0, "{} {} * * *"), (0.0, "{} * * * *"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One campaign that is to be played."""

    study: Study
    at: datetime
    ends: Ends
    age: float
    """Its place in the whole time: 0 is the first day, 1 the last."""
    number: int
    """Counts the campaigns of its study, from 0."""
    newest: bool = False
    """Whether it is one of the last of its study."""


def cron_of(study: Study, count: int, days: int) -> str:
    """How often a study runs by itself, so that it runs about so many times in so many days."""
    every = days / max(count, 1)
    form = next(form for longest, form in _DUE if every >= longest)
    return form.format(10 * (study.hour % 6), study.hour)


def shares(campaigns: int) -> dict[str, int]:
    """Study → how many of so many campaigns it has; each has one at least."""
    whole = sum(study.weight for study in STUDIES)
    found = {study.name: max(1, round(campaigns * study.weight / whole)) for study in STUDIES}
    found[STUDIES[0].name] = max(1, found[STUDIES[0].name] + campaigns - sum(found.values()))
    return found


def entries(campaigns: int, days: int, now: datetime, seed: int) -> list[Entry]:
    """All campaigns, the oldest first; all begin before now."""
    found: list[Entry] = []
    first = now - timedelta(days=days)
    for study in STUDIES:
        count = shares(campaigns)[study.name]
        moments = _moments(study, count, days, first, now, seed)
        for number, at in enumerate(moments):
            age = (at - first) / (now - first)
            ends, newest = _ending(study, number, len(moments), seed), number >= len(moments) - _NEWEST
            found.append(Entry(study, at, ends, age, number, newest))
    found.sort(key=lambda entry: entry.at)
    return found


def _moments(study: Study, count: int, days: int, first: datetime, now: datetime, seed: int) -> Sequence[datetime]:
    if study.scheduled:
        return due_between(Schedule(cron=cron_of(study, count, days)), first, now, count)
    draw = chance(seed, study.name, "moments")
    step = (now - first) / count
    found = [first + step * (place + float(draw.uniform(0.1, 0.9))) for place in range(count)]
    at_hour = [at.replace(hour=study.hour, minute=int(draw.integers(0, 60)), second=0, microsecond=0) for at in found]
    return [at if at < now else at - timedelta(days=1) for at in at_hour]


def _ending(study: Study, number: int, count: int, seed: int) -> Ends:
    if number == count - 1:
        return "well"
    draw = float(chance(seed, study.name, "ending", number).random())
    for ends, share in _OTHERWISE.items():
        if draw < share:
            return ends
        draw -= share
    return "well"
