"""The results of a simulated history, night by night, and what truly changed in each of its series."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal, TypeVar

from pydantic import JsonValue

from assay.sim.history.settings import Bench, Cause, History, HistoryEvent, NoiseModel, SimulatedHost

# What the control workload takes on a machine at rest.
INTEGER_MS = 128.9
MEMORY_MS = 177.7
_CONTROL_SPREAD = 0.008
AnyHost = TypeVar("AnyHost", bound=SimulatedHost)


@dataclass(slots=True)
class SimulatedClock:
    """A clock that stands at a moment of a history until it is moved."""

    at: datetime

    def monotonic_s(self) -> float:
        """Seconds, as the calendar counts them."""
        return self.at.timestamp()

    def utc(self) -> datetime:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class NightEnvironment:
    """What was around a result: what may explain a change."""

    host: str
    machine: SimulatedHost
    """With the driver, the kernel and the packages of that night."""
    commit: str
    model: str
    """Digest of the model file."""
    integer_ms: float
    """A round of the control workload."""
    memory_ms: float
    throttled: bool


@dataclass(frozen=True, slots=True)
class NightResult:
    """One job of one night."""

    night: int
    at: datetime
    benchmark: str
    job: int
    """Its position in the matrix."""
    file: Mapping[str, JsonValue]
    """Keys of the benchmark file that differ from the first night: dotted path → value."""
    around: NightEnvironment
    values: Mapping[str, tuple[float, ...]]
    """Metric → the number of each run; empty where the job failed."""
    failure: str = ""
    """Why it failed."""


def series_name(benchmark: str, job: int, metric: str) -> str:
    return f"{benchmark} #{job} {metric}"


def first_night(history: History, today: datetime | None = None) -> datetime:
    """The moment of the first night; from the last one where the settings do not say when it is."""
    if history.start is not None:
        return history.start
    if today is None:
        raise ValueError("neither the first night nor the last one is known")
    return today - timedelta(days=history.nights - 1)


def nights(history: History, today: datetime | None = None) -> Iterator[tuple[NightResult, ...]]:
    """Draw each night's results, the first one first; the same settings give the same results."""
    first = first_night(history, today)
    code = commits(history)
    drawn = [[_Job(history, bench, place) for place in range(len(bench.jobs))] for bench in history.benchmarks]
    controls = {name: Random(f"{history.seed}/control/{name}") for name in history.hosts}  # noqa: S311
    for night in range(1, history.nights + 1):
        at = (first + timedelta(days=night - 1)).astimezone(UTC)
        results: list[NightResult] = []
        rounds = {name: _control_ms(controls[name]) for name in sorted(history.hosts)}
        for bench, jobs in zip(history.benchmarks, drawn, strict=True):
            values = [job.next(night) for job in jobs]  # also on nights without a measurement: noise has a memory
            host = _host(history, bench, night)
            if any(event.what == "outage" and event.host == host and event.lasts(night) for event in history.events):
                continue
            around = _around(history, bench, host, rounds[host], code[night - 1], night)
            file = {
                key: value
                for event in _since(history, night)
                if bench.name in event.moves
                for key, value in event.file.items()
            }
            for place, measured in enumerate(values):
                why = _failure(history, bench, place, night)
                when = at + timedelta(minutes=7 * place)
                results.append(NightResult(night, when, bench.name, place, file, around, {} if why else measured, why))
        yield tuple(results)


def factor(history: History, bench: Bench, job: int, metric: str, night: float, host: str | None = None) -> float:
    """How many times its level a metric has by what has happened up to a night, anywhere or to one machine."""
    return math.prod(
        1 + event.share(night) * event.moved(bench, job, metric)
        for event in history.events
        if host is None or event.host in (None, host)
    )


class _Job:
    """The numbers of one job, night after night."""

    def __init__(self, history: History, bench: Bench, place: int) -> None:
        self._history, self._bench, self._place = history, bench, place
        self._metrics = bench.jobs[place]
        # A stream of its own for each metric: another metric or a later night changes nothing.
        self._draws = {
            name: Random(f"{history.seed}/{bench.name}/{place}/{name}")  # noqa: S311
            for name in self._metrics
        }
        self._state = dict.fromkeys(self._metrics, 0.0)

    def next(self, night: int) -> dict[str, tuple[float, ...]]:
        logs = {name: self._log(name, night) for name in self._metrics}
        out: dict[str, tuple[float, ...]] = {}
        for name, metric in self._metrics.items():
            # Times and rates of one job share their noise.
            log = logs[name] - (logs[metric.against] if metric.against else 0.0)
            level = metric.level * factor(self._history, self._bench, self._place, name, night) * math.exp(log)
            source = self._draws[name]
            out[name] = tuple(level * math.exp(metric.within * source.gauss(0, 1)) for _ in range(self._history.runs))
        return out

    def _log(self, name: str, night: int) -> float:
        metric = self._metrics[name]
        fresh = math.sqrt(1 - metric.memory**2)
        self._state[name] = metric.memory * self._state[name] + fresh * _unit(metric, self._draws[name])
        louder = math.prod(
            event.noise
            for event in self._history.events
            if event.what == "noise" and event.lasts(night) and name in event.of.get(self._bench.name, ())
        )
        return metric.spread * louder * self._state[name]


def _unit(noise: NoiseModel, source: Random) -> float:
    """A deviation with variance 1."""
    normal = source.gauss(0, 1)
    if noise.tails == "normal":
        return normal
    return normal / math.sqrt(sum(source.gauss(0, 1) ** 2 for _ in range(3)))  # t3 over its deviation, the root of 3


def _since(history: History, night: float) -> list[HistoryEvent]:
    """What has happened up to a night, in order of time."""
    return sorted((event for event in history.events if event.night <= night), key=lambda event: event.night)


def _host(history: History, bench: Bench, night: int) -> str:
    host = bench.host
    for event in _since(history, night):
        if event.to is not None and event.host == host:
            host = event.to
    return host


def machine_at(history: History, name: str, machine: AnyHost, night: float) -> tuple[AnyHost, float, bool]:
    """A machine as it is in a night: its software, by how much its control workload is slower, whether it throttles."""
    slower, throttled = 1.0, False
    for event in _since(history, night):
        if event.host != name and event.to != name:
            continue
        new: dict[str, object] = {"packages": {**machine.packages, **event.packages}}
        if event.to is None:
            new |= {key: value for key in ("driver", "kernel") if (value := getattr(event, key)) is not None}
        machine = machine.model_copy(update=new)
        if event.control is not None and (event.what != "span" or event.lasts(night)) and event.slowed == name:
            slower *= 1 + event.control
        throttled = throttled or (event.throttled and event.lasts(night))
    return machine, slower, throttled


def _control_ms(source: Random) -> tuple[float, float]:
    integer, memory = (ms * math.exp(_CONTROL_SPREAD * source.gauss(0, 1)) for ms in (INTEGER_MS, MEMORY_MS))
    return integer, memory


def _around(
    history: History, bench: Bench, host: str, rounds: tuple[float, float], commit: str, night: int
) -> NightEnvironment:
    models = sum(event.model == bench.name for event in _since(history, night))
    model = hashlib.sha256(f"{history.seed}/{bench.name}/{models}".encode()).hexdigest()
    machine, slower, throttled = machine_at(history, host, history.hosts[host], night)
    integer_ms, memory_ms = (ms * slower for ms in rounds)
    return NightEnvironment(host, machine, commit, model, integer_ms, memory_ms, throttled)


def commits(history: History) -> list[str]:
    source = Random(f"{history.seed}/commits")  # noqa: S311
    events = {}
    for event in history.events:
        for night in {event.night, *([event.until + 1] if event.what == "span" and event.until else [])}:
            events[night] = event.commit if event.commit is not None else event.cause == "code"
    hashes: list[str] = []
    number = 0
    for night in range(1, history.nights + 1):
        by_chance = source.random() < history.commits
        number += events.get(night, by_chance)
        hashes.append(hashlib.sha1(f"{history.seed}/{number}".encode(), usedforsecurity=False).hexdigest())
    return hashes


def _failure(history: History, bench: Bench, job: int, night: int) -> str:
    for event in history.events:
        concerned = event.what == "failed" and bench.name in event.of and (event.jobs is None or job in event.jobs)
        if concerned and event.night <= night <= (event.until or event.night):
            return event.note or "the process ended"
    return ""


@dataclass(frozen=True, slots=True)
class TrueChange:
    """One change of one series."""

    series: str
    night: int
    """The first night that has moved."""
    last: int
    """The last night of a drift; of a step the same as `night`."""
    kind: Literal["step", "drift"]
    size: float
    """As a share of the level before."""
    cause: Cause
    note: str = ""


def truth(history: History) -> tuple[TrueChange, ...]:
    """Every change that a series of the history really has, by series and in order of time."""
    changes = [
        change
        for bench in history.benchmarks
        for job in range(len(bench.jobs))
        for metric in bench.jobs[job]
        for event in history.events
        for change in _of(event, series_name(bench.name, job, metric), event.moved(bench, job, metric))
    ]
    inside = (change for change in changes if change.night <= history.nights)
    return tuple(sorted(inside, key=lambda change: (change.series, change.night)))


def _of(event: HistoryEvent, series: str, size: float) -> Iterator[TrueChange]:
    if not size or event.cause is None:
        return
    kind: Literal["step", "drift"] = "drift" if event.what == "drift" else "step"
    last = event.until if event.what == "drift" and event.until else event.night
    yield TrueChange(series, event.night, last, kind, size, event.cause, event.note)
    if event.what == "span" and event.until:
        over = event.until + 1
        yield TrueChange(series, over, over, "step", 1 / (1 + size) - 1, event.cause, f"over: {event.note}")
