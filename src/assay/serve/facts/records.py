"""What the routes of this part answer with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from assay.analyse.records import Answer, Check, Interval
from assay.metrics import Better
from assay.serve.web.reading import MetricView

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a job, as the HTML report draws it, with the numbers in it."""

    key: str
    """Its name among the pictures of the job."""
    group: Literal["latency", "runs", "time", "cold", "telemetry", "load", "llm", "device", "other"]
    """What it is about."""
    title: str
    says: str
    """How to read it."""
    svg: str
    """One `svg` element; its look comes from classes."""
    columns: tuple[str, ...]
    """Heads of its numbers."""
    rows: tuple[tuple[Cell, ...], ...]
    """Its numbers, as a table."""
    wide: bool = False
    """It wants the whole width of a page."""


@dataclass(frozen=True, slots=True)
class Panels:
    """The pictures of a job."""

    items: tuple[Panel, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    """Picture that the job does not have → why."""


@dataclass(frozen=True, slots=True)
class Output:
    """What came back for one request, as the run kept it."""

    run: int
    sample: int
    """Position among the kept answers of its run."""
    item: str
    """Name of the item inside its task."""
    session: int
    """Requests of one session are the turns of one conversation."""
    turn: int
    prompt: str | None
    """What was asked; null where only the answer was kept."""
    output: str
    expected: str | None
    """What the answer should say, where the task knows."""
    scores: Mapping[str, float]
    """What scorers said of this answer."""
    outcome: str
    """How the request ended; only `ok` has an answer."""
    error: str | None
    """Why there is no answer."""
    ttft_ms: float | None
    e2e_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    more: Mapping[str, JsonValue] = field(default_factory=dict)
    """Whatever else was kept."""
    cut: bool = False
    """A text is longer than what is shown; the file of the run has it whole."""


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side of a comparison."""

    key: str
    """As it was asked for."""
    kind: Literal["campaign", "job", "agent", "label"]
    name: str
    says: str
    """What it stands for, in one sentence."""
    results: int
    """Results of jobs that it has."""
    campaigns: tuple[str, ...] = ()
    """The campaigns that they come from, the newest first."""


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One metric of one job on one side."""

    side: str
    job: str | None
    """The newest job that the figures come from; null where this side has none."""
    verdict: str | None
    metric: MetricView | None
    """Null where it was not measured."""
    change: Interval | None
    """Relative, against the first side."""
    answer: Answer | Literal["base"] | None
    """Null where there is nothing to judge."""
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One metric of one job, on every side."""

    benchmark: str
    label: str
    point: Mapping[str, JsonValue]
    metric: str
    unit: str
    better: Better | None
    cells: tuple[ComparedCell, ...]
    """One for each side, in their order."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sides held against the first of them."""

    sides: tuple[ComparedSide, ...]
    rows: tuple[ComparedRow, ...]
    not_comparable: tuple[str, ...]
    """Why some must not be compared, one sentence each."""
    metrics: tuple[str, ...]
    """What could be compared; those that are shown are in the rows."""
    warnings: tuple[str, ...] = ()
    """What else differs, and which results were left out."""
    left_out: int = 0
    """Rows that would be too many."""


@dataclass(frozen=True, slots=True)
class FrontierAxis:
    """What one axis of a frontier shows."""

    metric: str
    unit: str
    better: Better | None


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One job between two metrics."""

    job: str
    campaign: str
    benchmark: str
    label: str
    machine: str
    side: str
    x: float
    x_interval: Interval | None
    y: float
    y_interval: Interval | None
    verdict: str | None
    on_front: bool
    """No other point is at least as good in both and better in one, by the medians."""
    surely: bool
    """It is on the front, and the intervals let no other point beat it."""
    grade: str = ""
    """How far a figure per watt or per price can be believed, and where it comes from."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Jobs between two metrics, and which of them no other one beats."""

    x: FrontierAxis
    y: FrontierAxis
    points: tuple[FrontierPoint, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    """Job that is not drawn → why."""
    metrics: tuple[str, ...] = ()
    """What could be an axis."""
    sides: tuple[ComparedSide, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentFitness:
    """What the newest result says about the state of an agent's machine."""

    checks: tuple[Check, ...]
    at: float | None
    job: str


@dataclass(frozen=True, slots=True)
class AgentNoise:
    """How far the newest results of an agent's machine spread between runs."""

    score: float
    """Smaller is quieter."""
    unit: str
    says: str
    at: float | None
    results: int = 0
    """How many results it is made of."""


@dataclass(frozen=True, slots=True)
class DeviceFigure:
    """One thing that a device can do."""

    test: str
    precision: str | None
    """Of arithmetic; null for memory and transfers."""
    value: float
    unit: str
    interval: Interval | None
    better: Better | None


@dataclass(frozen=True, slots=True)
class DeviceBench:
    """What a device can do, as one job measured it."""

    job: str
    at: float | None
    device: str
    items: tuple[DeviceFigure, ...]
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class AgentHardware:
    """What is known of an agent's machine from results that it delivered."""

    fitness: AgentFitness | None
    noise: AgentNoise | None
    bench: tuple[DeviceBench, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    """What is not known → why."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One way to tell people."""

    name: str
    kind: str
    to: str
    """Where it sends to, without any secret."""
    state: Literal["ok", "failing", "unused"]
    last_sent: float | None
    failing: str
    """What the newest message failed with; empty where it did not."""
    waiting: int = 0
    """Messages that are still to be sent."""


@dataclass(frozen=True, slots=True)
class ChannelTest:
    """Whether a test message was taken."""

    sent: bool
    says: str


@dataclass(frozen=True, slots=True)
class PriceInput:
    """What a machine costs."""

    per_hour: float
    currency: str = "USD"
    date: str = ""
    """When the price was looked up; today when left out."""
