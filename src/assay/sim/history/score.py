"""Findings against the truth: what was found, what was missed, what was not there; how far off in place and size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from assay.sim.history.generator import TrueChange

# A change whose place is told less exactly than this is another one.
NEAR = 7
# What lies so close to a drift and goes its way is part of it.
_BESIDE = 5

Outcome = Literal["found", "missed", "false", "part", "withdrawn"]


@dataclass(frozen=True, slots=True)
class DetectedChange:
    """A finding, with nights instead of points."""

    series: str
    night: int
    """The first night after it."""
    range: tuple[int, int]
    """Where that night may lie; from where to where a drift lasts."""
    kind: Literal["step", "drift"]
    size: float
    """As a share of the level before."""
    low: float
    high: float
    cause: str
    probability: float = 0.0
    told: int | None = None
    """The night at which it was told for the first time as better or worse."""
    first_cause: str = ""
    """The cause that was told then; empty where nobody noted it."""
    withdrawn: int | None = None
    """The night at which it was taken back, or doubted."""


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One line of the list: a change that is true, a finding, or both.

    A finding that was taken back has the change that it spoke of, if there was one.
    """

    series: str
    outcome: Outcome
    truth: TrueChange | None = None
    found: DetectedChange | None = None

    @property
    def position_error(self) -> int | None:
        """Nights by which the finding lies too late; negative where it lies too early."""
        return self.found.night - self.truth.night if self.found and self.truth else None

    @property
    def size_error(self) -> float | None:
        """Detected size minus true size, in shares of the level before."""
        return self.found.size - self.truth.size if self.found and self.truth else None

    @property
    def holds(self) -> bool | None:
        return self.found.low <= self.truth.size <= self.found.high if self.found and self.truth else None

    @property
    def right_cause(self) -> bool | None:
        return self.found.cause == self.truth.cause if self.found and self.truth else None

    @property
    def right_at_first(self) -> bool | None:
        """Whether the cause was the true one already when the change was told for the first time."""
        if not self.found or not self.truth or not self.found.first_cause:
            return None
        return self.found.first_cause == self.truth.cause

    @property
    def waited(self) -> int | None:
        """Nights from the change until it was told."""
        if self.found is None or self.truth is None or self.found.told is None:
            return None
        return self.found.told - self.truth.night


@dataclass(frozen=True, slots=True)
class DetectionScore:
    """A list in numbers."""

    true: int
    found: int
    missed: int
    false: int
    parts: int
    """Findings that are parts of one drift, beside the one that counts for it."""
    right_cause: int
    """Of those found."""
    right_at_first: int
    """Of those found: so many had the right cause already when they were told for the first time."""
    withdrawn: int
    """Findings that were told and taken back."""
    withdrawn_false: int
    """Those of them that spoke of nothing true."""
    holds: int
    """Of those found: so many intervals hold the true size."""
    place: float
    """Nights by which those found are off, half of them at most."""
    size: float
    """By how much of the level before their sizes are off, half of them at most."""


def score(truth: Sequence[TrueChange], found: Sequence[DetectedChange]) -> tuple[ScoreLine, ...]:
    """Put findings beside what is true, by series and in order of time.

    Each change has at most one finding: of the same direction, the nearest, with the true night inside the range that
    the finding tells or at most a week away. What was withdrawn is no finding, and has a line of its own.
    """
    lines: list[ScoreLine] = []
    for series in sorted({*(one.series for one in truth), *(one.series for one in found)}):
        mine = [one for one in truth if one.series == series]
        left = [one for one in found if one.series == series and one.withdrawn is None]
        gone = [one for one in found if one.series == series and one.withdrawn is not None]
        pairs = _paired(mine, left)
        lines += [
            ScoreLine(
                series, "found" if place in pairs else "missed", one, left[pairs[place]] if place in pairs else None
            )
            for place, one in enumerate(mine)
        ]
        left = [one for place, one in enumerate(left) if place not in pairs.values()]
        lines += [ScoreLine(series, "part" if _part_of_one(mine, one) else "false", None, one) for one in left]
        lines += [ScoreLine(series, "withdrawn", _nearest(mine, one), one) for one in gone]
    return tuple(sorted(lines, key=lambda one: (one.series, _night(one))))


def _paired(mine: Sequence[TrueChange], found: Sequence[DetectedChange]) -> dict[int, int]:
    """Place of a change → place of its finding; those that lie nearest to each other first."""
    meeting = [(a, b) for a, true in enumerate(mine) for b, one in enumerate(found) if _meets(true, one)]
    pairs: dict[int, int] = {}
    for a, b in sorted(meeting, key=lambda pair: _apart(mine[pair[0]], found[pair[1]])):
        if a not in pairs and b not in pairs.values():
            pairs[a] = b
    return pairs


def marks(lines: Iterable[ScoreLine]) -> DetectionScore:
    all_of = list(lines)
    hits = [one for one in all_of if one.outcome == "found"]
    return DetectionScore(
        true=sum(one.outcome in ("found", "missed") for one in all_of),
        found=len(hits),
        missed=sum(one.outcome == "missed" for one in all_of),
        false=sum(one.outcome == "false" for one in all_of),
        parts=sum(one.outcome == "part" for one in all_of),
        right_cause=sum(one.right_cause is True for one in hits),
        right_at_first=sum(one.right_at_first is True for one in hits),
        withdrawn=sum(one.outcome == "withdrawn" for one in all_of),
        withdrawn_false=sum(one.outcome == "withdrawn" and one.truth is None for one in all_of),
        holds=sum(one.holds is True for one in hits),
        place=_middle([abs(one.position_error) for one in hits if one.position_error is not None]),
        size=_middle([abs(one.size_error) for one in hits if one.size_error is not None]),
    )


def _meets(true: TrueChange, one: DetectedChange) -> bool:
    if (true.size > 0) != (one.size > 0):
        return False
    if true.kind == "drift":  # a drift may be told late, as a step in the middle of it
        return one.night <= true.last + _BESIDE and one.range[1] >= true.night - _BESIDE
    return one.range[0] <= true.night <= one.range[1] or abs(one.night - true.night) <= NEAR


def _apart(true: TrueChange, one: DetectedChange) -> tuple[bool, int, float]:
    return true.kind != one.kind, abs(one.night - true.night), abs(one.size - true.size)


def _nearest(mine: Sequence[TrueChange], one: DetectedChange) -> TrueChange | None:
    return min((true for true in mine if _meets(true, one)), key=lambda true: _apart(true, one), default=None)


def _part_of_one(mine: Sequence[TrueChange], one: DetectedChange) -> bool:
    return any(true.kind == "drift" and _meets(true, one) for true in mine)


def _night(line: ScoreLine) -> int:
    return line.truth.night if line.truth else line.found.night if line.found else 0


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2]) if ordered else 0.0
