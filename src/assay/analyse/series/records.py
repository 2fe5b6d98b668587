"""A series, and what is concluded from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import JsonValue

from assay.analyse.records import Answer, Interval
from assay.analyse.series.spread import Burst
from assay.analyse.series.whitening import Values
from assay.errors import UsageError
from assay.metrics import Better

# Of series without a change, something is found in at most this share.
LEVEL = 0.01

Direction = Literal["better", "worse", "unknown"]
FindingKind = Literal["step", "drift"]
SeriesKind = Literal["too short", "constant", "steady", "noisy", "stepped", "drifting"]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One metric of one job definition on one kind of machine, over time, oldest first."""

    values: Values
    """One number per result; NaN where a result is missing."""
    better: Better | None = None
    standard_errors: Values | None = None
    """How far each number may be off by itself, from the spread between the runs of its result; NaN where not known."""
    labels: tuple[str, ...] = ()
    """What each point is called (a time, a commit); as many as values, or none."""
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.array(self.values, dtype=np.float64))
        if self.values.ndim != 1:
            raise UsageError("a series is one row of numbers", code="series-shape", at=self.name or "series")
        if self.standard_errors is not None:
            object.__setattr__(self, "standard_errors", np.array(self.standard_errors, dtype=np.float64))
            self._same_length("standard errors", self.standard_errors.size)
        if self.labels:
            object.__setattr__(self, "labels", tuple(self.labels))
            self._same_length("labels", len(self.labels))

    def _same_length(self, what: str, count: int) -> None:
        if count != self.values.size:
            message, remedy = f"{count} {what} for {self.values.size} values", "give one for each value, or none"
            raise UsageError(message, code="series-length", at=self.name or "series", try_=remedy)

    def label(self, index: int) -> str | None:
        return self.labels[index] if self.labels else None


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A new change that may still be chance, and how many results would confirm it."""

    results: int
    """Results for which it has stood since it turned up."""
    needed: int
    """It is believed once it has stood for this many."""

    @property
    def words(self) -> str:
        return f"new, unconfirmed ({self.results} of {self.needed})"


@dataclass(frozen=True, slots=True)
class Finding:
    """A change in a series: where, how large, and how sure that is."""

    kind: FindingKind
    """A step from one point to the next, or a drift over many."""
    index: int
    """First point after the step; for a drift, the first point that has moved."""
    last_good: int
    """The last point before it that has a value."""
    first_bad: int
    """The first point after it that has a value; the same as `index`."""
    range: tuple[int, int]
    """Where the first point after a step may lie, both ends included (95 %); from where to where a drift lasts."""
    before: float
    """Level up to the change."""
    after: float
    """Level from the change on, up to the next one."""
    difference: float
    """After minus before."""
    difference_interval: Interval
    change: float | None
    """The difference as a share of the level before; None where that is zero."""
    interval: Interval | None
    """Of `change`."""
    chance: float
    """How often the clearest change of a series of this length and memory without any change is as clear."""
    probability: float
    """That the change is real, at most, from even odds (Sellke, Bayarri and Berger 2001)."""
    direction: Direction
    answer: Answer
    because: tuple[str, ...] = ()
    """Why it is undecided; one sentence each."""
    last_good_label: str | None = None
    first_bad_label: str | None = None
    unconfirmed: Unconfirmed | None = None
    """Where it is new and may still be chance; its answer is then `cannot tell`."""

    @property
    def label(self) -> str:
        """The answer as people read it: a new change is called unconfirmed."""
        return self.unconfirmed.words if self.unconfirmed else self.answer

    def record(self) -> dict[str, JsonValue]:
        out: dict[str, JsonValue] = {
            "kind": self.kind,
            "index": self.index,
            "last_good": self.last_good,
            "first_bad": self.first_bad,
            "range": list(self.range),
            "before": self.before,
            "after": self.after,
            "size": self.change,
            "interval": _ends(self.interval),
            "difference": self.difference,
            "difference_interval": _ends(self.difference_interval),
            "level": self.difference_interval.level,
            "chance": self.chance,
            "probability": self.probability,
            "direction": self.direction,
            "answer": self.answer,
            "because": list(self.because),
        }
        if self.unconfirmed is not None:
            out["unconfirmed"] = {"results": self.unconfirmed.results, "needed": self.unconfirmed.needed}
        if self.first_bad_label is not None:
            out |= {"last_good_label": self.last_good_label, "first_bad_label": self.first_bad_label}
        return out


@dataclass(frozen=True, slots=True)
class SeriesReport:
    """What one series shows."""

    findings: tuple[Finding, ...]
    """In order of time."""
    kind: SeriesKind
    spread: float | None
    """Standard deviation of the points around their level; None where there are too few."""
    relative_spread: float | None
    """The same as a share of the newest level."""
    correlation: float | None
    """Share of its deviation that a point hands on to the next one (0 to 0.95)."""
    chance: float
    """How often the clearest change in a series without any would be as clear as the clearest here."""
    level: float
    """The share of series without a change in which something is found, at most."""
    points: int
    """With a value."""
    missing: int
    """Without one."""
    outliers: tuple[int, ...] = ()
    """Single points far from their neighbours; one alone is never a step."""
    bursts: tuple[Burst, ...] = ()
    """Times of more noise than else; their points count less."""
    name: str = ""

    def record(self) -> dict[str, JsonValue]:
        return {
            "series": self.name,
            "kind": self.kind,
            "points": self.points,
            "missing": self.missing,
            "spread": self.spread,
            "relative_spread": self.relative_spread,
            "correlation": self.correlation,
            "chance": self.chance,
            "level": self.level,
            "outliers": list(self.outliers),
            "bursts": [{"first": burst.first, "last": burst.last, "factor": burst.factor} for burst in self.bursts],
            "findings": [finding.record() for finding in self.findings],
        }


def probability_of(chance: float) -> float:
    """The largest probability of a real change that such a chance can mean, from even odds.

    A chance of 1 % is no 99 % of being right: the best any alternative can do against it is odds of 1 to -e·p·ln p.
    """
    if chance >= math.exp(-1):
        return 0.5
    against = -math.e * chance * math.log(chance) if chance > 0 else 0.0
    return 1 / (1 + against)


def direction_of(difference: float, better: Better | None) -> Direction:
    if better is None or difference == 0:
        return "unknown"
    return "better" if (difference < 0) == (better == "lower") else "worse"


def series_of(values: Sequence[float], better: Better | None = None, name: str = "") -> Series:
    return Series(np.asarray(values, dtype=np.float64), better, name=name)


def _ends(interval: Interval | None) -> JsonValue:
    return None if interval is None else [interval.low, interval.high]
