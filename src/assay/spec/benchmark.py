"""The benchmark file: one typed model per section, and the two records that later stages use.

`Definition` is what one job measures; `Benchmark` adds what turns it into many jobs (matrix), where
they go (place) and what happens afterwards (schedule, alerts).
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from assay.metrics import METRICS
from assay.spec.kubernetes import Kubernetes
from assay.spec.schedule import Alert, Schedule
from assay.spec.section import Duration, Section, Share, Size, did_you_mean, each_key, refuse
from assay.spec.slurm import MONITOR, RESERVED, Slurm
from assay.spec.target import (
    CommandTarget,
    Device,
    Fetch,
    LibraryTarget,
    ModelTarget,
    Served,
    ServiceTarget,
    Target,
    is_vector_database,
)
from assay.spec.workload import InputSpec, Load, Workload, whole_input

Port = Annotated[int, Field(ge=1, le=65_535)]


class Monitoring(Section):
    """How nodes and services are watched while a campaign runs."""

    interval: Annotated[Duration, Field(ge=0.1, le=300)] = 1.0
    """Time between two scrapes."""
    keep: Literal["chosen", "all"] = "chosen"
    """What is kept with the results: all of services and GPUs and the main figures of nodes, or everything."""
    program: str | None = None
    """The program `prometheus`; from ASSAY_PROMETHEUS, else from the PATH, when left out."""
    image: str | None = None
    """Container image with Prometheus, where there is no program."""
    container: Literal["auto", "apptainer", "podman", "charliecloud", "docker"] = "auto"
    """What runs the image; whichever is present when left out."""
    listen: str = Field(default="127.0.0.1", pattern=r"^[0-9A-Za-z.:\-]+$")
    """Address on which Prometheus answers; anybody who reaches it can read it, so only its own machine by default."""
    port: Port | None = None
    """Port of Prometheus; a free one when left out."""
    retention: Annotated[Duration, Field(ge=3600)] = 7 * 86_400.0
    """How long Prometheus itself keeps what it scraped; what is kept with results stays."""
    node_exporter: Port | None = None
    """Port of a node exporter that already runs on the nodes; assay's own is started when left out."""
    dcgm_exporter: Port | None = None
    """Port of a DCGM exporter that already runs on the nodes; assay's own reads GPUs by NVML when left out."""
    within: Annotated[Duration, Field(gt=0, le=600)] = 30.0
    """How long to wait for the first scrape before continuing without it."""
    required: bool = True
    """Whether a campaign that cannot be monitored fails before it begins, or runs with a note."""

    @model_validator(mode="after")
    def _one_source(self) -> Monitoring:
        if self.program is not None and self.image is not None:
            raise ValueError("program and image both say what to start; keep one of them")
        if self.image is None and self.container != "auto":
            raise ValueError(f"container: {self.container} would do nothing without an image; remove it")
        return self


def monitoring_of(setting: bool | Monitoring) -> Monitoring | None:
    """The settings of the section `monitoring: true | {…}`; None where nothing is to be watched."""
    if isinstance(setting, Monitoring):
        return setting
    return Monitoring() if setting else None


__all__ = ["Benchmark", "Definition", "InputSpec", "Load", "Workload", "whole_input"]

_STATISTIC = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*\.(mean|median|min|max|p50|p90|p95|p99|p99_9|std)$")
_STATISTICS = each_key(_STATISTIC.match, "is not a statistic of a metric; write for example latency_ms.p99")
_SERVICE_NAMES = each_key(
    re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$").match,
    "is not a valid service name: letters, digits, _ . - and no space",
)


class Until(Section):
    """When a run has measured enough."""

    interval: Share = 0.02
    """Stop when the 95 % interval of the run's median is this narrow, relative to the median."""
    at_least: Duration = 0.5
    """Measure at least this long."""
    at_most: Duration = 10.0
    """Measure at most this long."""
    samples: int | None = Field(default=None, ge=1, le=100_000_000)
    """Take exactly this many samples instead."""

    @model_validator(mode="after")
    def _ordered(self) -> Until:
        if self.at_most < self.at_least and "at_least" in self.model_fields_set:
            raise ValueError(f"at_most ({self.at_most:g} s) is shorter than at_least ({self.at_least:g} s)")
        return self


# Runs of a job that names no number: fewer could agree by luck, more are added as they are needed.
LEAST_RUNS = 5
MOST_RUNS = 100


class Measure(Section):
    """How often and how long."""

    runs: int | None = Field(default=None, ge=1, le=100)
    """A fixed number of fresh processes. Left out, there are 5, and more until the result is as precise as asked."""
    precision: Share = 0.02
    """Without `runs`: runs are added until the interval of the headline metric is this narrow, relative to it."""
    budget: Duration = Field(default=300.0, gt=0)
    """Without `runs`: time that the runs of a job may take before no more are added."""
    warmup: Literal["auto", "none"] | Annotated[int, Field(ge=1)] | Duration = "auto"
    """`auto` detects it; or a number of calls, a duration such as `2s`, or `none`."""
    until: Until = Until()
    """When a run has measured enough."""
    timeout: Duration = Field(default=600.0, gt=0)
    """Deadline of one run; then its whole process tree is killed."""
    interval: Share = 0.25
    """How narrow the interval between runs must be for a valid verdict, relative to the median."""
    errors: Share = 0.0
    """Largest tolerated share of failed runs."""
    memory_limit: Size | None = None
    """Address space that a run may use."""
    probe: Literal["off"] | Annotated[Duration, Field(ge=0.01, le=60)] = 0.1
    """Time between two looks at the machine while a run is measured, from another process; or `off`."""
    control: bool = True
    """Whether a control workload of a second is timed before and after a job, to tell whether the machine moved."""

    @property
    def least_runs(self) -> int:
        """How many runs a job has, or has at least."""
        return LEAST_RUNS if self.runs is None else self.runs

    @field_validator("precision")
    @classmethod
    def _is_a_part(cls, share: float) -> float:
        if not 0 < share < 1:
            raise ValueError("it must be more than 0 and less than 100 %; two percent is written 2%")
        return share

    @field_validator("warmup", mode="before")
    @classmethod
    def _not_zero(cls, value: object) -> object:
        return "none" if value == 0 and not isinstance(value, bool) else value


class Needs(Section):
    """What a machine must have to take the job."""

    device: Device | None = None
    """Device kind; taken from the target when left out."""
    runtime: str | None = None
    """Runtime; taken from the target when left out."""
    memory: Size | None = None
    """Memory of the machine."""
    cpus: int | None = Field(default=None, ge=1)
    """Logical processors."""
    gpus: int | None = Field(default=None, ge=1)
    """Number of GPUs."""
    gpu_model: str | None = None
    """Text that the GPU's name must contain."""
    gpu_memory: Size | None = None
    """Memory of each GPU."""
    os: Literal["linux", "macos", "windows"] | None = None
    """Operating system."""
    labels: dict[str, str] = {}
    """Labels that the machine must carry."""
    agent: str | None = None
    """Name of the one machine that may take it."""


class Ready(Section):
    """How to know that a service is ready."""

    http: str | None = None
    """Path that must answer with a status below 400."""
    tcp: bool = False
    """Whether its port must accept a connection."""
    command: str | None = None
    """Command that must exit 0."""
    within: Duration = Field(default=300.0, gt=0)
    """Give up after this long."""


class Service(Section):
    """A service that is started for the benchmark."""

    recipe: str | None = None
    """Name of a ready-made service (`assay recipes list`), whose keys hold where this section is silent."""
    image: str | None = None
    """Container image: a name in a registry, a `.sif` or squashfs file, or a folder; a plain process when left out."""
    command: str | tuple[str, ...] | None = None
    """Command that starts it; `{port}` stands for the port chosen for it and `{host}` for the address to listen on,
    `{port:llm}` and `{host:llm}` for another service's."""
    cwd: str | None = None
    """Working folder, relative to the benchmark file."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """Its port; a free one is chosen when left out and passed on as `{port}` and the variable PORT. The address is
    `{host}` and the variable HOST: the loopback, or that of its node on a cluster."""
    ready: Ready = Ready()
    """How to know that it is ready."""
    needs: Needs = Needs()
    """What its machine must have."""
    env: dict[str, str] = {}
    """Environment variables; secrets by `${env:NAME}`."""
    container: Literal["auto", "apptainer", "podman", "charliecloud", "docker", "none"] = "auto"
    """What runs the image; whichever is present when left out. With `none` the command runs without the image, as a
    plain process."""
    mounts: dict[str, str] = {}
    """Folder here → folder in the container."""
    fetch: tuple[Fetch, ...] = ()
    """Files that it needs from elsewhere; fetched once, checked, and kept for the next time."""
    fresh: Literal["run", "job"] = "run"
    """Whether each run starts its own (the start is then part of the measurement) or all runs of a job share one."""

    @model_validator(mode="after")
    def _can_be_started(self) -> Service:
        plain, fields = self.container == "none", type(self).model_fields
        boxed = self.image is not None and not plain
        idle = [name for name in ("mounts", "container") if getattr(self, name) != fields[name].default]
        idle = idle if self.image is None and not plain else []
        relative = boxed and self.cwd is not None and not self.cwd.startswith("/")
        refuse(
            (self.image is None and not self.command, "a service needs a command or an image"),
            (plain and not self.command, "container is none, so the command is needed: nothing runs the image"),
            (plain and self.mounts, "container is none, so mounts would do nothing; remove them"),
            (idle, f"{' and '.join(idle)} would do nothing without an image; remove it"),
            (relative, f"cwd is {self.cwd!r}; inside a container it must be absolute"),
        )
        return self


class Fleet(Section):
    """How the jobs of a campaign are given to agents."""

    priority: int = Field(default=0, ge=-100, le=100)
    """Campaigns with a higher one are served first; equal ones take turns."""
    deadline: Duration | None = None
    """Give up on what has not ended this long after submission."""
    unplaceable: Literal["wait", "fail"] = "wait"
    """What happens to jobs that no agent can take: they wait for one, or fail immediately."""
    spread: Literal["any", "spread", "pack"] = "any"
    """`pack` keeps the jobs of a campaign on one machine of a kind, `spread` gives every idle machine its share."""


class Place(Section):
    """Which engine places the jobs."""

    engine: Literal["local", "fleet", "slurm", "kubernetes"] = "local"
    """What moves jobs to machines."""
    fleet: Fleet = Fleet()
    """Settings for `engine: fleet`."""
    slurm: Slurm | None = None
    """Settings for `engine: slurm`."""
    kubernetes: Kubernetes | None = None
    """Settings for `engine: kubernetes`."""

    @property
    def on_cluster(self) -> bool:
        """Whether a cluster places the jobs, and not assay itself."""
        return self.engine in ("slurm", "kubernetes")

    @property
    def cluster(self) -> Slurm | Kubernetes | None:
        """The settings of the cluster that the engine uses; None where it has none, or none are given."""
        if self.engine == "slurm":
            return self.slurm
        return self.kubernetes if self.engine == "kubernetes" else None


class MachinePrice(Section):
    """What a machine costs."""

    per_hour: float = Field(gt=0)
    """Price of an hour."""
    currency: str = "USD"
    """In which currency."""
    date: str | None = None
    """When the price was looked up, as YYYY-MM-DD."""

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_date(cls, value: object) -> object:
        text = value.isoformat() if isinstance(value, date) else value
        if isinstance(text, str):
            try:
                date.fromisoformat(text)
            except ValueError:
                raise ValueError(f"{text!r} is no date; write 2026-11-15") from None
        return text


class Definition(Section):
    """What one job measures: everything that gives its numbers their meaning."""

    services: Annotated[dict[str, Service], _SERVICE_NAMES] = {}
    """Services to start first."""
    target: Target
    """What is measured."""
    workload: Workload = Workload()
    """What it is fed."""
    load: Load = Load()
    """How it is driven."""
    measure: Measure = Measure()
    """How often and how long."""
    objective: Annotated[dict[str, float], _STATISTICS] = {}
    """Statistic → limit, such as `{latency_ms.p99: 20}`; a result that misses one fails its gate."""
    needs: Needs = Needs()
    """What the machine must have."""
    prices: dict[str, MachinePrice] = {}
    """Machine → its price: by its name, by a label such as `gpu=h200`, or `*` for any other."""

    @property
    def adds_runs(self) -> bool:
        """Whether the runs themselves decide how many there are.

        Machines that work together must agree on the number, a search takes long and bounds itself, and a price is
        divided among the runs before they begin.
        """
        priced = getattr(getattr(self.target, "price", None), "budget", None) is not None
        together = getattr(self.target, "distributed", None) is not None
        fixed = priced or together or self.load.hosts > 1 or self.load.rate == "search"
        return self.measure.runs is None and not fixed

    @property
    def most_runs(self) -> int:
        """How many runs there may be."""
        return MOST_RUNS if self.adds_runs else self.measure.least_runs

    @property
    def longest_s(self) -> float:
        """How long all runs take at most, if each reaches its deadline."""
        measure = self.measure
        fixed_s = measure.least_runs * measure.timeout
        return max(fixed_s, measure.budget + measure.timeout) if self.adds_runs else fixed_s

    @model_validator(mode="after")
    def _every_key_means_something(self) -> Definition:
        for section, keys, kinds in _MEANING:
            part: Section = getattr(self, section)
            # A value equal to its default changes nothing, so only the others can mislead.
            misplaced = sorted(key for key in keys if getattr(part, key) != type(part).model_fields[key].default)
            if misplaced and _kind(self.target) not in kinds:
                raise ValueError(_meaningless(section, misplaced, self.target))
        if self.load.rate == "search" and not self.objective:
            raise ValueError(
                "load.rate is search, and there is no objective to meet; write objective: {ttft_ms.p99: 500}"
            )
        self._refuse_unknown_objectives()
        if isinstance(self.target, ServiceTarget) and self.target.service not in self.services:
            raise ValueError(f"target.service is {self.target.service!r}, which is not under services")
        return self

    @model_validator(mode="after")
    def _reads_services_that_are_there(self) -> Definition:
        for metric in self.target.metrics if isinstance(self.target, CommandTarget) else ():
            if metric.service is not None and metric.service not in self.services:
                raise ValueError(f"the metric {metric.name} is of the service {metric.service!r}, not under services")
            if metric.service is not None and metric.pattern is None:
                raise ValueError(f"the metric {metric.name} is of a service, so that it needs a pattern for its output")
        return self

    @model_validator(mode="after")
    def _can_be_loaded_by_several(self) -> Definition:
        if self.load.hosts > 1 and (self.workload.task == "knn" or is_vector_database(self.target)):
            shared = f"load.hosts is {self.load.hosts}"
            raise ValueError(f"{shared}, and each machine would load the vectors again; one machine drives a search")
        return self

    def _refuse_unknown_objectives(self) -> None:
        """A misspelt metric is never measured, so its gate would never fail; scorers may bring their own."""
        if not isinstance(self.target, Served | LibraryTarget) or self.workload.scorers:
            return
        for name in self.objective:
            metric = name.rpartition(".")[0]
            if metric not in METRICS:
                hint = did_you_mean(metric, METRICS)
                raise ValueError(f"objective names {metric}, which is no metric of this target{hint and f'; {hint}'}")


class Benchmark(Definition):
    """What to measure: the file that a user writes."""

    benchmark: str = Field(min_length=1, max_length=200)
    """Name of the benchmark."""
    description: str = ""
    """What it is for."""
    labels: dict[str, str] = {}
    """Labels that travel with every result."""
    matrix: dict[str, JsonValue] = {}
    """Dotted path → list of values; the product is the set of jobs. `include` adds points, `exclude` removes them."""
    place: Place = Place()
    """Which engine places the jobs."""
    schedule: Schedule | None = None
    """When to run again by itself: a cron expression such as `0 3 * * *` or `@daily`, or a section with more."""
    alerts: tuple[Alert, ...] = ()
    """When to tell people."""
    monitoring: bool | Monitoring = False
    """Whether Prometheus watches nodes and services meanwhile: `true`, or a section with more."""

    @model_validator(mode="after")
    def _names_services_of_a_cluster(self) -> Benchmark:
        if self.place.engine == "slurm" and (taken := sorted(RESERVED & set(self.services))):
            raise ValueError(f"a service on a cluster cannot be called {taken[0]!r}: assay names a batch job so")
        service_names = [*self.services, *((MONITOR,) if self.place.engine == "slurm" else ())]
        for name in self.place.cluster.each if self.place.cluster is not None else ():
            if name not in service_names:
                message = f"place.{self.place.engine}.each names {name!r}, which is not under services"
                raise ValueError("; ".join(filter(None, (message, did_you_mean(name, service_names)))))
        return self

    @model_validator(mode="after")
    def _hides_its_secrets(self) -> Benchmark:
        # Refused here and not by the keys themselves: errors of keys show their values.
        if self.place.slurm is not None and self.place.slurm.has_open_token:
            raise ValueError("place.slurm.rest_token is a token, which does not belong in a file; write ${env:NAME}")
        for path, pod in self.place.kubernetes.parts.items() if self.place.kubernetes is not None else ():
            if pod.wrong_secrets:
                raise ValueError(f"place.kubernetes.{path}{pod.wrong_secrets}")
        return self

    @model_validator(mode="after")
    def _one_number_of_pods(self) -> Benchmark:
        together = getattr(self.target, "distributed", None)
        if together is None:
            return self
        if self.place.engine != "kubernetes":
            raise ValueError(
                f"target.distributed asks for {together.pods} pods, and place.engine {self.place.engine} starts none "
                "together; set place.engine: kubernetes, or remove it"
            )
        distributed = self.place.kubernetes.distributed if self.place.kubernetes is not None else None
        if distributed is not None and (distributed.pods, distributed.launch) != (together.pods, together.launch):
            raise ValueError("target.distributed and place.kubernetes.distributed differ; keep the latter alone")
        return self

    @model_validator(mode="after")
    def _one_number_of_clients(self) -> Benchmark:
        cluster = self.place.cluster
        clients = cluster.client_count if cluster is not None else None
        if clients is not None and "hosts" in self.load.model_fields_set and self.load.hosts != clients:
            raise ValueError(
                f"place.{self.place.engine}.clients is {clients} and load.hosts is {self.load.hosts}: both say how "
                "many clients share the load; keep one of them"
            )
        return self


# Section, keys, and the kinds of target for which those keys do something. A key that would be ignored
# is refused: a field that looks decisive and does nothing makes wrong numbers.
_SERVED = frozenset({"service", "endpoint"})
_TEXT = {"task", "file", "prompt", "prompt_seed", "input_tokens", "output_tokens", "items", "turns", "shared_prefix",
         "scorers"}  # fmt: skip
_MEANING: tuple[tuple[str, set[str], frozenset[str]], ...] = (
    ("workload", {"batch"}, frozenset({"model", "language model"}) | _SERVED),
    ("workload", {"dims", "inputs"}, frozenset({"model"})),
    ("workload", _TEXT | {"keep_outputs"}, frozenset({"language model", "library"}) | _SERVED),
    ("workload", {"corpus", "queries", "k", "filter"}, frozenset({"library"}) | _SERVED),
    ("load", {"scenario"}, frozenset({"model", "language model"})),
    ("load", {"streams"}, frozenset({"model", "language model", "library"})),
    ("load", {"concurrency", "duration", "requests"}, frozenset({"library"}) | _SERVED),
    ("load", {"think", "arrivals", "burstiness", "rate", "search", "trace", "stages", "ramp", "errors"}, _SERVED),
    ("load", {"max_in_flight", "saturation", "clients", "hosts", "host"}, _SERVED),
    ("measure", {"warmup", "until"}, frozenset({"model", "language model", "library"}) | _SERVED),
)


def _kind(target: Target) -> str:
    """What kind of thing a target is, in a word that a user knows."""
    if isinstance(target, ModelTarget) and target.runtime not in ("onnxruntime", "torch"):
        return "language model"
    return type(target).__name__.removesuffix("Target").lower()


def _meaningless(section: str, keys: list[str], target: Target) -> str:
    names = " and ".join(f"{section}.{key}" for key in keys)
    return f"{names} would do nothing for a {_kind(target)} target; remove it"
