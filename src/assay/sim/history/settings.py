"""What a simulated history is made of: machines, benchmarks with their noise, and what happens to them when."""

# ruff: noqa: RUF012  (pydantic copies mutable defaults)

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, JsonValue, ValidationError, field_validator, model_validator

from assay.errors import Problem, SpecError
from assay.sim.script import read_file
from assay.spec.section import Section, Share, Size

Cause = Literal["code", "data or model", "environment", "machine", "method", "unknown"]
What = Literal["step", "drift", "span", "noise", "outage", "failed", "quiet"]
# What lasts from one night to another, and so needs both.
_LASTING = ("drift", "span", "noise", "outage")
_YEAR = Path(__file__).with_name("year.yaml")


def _signed(value: object) -> object:
    """A share with a sign: `-5.7%`."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            raise ValueError(f"{value!r} is not a share; write for example -5.7%") from None
    return value


Signed = Annotated[float, BeforeValidator(_signed), Field(gt=-1)]


class SimulatedHost(Section):
    """A machine that results come from."""

    cpu: str
    """Its processor."""
    cores: int = Field(ge=1)
    """How many."""
    memory: Size
    """Of the machine."""
    gpu: str | None = None
    """Its GPU."""
    gpus: int = Field(default=1, ge=1)
    """How many, where it has any."""
    gpu_memory: Size | None = None
    """Of each."""
    driver: str | None = None
    """Driver of the GPU, at first."""
    architecture: str = "x86_64"
    """Of its processor."""
    os: Literal["linux", "macos", "windows"] = "linux"
    """Its system."""
    os_version: str = "Debian GNU/Linux 12 (bookworm)"
    """As the system calls itself."""
    kernel: str = "6.1.0-31-amd64"
    """Kernel, at first."""
    packages: dict[str, str] = {}
    """Packages with their versions, at first."""


class NoiseModel(Section):
    """One metric of a job: its level and how it varies."""

    level: float = Field(gt=0)
    """Where it lies on the first night."""
    spread: Share = 0.01
    """From night to night: the deviation of its logarithm."""
    within: Share = 0.005
    """Between the runs of one night."""
    tails: Literal["normal", "heavy"] = "normal"
    """Heavy tails are those of Student's t with three degrees of freedom."""
    memory: float = Field(default=0.0, ge=0, le=0.95)
    """Share of its deviation that a night hands on to the next one."""
    against: str | None = None
    """A metric of the same job whose ups are downs of this one, as rates and times are."""


class Bench(Section):
    """A benchmark that runs every night."""

    file: dict[str, JsonValue]
    """The benchmark file."""
    host: str
    """The machine that it runs on."""
    jobs: tuple[dict[str, NoiseModel], ...] = Field(min_length=1)
    """The metrics of each job, in the order of the matrix."""

    @property
    def name(self) -> str:
        return str(self.file.get("benchmark", ""))

    @model_validator(mode="after")
    def _names_metrics(self) -> Bench:
        if not self.name:
            raise ValueError("file has no benchmark: the name of it is missing")
        for job in self.jobs:
            for name, metric in job.items():
                if metric.against is not None and (
                    metric.against not in job or job[metric.against].against is not None
                ):
                    raise ValueError(f"{name} is against {metric.against}, which is no metric of that job by itself")
        return self


class HistoryEvent(Section):
    """Something that happens."""

    night: int = Field(ge=1)
    """The first night of it; the first night of all is 1."""
    until: int | None = None
    """The last night, for what lasts."""
    what: What
    """A step stays, a drift moves from night to until, a span is over after until, noise is larger meanwhile; nothing
    is measured in an outage; jobs fail; quiet changes the surroundings and no number."""
    cause: Cause | None = None
    """Why, for what moves numbers."""
    moves: dict[str, dict[str, Signed]] = {}
    """Benchmark → metric → by how much it moves."""
    of: dict[str, tuple[str, ...]] = {}
    """Benchmark → metrics that are concerned, for noise; benchmarks alone for jobs that fail."""
    jobs: tuple[int, ...] | None = None
    """Only these jobs of the matrix, counted from 0."""
    noise: float = Field(default=1.0, gt=0)
    """How many times larger the spread is, for noise."""
    host: str | None = None
    """The machine whose surroundings change, or that is out."""
    driver: str | None = None
    """Its new driver."""
    kernel: str | None = None
    """Its new kernel."""
    packages: dict[str, str] = {}
    """New versions of its packages."""
    to: str | None = None
    """The machine that takes over its work."""
    control: Signed | None = None
    """By how much longer the control workload takes."""
    throttled: bool = False
    """Whether it holds its clocks down meanwhile."""
    model: str | None = None
    """The benchmark whose model file is new."""
    file: dict[str, JsonValue] = {}
    """Keys of the benchmark files under `moves` that change: dotted path → value."""
    commit: bool | None = None
    """Whether new code came the same night; else it comes with the cause code alone."""
    note: str = ""
    """What happened, in words."""

    @model_validator(mode="after")
    def _is_whole(self) -> HistoryEvent:
        if self.what != "failed" and (self.what in _LASTING) != (self.until is not None):
            raise ValueError(f"a {self.what} {'needs' if self.until is None else 'has no'} until")
        if self.until is not None and self.until < self.night:
            raise ValueError(f"until ({self.until}) lies before night ({self.night})")
        if self.what in ("step", "drift", "span") and not (self.moves and self.cause):
            raise ValueError(f"a {self.what} needs moves and a cause")
        if self.what in ("noise", "failed") and not self.of:
            raise ValueError(f"of is missing: which benchmarks does the event concern ({self.what})")
        if self.what not in ("step", "drift", "span") and self.moves:
            raise ValueError(f"{self.what} moves nothing; remove moves")
        if (self.what == "outage" or self.to or self.driver or self.kernel) and self.host is None:
            raise ValueError("host is missing: which machine is it about")
        return self

    @property
    def slowed(self) -> str | None:
        """The machine whose control workload takes longer: the new one, where another takes over."""
        return self.to or self.host

    def lasts(self, night: float) -> bool:
        return self.night <= night and (self.until is None or night <= self.until)

    def share(self, night: float) -> float:
        if night < self.night:
            return 0.0
        if self.what == "drift" and self.until is not None:
            return min(1.0, (night - self.night + 1) / (self.until - self.night + 1))
        return 1.0 if self.what != "span" or self.lasts(night) else 0.0

    def moved(self, bench: Bench, job: int, metric: str) -> float:
        """By how much it moves a metric once it is all there, as a share; 0 where it does not."""
        if self.what not in ("step", "drift", "span") or (self.jobs is not None and job not in self.jobs):
            return 0.0
        moves = self.moves.get(bench.name, {})
        base = bench.jobs[job][metric].against
        if base is None:
            return moves.get(metric, 0.0)
        return (1 + moves.get(metric, 0.0)) / (1 + moves.get(base, 0.0)) - 1


class History(Section):
    """Everything that is simulated, and from which seed."""

    seed: int = 0
    """Of all that is drawn."""
    nights: int = Field(default=365, ge=1, le=20_000)
    """How many."""
    start: datetime | None = None
    """The first night; so that the last one is today's when left out."""
    runs: int = Field(default=5, ge=1, le=100)
    """Runs of each job and night."""
    commits: Share = 0.3
    """Share of the nights on which there is new code without effect."""
    hosts: Mapping[str, SimulatedHost]
    """The machines by name."""
    benchmarks: tuple[Bench, ...] = Field(min_length=1)
    """What runs every night."""
    events: tuple[HistoryEvent, ...] = ()
    """What happens."""

    @field_validator("start")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value

    @model_validator(mode="after")
    def _names_what_is_there(self) -> History:
        benches = {benchmark.name: benchmark for benchmark in self.benchmarks}
        for bench in self.benchmarks:
            if bench.host not in self.hosts:
                raise ValueError(f"the benchmark {bench.name} runs on {bench.host}, which is not under hosts")
        for event in self.events:
            for host in (event.host, event.to):
                if host is not None and host not in self.hosts:
                    raise ValueError(f"the event of night {event.night} names {host}, which is not under hosts")
            for name, moves in (*event.moves.items(), *event.of.items()):
                metrics = {metric for job in benches[name].jobs for metric in job} if name in benches else set()
                missing = sorted(set(moves) - metrics) if name in benches else [name]
                if missing:
                    raise ValueError(
                        f"the event of night {event.night} names {missing[0]}, which no benchmark measures"
                    )
        return self


AnyHistory = TypeVar("AnyHistory", bound=History)


def read_scenario(path: Path, kind: type[AnyHistory]) -> AnyHistory:
    document = read_file(path)
    try:
        # Through JSON, because only its strict mode takes a list for a tuple.
        return kind.model_validate_json(json.dumps(document, default=str))
    except ValidationError as invalid:
        problems = [
            Problem("value", f"{'.'.join(map(str, error['loc'])) or 'the file'}: {error['msg']}", str(path))
            for error in invalid.errors(include_url=False)
        ]
        raise SpecError.of(problems) from None


def read_history(path: Path) -> History:
    return read_scenario(path, History)


def year() -> History:
    return read_history(_YEAR)


def year_text() -> str:
    return _YEAR.read_text(encoding="utf-8")
