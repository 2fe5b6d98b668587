"""What truly changed in each series of a history, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from assay.sim.history.nights import moved, series_name
from assay.sim.history.settings import Cause, Event, History


@dataclass(frozen=True, slots=True)
class Truth:
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


def truth(history: History) -> tuple[Truth, ...]:
    """Every change that a series of the history really has, by series and in order of time."""
    found = [
        one
        for bench in history.benchmarks
        for job in range(len(bench.jobs))
        for metric in bench.jobs[job]
        for event in history.events
        for one in _of(event, series_name(bench.name, job, metric), moved(event, bench, job, metric))
    ]
    inside = (one for one in found if one.night <= history.nights)
    return tuple(sorted(inside, key=lambda one: (one.series, one.night)))


def _of(event: Event, series: str, size: float) -> Iterator[Truth]:
    if not size or event.cause is None:
        return
    kind: Literal["step", "drift"] = "drift" if event.what == "drift" else "step"
    last = event.until if event.what == "drift" and event.until else event.night
    yield Truth(series, event.night, last, kind, size, event.cause, event.note)
    if event.what == "span" and event.until:
        over = event.until + 1
        yield Truth(series, over, over, "step", 1 / (1 + size) - 1, event.cause, f"over: {event.note}")
