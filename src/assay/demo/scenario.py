"""The scenario of the demo year: when its benchmarks run, and how machines and code are at any time of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from assay.demo.machines import DemoMachine
from assay.plan.schedule import due_between
from assay.sim.history.generator import commits, factor, machine_at
from assay.sim.history.settings import Bench, History, NoiseModel, read_scenario
from assay.spec.schedule import Schedule

LABELS = {"demo": "simulated"}
Kind = Literal["model", "llm", "search", "conversation", "vector", "program", "device"]
Ends = Literal["well", "one failed", "all failed", "cancelled", "lost once", "busy", "running", "waiting"]
# How often a campaign ends otherwise than well.
_OTHERWISE: Mapping[Ends, float] = {"one failed": 0.05, "all failed": 0.015, "cancelled": 0.02, "lost once": 0.03,
                                    "busy": 0.05}  # fmt: skip
_NEWEST = 2
# Days between two campaigns, at least → when they are due.
_DUE = ((30.0, "{} {} 1 * *"), (15.0, "{} {} 1,15 * *"), (7.0, "{} {} * * 1"), (3.5, "{} {} * * 1,4"),
        (2.3, "{} {} * * 1,3,5"), (1.0, "{} {} * * *"), (0.0, "{} * * * *"))  # fmt: skip


class Study(Bench):
    """One benchmark, where it runs, and how often.

    Events move the time and the memory that its jobs take; the numbers of a job are drawn by its kind.
    """

    kind: Kind
    file: dict[str, Any]
    host: str
    """The machine that measures jobs which name none themselves."""
    jobs: tuple[dict[str, NoiseModel], ...] = ({"time": NoiseModel(level=1.0), "memory": NoiseModel(level=1.0)},)
    weight: float
    """Its share of all campaigns, beside the others."""
    hour: int
    """At which it begins."""
    scheduled: bool = True
    by: str = "demo-ci"

    @property
    def names_machines(self) -> bool:
        return "needs.agent" in self.file.get("matrix", {})

    @property
    def pinned(self) -> dict[str, Any]:
        """The file as it is submitted: jobs that name no machine go to the one of the study."""
        return self.file if self.names_machines else {**self.file, "needs": {"agent": self.host}}

    @property
    def machines(self) -> set[str]:
        """All that its jobs run on."""
        return set(self.file["matrix"]["needs.agent"]) if self.names_machines else {self.host}

    def by_hand(self, author: str) -> Study:
        return self.model_copy(update={"scheduled": False, "by": author})


class Scenario(History):
    """A history of which campaigns are played as a server handles them; its nights are hundredths of the whole time."""

    hosts: Mapping[str, DemoMachine]
    benchmarks: tuple[Study, ...]


SCENARIO = read_scenario(Path(__file__).with_name("demo.yaml"), Scenario)
STUDIES = SCENARIO.benchmarks


def fleet(count: int) -> dict[str, DemoMachine]:
    """Machines by name; beyond those of the scenario, more servers."""
    there = SCENARIO.hosts
    names = [*there, *(f"demo-server-{number:02}" for number in range(4, 4 + max(0, count - len(there))))]
    server = next(iter(there.values()))
    return {name: there.get(name, server).model_copy(update={"name": name}) for name in names[:count]}


@dataclass(frozen=True, slots=True)
class Conditions:
    """How things stand for one benchmark on one machine at one time."""

    slower: float
    """Times are this many times as long."""
    heavier: float
    hot: bool
    commit: str
    machine: DemoMachine
    """With the software of the day."""


def moment(study: Study, machine: DemoMachine, now: float, seed: int) -> Conditions:
    """How things stand at a moment, as a share of the whole time."""
    night = now * SCENARIO.nights
    slower, heavier = (factor(SCENARIO, study, 0, name, night, machine.name) for name in ("time", "memory"))
    machine, _, hot = machine_at(SCENARIO, machine.name, machine, night)
    return Conditions(slower, heavier, hot, _commits(seed)[max(int(night), 1) - 1], machine)


@cache
def _commits(seed: int) -> Sequence[str]:
    return commits(SCENARIO.model_copy(update={"seed": seed}))


def chance(*parts: object) -> np.random.Generator:
    """A source of chance of its own for each thing that is drawn: another thing changes nothing."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@dataclass(frozen=True, slots=True)
class CampaignEntry:
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
    """How often a study runs by itself, so that it runs about `count` times in `days`."""
    every = days / max(count, 1)
    form = next(form for longest, form in _DUE if every >= longest)
    return form.format(10 * (study.hour % 6), study.hour)


def shares(campaigns: int) -> dict[str, int]:
    """Study → its share of the campaigns, at least one each."""
    whole = sum(study.weight for study in STUDIES)
    counts = {study.name: max(1, round(campaigns * study.weight / whole)) for study in STUDIES}
    counts[STUDIES[0].name] = max(1, counts[STUDIES[0].name] + campaigns - sum(counts.values()))
    return counts


def entries(campaigns: int, days: int, now: datetime, seed: int) -> list[CampaignEntry]:
    """All campaigns, the oldest first; all begin before now."""
    entries: list[CampaignEntry] = []
    first = now - timedelta(days=days)
    for study in STUDIES:
        count = shares(campaigns)[study.name]
        moments = _moments(study, count, days, first, now, seed)
        for number, at in enumerate(moments):
            age = (at - first) / (now - first)
            ends, newest = _ending(study, number, len(moments), seed), number >= len(moments) - _NEWEST
            entries.append(CampaignEntry(study, at, ends, age, number, newest))
    entries.sort(key=lambda entry: entry.at)
    return entries


def _moments(study: Study, count: int, days: int, first: datetime, now: datetime, seed: int) -> Sequence[datetime]:
    if study.scheduled:
        return due_between(Schedule(cron=cron_of(study, count, days)), first, now, count)
    draw = chance(seed, study.name, "moments")
    step = (now - first) / count
    moments = [first + step * (place + float(draw.uniform(0.1, 0.9))) for place in range(count)]
    at_hour = [at.replace(hour=study.hour, minute=int(draw.integers(0, 60)), second=0, microsecond=0) for at in moments]
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
