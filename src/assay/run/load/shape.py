"""The shape of a load: closed or open, its levels, and when requests of an open loop are due. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.spec.workload import Load

Process = Literal["constant", "poisson", "gamma"]

# Due times are made in blocks of this many: enough to cost nothing, few enough to start without delay.
BLOCK = 4096


@dataclass(frozen=True, slots=True)
class RateLevel:
    """A part of a load: a number of seconds from one level to another, in a straight line."""

    duration_s: float
    begin: float
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """Some due times, in nanoseconds from the start of the load, and the stage that each falls into."""

    at_ns: NDArray[np.int64]
    stage: NDArray[np.int16]


def unit_gaps(process: Process, burstiness: float, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    if process == "constant":
        return np.ones(count)
    if process == "poisson":
        return generator.exponential(1.0, count)
    return generator.gamma(burstiness, 1.0 / burstiness, count)


def arrivals(levels: Sequence[RateLevel], process: Process, seed: int, burstiness: float = 1.0) -> Iterator[Due]:
    """Due times of a load whose rate is given stage by stage; the last stage may last for ever.

    Arrivals of mean gap one are stretched by the rate that holds when they fall due: the n-th is due when the
    area under the rate reaches its unit time. So a ramp of Poisson arrivals is a Poisson process with that ramp.
    """
    generator = np.random.default_rng([seed, 0xA2217])
    bounds = np.cumsum([0.0, *(level.duration_s for level in levels)])
    areas = np.cumsum([0.0, *(level.duration_s * (level.begin + level.end) / 2 for level in levels)])
    reached = 0.0
    while True:
        units = reached + np.cumsum(unit_gaps(process, burstiness, generator, BLOCK))
        reached = float(units[-1])
        units = units[units < areas[-1]]
        if not units.size:
            return
        stage = np.clip(np.searchsorted(areas, units, side="right") - 1, 0, len(levels) - 1)
        at = np.empty(units.size)
        for index in np.unique(stage):
            inside = stage == index
            at[inside] = bounds[index] + _time_at(levels[index], units[inside] - areas[index])
        yield Due((at * 1e9).astype(np.int64), stage.astype(np.int16))
        if units.size < BLOCK:
            return


def _time_at(level: RateLevel, area: NDArray[np.float64]) -> NDArray[np.float64]:
    """When the area under a level's line reaches a value."""
    slope = (level.end - level.begin) / level.duration_s if np.isfinite(level.duration_s) else 0.0
    if slope == 0.0:
        return area / level.begin
    # The root of slope/2 t² + begin t = area that does not lose its digits when the slope is small.
    root = np.sqrt(np.maximum(level.begin**2 + 2 * slope * area, 0.0))
    return 2 * area / (level.begin + root)


def level_at(levels: Sequence[RateLevel], at_s: float) -> float:
    """The level that holds at a moment; the last one's end after all of them."""
    for level in levels:
        if at_s < level.duration_s:
            part = at_s / level.duration_s if np.isfinite(level.duration_s) else 0.0
            return level.begin + (level.end - level.begin) * part
        at_s -= level.duration_s
    return levels[-1].end


@dataclass(frozen=True, slots=True)
class ClosedShape:
    """Users that wait for an answer before they ask again; their number may change over time."""

    levels: tuple[RateLevel, ...]
    think_s: float = 0.0

    @property
    def most(self) -> int:
        return math.ceil(max(max(level.begin, level.end) for level in self.levels))


@dataclass(frozen=True, slots=True, eq=False)
class OpenShape:
    """Requests that fall due regardless of how earlier ones ended."""

    levels: tuple[RateLevel, ...] = ()
    process: Process = "poisson"
    burstiness: float = 1.0
    times: NDArray[np.int64] | None = field(default=None)
    """Due times of a trace, in nanoseconds from its start, in place of a process."""

    @property
    def is_drawn(self) -> bool:
        """Whether chance decides when requests fall due."""
        return self.times is None and self.process != "constant"

    def part_of(self, hosts: int) -> OpenShape:
        """The same process at the share of one of several machines."""
        return replace(
            self,
            levels=tuple(RateLevel(level.duration_s, level.begin / hosts, level.end / hosts) for level in self.levels),
        )

    def due(self, seed: int) -> Iterator[Due]:
        if self.times is not None:
            yield Due(self.times, np.zeros(len(self.times), dtype=np.int16))
        else:
            yield from arrivals(self.levels, self.process, seed, self.burstiness)


Shape = ClosedShape | OpenShape


def shape_of(load: Load, *, rate: float | None = None, trace_s: Sequence[float] | None = None) -> Shape:
    if trace_s is not None:
        return OpenShape(times=(np.asarray(trace_s, dtype=np.float64) * 1e9).astype(np.int64))
    asked = rate if rate is not None else load.rate
    if isinstance(asked, int | float):
        return OpenShape(
            (RateLevel(math.inf, float(asked), float(asked)),), load.arrivals or "poisson", load.burstiness or 1.0
        )
    if load.stages and load.stages[0].rate is not None:
        levels = tuple(_level(stage.duration, stage.rate or 0.0, stage.to) for stage in load.stages)
        return OpenShape(levels, load.arrivals or "poisson", load.burstiness or 1.0)
    if load.stages:
        return ClosedShape(
            tuple(_level(stage.duration, stage.concurrency or 0, stage.to) for stage in load.stages), load.think or 0
        )
    users = float(load.concurrency or 1)
    ramp = (RateLevel(load.ramp, 1.0, users),) if load.ramp else ()
    return ClosedShape((*ramp, RateLevel(math.inf, users, users)), load.think or 0.0)


def _level(duration_s: float, begin: float, end: float | None) -> RateLevel:
    return RateLevel(duration_s, float(begin), float(begin if end is None else end))
