"""Findings against the truth: what was found, what was missed, what was not there; how far off in place and size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from assay.analyse.records import Answer
from assay.demo.replay import DetectionObserver
from assay.series.repository import KnownFinding, SeriesStore
from assay.sim.history import TrueChange, series_name
from assay.store.store import Store

# A change reported further off than this is another one.
NEAR = 7
# What lies so close to a drift and goes its way is part of it.
_BESIDE = 5

Outcome = Literal["found", "missed", "false", "part", "withdrawn"]


@dataclass(frozen=True, slots=True)
class DetectedChange:
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
    reported: int | None = None
    """The night at which it was first reported as better or worse."""
    first_cause: str = ""
    """The cause reported then; empty if none was recorded."""
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
        """Whether the true cause was already given in the first report."""
        if not self.found or not self.truth or not self.found.first_cause:
            return None
        return self.found.first_cause == self.truth.cause

    @property
    def waited(self) -> int | None:
        """Nights from the change until it was reported."""
        if self.found is None or self.truth is None or self.found.reported is None:
            return None
        return self.found.reported - self.truth.night


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
    """How many of those found had the right cause in the first report."""
    withdrawn: int
    """Findings that were reported and withdrawn."""
    withdrawn_false: int
    """Those of them that spoke of nothing true."""
    holds: int
    """How many intervals of those found hold the true size."""
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
    for series in sorted({*(change.series for change in truth), *(finding.series for finding in found)}):
        changes = [change for change in truth if change.series == series]
        left = [finding for finding in found if finding.series == series and finding.withdrawn is None]
        gone = [finding for finding in found if finding.series == series and finding.withdrawn is not None]
        pairs = _paired(changes, left)
        lines += [
            ScoreLine(
                series, "found" if place in pairs else "missed", change, left[pairs[place]] if place in pairs else None
            )
            for place, change in enumerate(changes)
        ]
        left = [finding for place, finding in enumerate(left) if place not in pairs.values()]
        lines += [
            ScoreLine(series, "part" if _part_of_one(changes, finding) else "false", None, finding) for finding in left
        ]
        lines += [ScoreLine(series, "withdrawn", _nearest(changes, finding), finding) for finding in gone]
    return tuple(sorted(lines, key=lambda line: (line.series, _night(line))))


def _paired(changes: Sequence[TrueChange], found: Sequence[DetectedChange]) -> dict[int, int]:
    """Place of a change → place of its finding; those that lie nearest to each other first."""
    meeting = [(a, b) for a, true in enumerate(changes) for b, finding in enumerate(found) if _meets(true, finding)]
    pairs: dict[int, int] = {}
    for a, b in sorted(meeting, key=lambda pair: _apart(changes[pair[0]], found[pair[1]])):
        if a not in pairs and b not in pairs.values():
            pairs[a] = b
    return pairs


def marks(lines: Iterable[ScoreLine]) -> DetectionScore:
    all_of = list(lines)
    hits = [line for line in all_of if line.outcome == "found"]
    return DetectionScore(
        true=sum(line.outcome in ("found", "missed") for line in all_of),
        found=len(hits),
        missed=sum(line.outcome == "missed" for line in all_of),
        false=sum(line.outcome == "false" for line in all_of),
        parts=sum(line.outcome == "part" for line in all_of),
        right_cause=sum(line.right_cause is True for line in hits),
        right_at_first=sum(line.right_at_first is True for line in hits),
        withdrawn=sum(line.outcome == "withdrawn" for line in all_of),
        withdrawn_false=sum(line.outcome == "withdrawn" and line.truth is None for line in all_of),
        holds=sum(line.holds is True for line in hits),
        place=_middle([abs(line.position_error) for line in hits if line.position_error is not None]),
        size=_middle([abs(line.size_error) for line in hits if line.size_error is not None]),
    )


def _meets(true: TrueChange, finding: DetectedChange) -> bool:
    if (true.size > 0) != (finding.size > 0):
        return False
    if true.kind == "drift":  # a drift may be reported late, as a step in the middle of it
        return finding.night <= true.last + _BESIDE and finding.range[1] >= true.night - _BESIDE
    return finding.range[0] <= true.night <= finding.range[1] or abs(finding.night - true.night) <= NEAR


def _apart(true: TrueChange, finding: DetectedChange) -> tuple[bool, int, float]:
    return true.kind != finding.kind, abs(finding.night - true.night), abs(finding.size - true.size)


def _nearest(true_changes: Sequence[TrueChange], finding: DetectedChange) -> TrueChange | None:
    return min(
        (true for true in true_changes if _meets(true, finding)), key=lambda true: _apart(true, finding), default=None
    )


def _part_of_one(changes: Sequence[TrueChange], finding: DetectedChange) -> bool:
    return any(true.kind == "drift" and _meets(true, finding) for true in changes)


def _night(line: ScoreLine) -> int:
    return line.truth.night if line.truth else line.found.night if line.found else 0


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2]) if ordered else 0.0


@dataclass(frozen=True, slots=True)
class FindingReport:
    """What was reported about a finding in a night."""

    night: int
    state: str
    answer: Answer
    cause: str


class RecordingObserver(DetectionObserver):
    """Records what was reported when."""

    def __init__(self, first: datetime) -> None:
        self._first = first
        self.diary: dict[str, list[FindingReport]] = {}
        """Finding → its reports, in order of time."""

    def campaign(self, store: Store, campaign: str, at: datetime) -> tuple[KnownFinding, ...]:
        records = super().campaign(store, campaign, at)
        night = _night_of(at.timestamp(), self._first)
        for record in records:
            self.diary.setdefault(record.id, []).append(
                FindingReport(night, record.state, record.finding.answer, record.triage.cause)
            )
        return records

    def found(self, store: Store) -> tuple[DetectedChange, ...]:
        """What was reported about the series of the store, with nights instead of points; also what was withdrawn.

        Left out: what was never reported as better or worse.
        """
        series_store = SeriesStore(store)
        changes: list[DetectedChange] = []
        for record in series_store.list():
            nights_of = [_night_of(point.at, self._first) for point in series_store.points(record.id)]
            for finding in series_store.findings(series=record.id):
                change = _detected(finding, nights_of, self._first, self.diary.get(finding.id, []))
                changes += [change] if change else []
        return tuple(sorted(changes, key=lambda change: (change.series, change.night)))


def _detected(
    known: KnownFinding, nights_of: Sequence[int], first: datetime, reports: Sequence[FindingReport]
) -> DetectedChange | None:
    finding = known.finding
    claims = [report for report in reports if report.answer != "cannot tell" and report.state != "gone"]
    if finding.change is None or finding.interval is None or not claims:
        return None
    doubted = finding.answer == "cannot tell"
    job = int((known.first_bad.job or "").rpartition("-job-")[2] or 0)
    return DetectedChange(
        series=series_name(known.series.benchmark, job, known.series.metric),
        night=_night_of(known.first_bad.at, first),
        range=(nights_of[finding.range[0]], nights_of[finding.range[1]]),
        kind=finding.kind,
        size=finding.change,
        low=finding.interval.low,
        high=finding.interval.high,
        cause=known.triage.cause,
        probability=finding.probability,
        reported=claims[0].night,
        first_cause=claims[0].cause,
        withdrawn=reports[-1].night if known.state == "gone" or doubted else None,
    )


def _night_of(at: float, first: datetime) -> int:
    return int((at - first.timestamp()) // 86_400) + 1
