"""What the store knows of things that are watched over time: series, points, findings as they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.metrics import Better

FindingState = Literal["open", "expected", "gone"]
Origin = Literal["results", "import"]


@dataclass(frozen=True, slots=True)
class SeriesRecord:
    """One metric of one job definition on one kind of machine."""

    id: str
    benchmark: str
    metric: str
    unit: str
    better: Better | None
    point: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of the matrix."""
    labels: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, JsonValue] = field(default_factory=dict)
    """The kind of machine."""
    origin: Origin = "results"
    checked: int = 0
    """Points that the last check has seen."""
    report: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the last check said: kind, spread, memory, outliers, times of noise, findings."""
    points: int = 0
    """How many there are."""
    newest: float | None = None
    """When the newest one was measured, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Point:
    """One result in a series, and what was around it."""

    id: int
    at: float
    """Seconds since 1970."""
    value: float | None
    """None where the job failed, or did not give this metric."""
    standard_error: float | None = None
    verdict: str = ""
    """Of the result; `failed` for a job that was not measured, empty for what was imported."""
    job: str | None = None
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    """Commit, model, image, driver, packages, kernel, machine, settings, control workload …"""

    @property
    def counts(self) -> bool:
        """Whether its value is part of what is concluded: a result that is invalid is kept, and not believed."""
        return self.value is not None and self.verdict != "invalid"


@dataclass(frozen=True, slots=True)
class NewPoint:
    """A point that is to be kept."""

    series: str
    at: float
    value: float | None
    standard_error: float | None = None
    verdict: str = ""
    job: str | None = None
    context: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptFinding:
    """A finding as the store keeps it."""

    id: str
    series: str
    last_good: int
    """Id of a point."""
    first_bad: int
    found_at: float
    state: FindingState
    document: str
    """The finding and its triage, as JSON."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check concluded about one series, and what it had found there."""

    series: str
    before: tuple[int, str]
    """Number of points and report of the check before: another one since then makes this one void."""
    checked: int
    report: str
    findings: tuple[KeptFinding, ...]
    """New ones, and those that changed."""


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """Which series to list; what is empty does not count."""

    benchmark: str = ""
    metric: str = ""
    text: str = ""
    """Part of the id, the benchmark's name, the metric, the point or a label."""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The points of a series in columns, oldest first."""

    skipped: int
    """Older points that are left out."""
    ids: tuple[int, ...]
    values: tuple[float | None, ...]
    """None where a point does not count."""
    errors: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Stand:
    """What the last check of a series left."""

    checked: int
    """Points that it has seen."""
    report: str
    better: Better | None
    findings: tuple[KeptFinding, ...]
