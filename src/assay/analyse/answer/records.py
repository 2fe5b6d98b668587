"""The parts of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from assay.analyse.records import Answer, Interval
from assay.metrics import Better

Severity = Literal["invalid", "missed", "undecided", "suspect", "advice"]
"""What a reason does to a result: it is invalid; an objective was missed or not decided; it is suspect; or nothing."""
SEVERITIES: tuple[Severity, ...] = ("invalid", "missed", "undecided", "suspect", "advice")


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A metric that the rows of an answer show."""

    metric: str
    unit: str
    better: Better | None
    is_quality: bool = False
    """Whether it says how good the answers are, and not how fast they came: a score, or a share without a unit."""


@dataclass(frozen=True, slots=True)
class AnswerFigure:
    """One number of one job."""

    value: float
    interval: Interval | None
    """From the spread between runs; None for one run."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One job: its figures, and how far they can be trusted."""

    job: str
    index: int
    verdict: str
    """`valid`, `suspect` or `invalid`; the state of a job that has no numbers; `not judged`."""
    figures: tuple[AnswerFigure | None, ...]
    """One for each column; None where it was not measured."""
    reason: tuple[Severity, str] | None
    """The main reason of the verdict: what it does, and the name of the check or objective."""


@dataclass(frozen=True, slots=True)
class BestPoints:
    """Which jobs are best by the first column."""

    jobs: tuple[str, ...]
    """One job where it is clearly the best; else all whose runs do not separate them from it, the best first."""
    compared: int
    """How many jobs were held against each other."""
    because: str = ""
    """Why more than one is named."""


@dataclass(frozen=True, slots=True)
class BestQuality:
    """Which jobs answer best, beside which are fastest."""

    column: AnswerColumn
    jobs: tuple[str, ...]
    """Those whose quality no other one exceeds by more than their runs differ, the highest first."""


@dataclass(frozen=True, slots=True)
class AxisEffect:
    """What changing one key of the matrix does, with all others the same."""

    path: str
    """Key of the benchmark file, such as `target.threads`."""
    base: JsonValue
    """The first value in the file."""
    other: JsonValue
    """The best of the other values."""
    metric: str
    better: Better
    points: int
    """Pairs of jobs that differ in this key alone; the effect is their average."""
    gain: float | None
    """How many times as good `other` is as `base`: 2 is half the latency, or twice the throughput."""
    interval: Interval | None
    """Of the gain."""
    answer: Answer
    """Whether `other` is better or worse than `base`."""
    because: str = ""
    """Why it is "cannot tell"."""
    extremes: tuple[float, float] | None = None
    """The smallest and the largest gain of a pair, where the pairs clearly differ."""


@dataclass(frozen=True, slots=True)
class SearchedCapacity:
    """What a search for the highest rate found for one job."""

    job: str
    figure: AnswerFigure | None
    """None where no rate met the objective."""
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class DoubtGroup:
    """One reason for doubt over all jobs that it concerns."""

    check: str
    """Name of the check, or of the objective."""
    severity: Severity
    jobs: tuple[str, ...]
    worst_job: str
    worst: str
    """The sentence of the job in which it is worst, with its figures and limits."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that failed for the same reason."""

    code: str
    phase: str
    jobs: tuple[str, ...]
    message: str
    """Of the first of them."""
    try_: str
    log_tail: tuple[str, ...] = ()
    """The last lines that the first of them wrote, where they say why."""


@dataclass(frozen=True, slots=True)
class BaselineAnswer:
    """How many jobs moved against an earlier campaign, by the first column."""

    campaign: str
    better: int
    worse: int
    cannot_tell: int
    not_alike: int
    """Jobs that do not answer the same question: another model, machine or setting."""
    difference: str = ""
    """What differs, for the first of those."""


@dataclass(frozen=True, slots=True)
class CampaignAnswer:
    """All that a reader wants to know first."""

    columns: tuple[AnswerColumn, ...]
    """The metric that answers the question first; empty where nothing was measured."""
    rows: tuple[AnswerRow, ...]
    """The best first; jobs without numbers last, in their order."""
    best: BestPoints | None
    """None where fewer than two jobs can be ranked."""
    quality: BestQuality | None
    """None where no two jobs can be ranked by how good their answers are."""
    effects: tuple[AxisEffect, ...]
    capacities: tuple[SearchedCapacity, ...]
    baseline: BaselineAnswer | None
    doubts: tuple[DoubtGroup, ...]
    """The most serious first, then those of most jobs; at most ten."""
    more_doubts: int
    """Reasons beyond those."""
    failures: tuple[FailureGroup, ...]
    verdicts: Mapping[str, int]
    """Verdict or state → jobs."""
