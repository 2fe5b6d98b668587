"""What a load is, from the section of the file: a closed loop of users, or an open loop of due times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from assay.run.load.arrivals import Due, Level, Process, arrivals
from assay.spec.driving import Load


@dataclass(frozen=True, slots=True)
class Closed:
    """Users that wait for an answer before they ask again; their number may change over time."""

    levels: tuple[Level, ...]
    think_s: float = 0.0

    @property
    def most(self) -> int:
        """The largest number of users."""
        return math.ceil(max(max(level.begin, level.end) for level in self.levels))


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """Requests that fall due whatever became of those before."""

    levels: tuple[Level, ...] = ()
    process: Process = "poisson"
    burstiness: float = 1.0
    times: NDArray[np.int64] | None = field(default=None)
    """Due times of a trace, in nanoseconds from its start, in place of a process."""

    @property
    def is_drawn(self) -> bool:
        """Whether chance decides when requests fall due."""
        return self.times is None and self.process != "constant"

    def part_of(self, hosts: int) -> Open:
        """The same process at the share of one of several machines."""
        return replace(
            self, levels=tuple(Level(one.duration_s, one.begin / hosts, one.end / hosts) for one in self.levels)
        )

    def due(self, seed: int) -> Iterator[Due]:
        """When requests fall due, block by block."""
        if self.times is not None:
            yield Due(self.times, np.zeros(len(self.times), dtype=np.int16))
        else:
            yield from arrivals(self.levels, self.process, seed, self.burstiness)


Shape = Closed | Open


def shape_of(load: Load, *, rate: float | None = None, trace_s: Sequence[float] | None = None) -> Shape:
    if trace_s is not None:
        return Open(times=(np.asarray(trace_s, dtype=np.float64) * 1e9).astype(np.int64))
    asked = rate if rate is not None else load.rate
    if isinstance(asked, int | float):
        return Open((Level(math.inf, float(asked), float(asked)),), load.arrivals or "poisson", load.burstiness or 1.0)
    if load.stages and load.stages[0].rate is not None:
        levels = tuple(_level(one.duration, one.rate or 0.0, one.to) for one in load.stages)
        return Open(levels, load.arrivals or "poisson", load.burstiness or 1.0)
    if load.stages:
        return Closed(tuple(_level(one.duration, one.concurrency or 0, one.to) for one in load.stages), load.think or 0)
    users = float(load.concurrency or 1)
    ramp = (Level(load.ramp, 1.0, users),) if load.ramp else ()
    return Closed((*ramp, Level(math.inf, users, users)), load.think or 0.0)


def _level(duration_s: float, begin: float, end: float | None) -> Level:
    return Level(duration_s, float(begin), float(begin if end is None else end))
