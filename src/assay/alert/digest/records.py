"""What a digest is built of, and the digest itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from assay.analyse.records import Answer
from assay.metrics import Better

# A page with more pictures is slow to open; tables hold the rest.
MOST_PICTURES = 40

MovementState = Literal["open", "expected", "acknowledged", "snoozed", "resolved"]


@dataclass(frozen=True, slots=True)
class SeriesLabel:
    """A series, as people know it."""

    id: str
    benchmark: str
    metric: str
    unit: str = ""
    better: Better | None = None
    point: str = ""
    """Its place in the matrix, in words."""
    machine: str = ""
    """The kind of machine, in words."""

    @property
    def title(self) -> str:
        """Metric, benchmark and place in the matrix."""
        return " · ".join(part for part in (self.metric, self.benchmark, self.point) if part)


@dataclass(frozen=True, slots=True)
class SeriesHealth:
    """A series and what its last check says about it."""

    series: SeriesLabel
    points: int
    """Results with a value, all of them."""
    last_at: float | None
    """When the newest result came, failed or not."""
    recent: tuple[float, ...] = ()
    """When the newest results came, oldest first; read only where the series may be silent."""
    kind: str = ""
    """As the detector calls it: steady, noisy, stepped, drifting, constant, too short."""
    spread: float | None = None
    """From result to result, as a share of the newest level."""
    memory: float = 0.0
    """Share of its deviation that a result hands on to the next one."""
    loud_until: float | None = None
    """When the newest time of more noise ended."""
    louder: float = 1.0
    """How many times larger the spread was then."""


@dataclass(frozen=True, slots=True)
class RecordedDifference:
    """Something that differs between the last good result and the first bad one."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ResultLink:
    """A way to a result."""

    job: str
    at: float
    href: str = ""
    """Its address on a server."""
    command: str = ""
    """What shows it on this machine."""


@dataclass(frozen=True, slots=True)
class Movement:
    """A change of a series."""

    id: str
    series: SeriesLabel
    kind: Literal["step", "drift"]
    at: float
    """When the first result after it came."""
    good_at: float
    """When the last result before it came."""
    end_at: float
    """When a drift ended; of a step the same as `at`."""
    before: float
    after: float
    change: float | None
    """As a share of the level before."""
    low: float | None
    high: float | None
    """Where the change lies, with the level of the interval."""
    probability: float
    """That it is real, at most."""
    answer: Answer
    because: tuple[str, ...] = ()
    unconfirmed: str = ""
    """Of a change that is new and may still be chance: `new, unconfirmed (3 of 8)`."""
    cause: str = "unknown"
    why: tuple[str, ...] = ()
    """The reasons for the cause."""
    differs: tuple[RecordedDifference, ...] = ()
    state: MovementState = "open"
    found_at: float = 0.0
    alert: str = ""
    """The alert that it belongs to."""
    good: ResultLink | None = None
    bad: ResultLink | None = None


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that gave no numbers, as often as it did so for the same reason."""

    benchmark: str
    label: str
    why: str
    first_at: float
    last_at: float
    times: int = 1
    link: ResultLink | None = None
    """To the newest one."""


@dataclass(frozen=True, slots=True)
class AlertSummary:
    """An alert."""

    id: str
    state: str
    severity: str
    benchmark: str
    title: str
    opened_at: float
    changed_at: float
    until: float | None = None
    """Until when it is snoozed."""
    by: str = ""
    """Who last did something about it."""
    findings: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    why: str = ""
    """The reason given for its last event."""
    href: str = ""


@dataclass(frozen=True, slots=True)
class DigestMaterial:
    """Everything that a digest is made from."""

    source: str
    """Where it was read: the folder of a store, or the URL of a server."""
    series: tuple[SeriesHealth, ...] = ()
    movements: tuple[Movement, ...] = ()
    failed: tuple[FailedJob, ...] = ()
    alerts: tuple[AlertSummary, ...] = ()


@dataclass(frozen=True, slots=True)
class MovementGroup:
    """Changes that came together, by one cause."""

    cause: str
    title: str
    """What differs for all of them, in words."""
    movements: tuple[Movement, ...]
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoisySeries:
    """A series in which small changes stay invisible."""

    series: SeriesLabel
    spread: float
    memory: float
    points: int
    smallest: float
    """The smallest change that further results would show."""
    within: int
    """Within this many further results."""
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SilentJob:
    """A job that stopped giving results."""

    series: SeriesLabel
    """One of its series."""
    metrics: tuple[str, ...]
    """All of them."""
    last_at: float
    usual_s: float
    """From result to result until then."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What happened to all series in a time."""

    since: float
    until: float
    source: str
    series: int
    """How many are known."""
    fresh: int
    """How many of them got results in that time."""
    last_at: float | None
    """When the newest result of all came."""
    groups: tuple[MovementGroup, ...] = ()
    failed: tuple[FailedJob, ...] = ()
    noisy: tuple[NoisySeries, ...] = ()
    handled: tuple[AlertSummary, ...] = ()
    """Alerts that were acknowledged, snoozed, expected or resolved in that time."""
    expected: tuple[Movement, ...] = ()
    """Changes that were marked as expected without an alert."""
    alerts: tuple[AlertSummary, ...] = ()
    """Open alerts about something else than these changes."""
    silent: tuple[SilentJob, ...] = ()
    long_silent: int = 0
    """How many more are silent for much longer than the time of this digest."""
    assay_version: str = ""
    schema: Literal["assay.digest/1"] = "assay.digest/1"

    @property
    def movements(self) -> tuple[Movement, ...]:
        """All changes, group by group."""
        return tuple(movement for group in self.groups for movement in group.movements)

    @property
    def is_empty(self) -> bool:
        return not (self.groups or self.failed or self.handled or self.expected or self.alerts or self.silent)
