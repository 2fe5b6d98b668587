"""What a target is fed (tensors, prompts, vectors) and how it is driven: streams, closed or open loops."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, JsonValue, model_validator
from pydantic_core import CoreSchema

from assay.spec.section import Duration, Section, Share, refuse


class InputSpec(Section):
    """How one model input is filled, when the default does not fit.

    Short forms: the name of a `.npy`, `.npz` or `.pb` file stands for `{file: …}`, any other plain value for
    `{value: …}`.
    """

    file: str | None = None
    """A `.npy`, `.npz` (entry of the input's name) or `.pb` (ONNX TensorProto) file."""
    value: JsonValue = None
    """One value for every element, or a nested list of the input's own shape."""
    range: tuple[float, float] | None = None
    """Random values from low (included) to high (excluded)."""
    shape: tuple[int, ...] | None = None
    """Shape to use in place of the model's."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of both forms."""
        return {"anyOf": [handler(core_schema), {"type": ["string", "number", "boolean", "array"]}]}

    @model_validator(mode="after")
    def _one_source(self) -> InputSpec:
        sources = [name for name in ("file", "value", "range") if getattr(self, name) is not None]
        if len(sources) > 1:
            raise ValueError(f"give one of file, value, range; got {' and '.join(sources)}")
        return self


def whole_input(value: JsonValue) -> JsonValue:
    """The whole form of an input that may be written short."""
    if isinstance(value, dict) or value is None:
        return value
    is_file = isinstance(value, str) and value.lower().endswith((".npy", ".npz", ".pb"))
    return {"file" if is_file else "value": value}


class Tokens(Section):
    """Lengths in tokens, drawn for each request."""

    mean: float = Field(ge=1)
    """Mean length."""
    std: float = Field(default=0.0, ge=0)
    """Standard deviation."""
    min: int = Field(default=1, ge=1)
    """Shortest length."""
    max: int | None = Field(default=None, ge=1)
    """Longest length."""
    shape: Literal["normal", "lognormal", "uniform"] = "normal"
    """How lengths spread; `uniform` needs `min` and `max` alone to matter."""

    @model_validator(mode="after")
    def _ordered(self) -> Tokens:
        refuse(
            (self.max is not None and self.max < self.min, f"max ({self.max}) is below min ({self.min})"),
            (self.shape == "uniform" and self.max is None, "a uniform length needs max"),
        )
        return self


class Corpus(Section):
    """Vectors made from a seed, the same on every machine."""

    vectors: int = Field(default=10_000, ge=1, le=100_000_000)
    """How many."""
    dims: int = Field(default=128, ge=1, le=65_536)
    """Dimensions of each."""
    metric: Literal["cosine", "euclid", "dot"] = "cosine"
    """How near two vectors are."""
    clusters: int = Field(default=100, ge=1)
    """Groups that they fall into."""
    spread: float = Field(default=0.35, gt=0)
    """Width of a group beside the distance between groups."""


class Workload(Section):
    """What the target is fed."""

    batch: int | None = Field(default=None, ge=1, le=1_000_000)
    """Items in one call; fills the model's batch dimension, which gets 1 when this is left out."""
    dims: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Sizes of the model's other dynamic dimensions, by name: `{sequence: 128}`."""
    inputs: dict[str, InputSpec] = {}
    """Own values for named model inputs."""
    seed: int = 0
    """Seed of every random value."""
    prompt_seed: int | None = Field(default=None, ge=0)
    """Seed of the words of made prompts. An endpoint or service gets one for each run, from `seed`, campaign, job and
    run, when this is left out; the result records it, and giving it here asks the same prompts again."""
    task: str | None = None
    """Named task: `synthetic`, `prompts`, `conversation`, `wikipedia-summary`, `embedding` or `knn`."""
    file: str | None = None
    """JSONL file of `prompts`, `conversation` or `embedding`."""
    prompt: str | None = None
    """Text around each item; `{text}` stands for the item's own."""
    input_tokens: Annotated[int, Field(ge=1)] | Tokens | None = None
    """Prompt length in tokens."""
    output_tokens: Annotated[int, Field(ge=1)] | Tokens | None = None
    """Answer length in tokens."""
    items: int | None = Field(default=None, ge=1, le=1_000_000)
    """Different prompts; they are repeated when more requests are sent."""
    turns: int | None = Field(default=None, ge=1, le=1000)
    """Turns of a synthetic `conversation`."""
    shared_prefix: int | None = Field(default=None, ge=1)
    """Tokens at the start of every prompt that all prompts share."""
    scorers: tuple[str, ...] | None = None
    """What judges the answers; the task's own (`rouge`) when left out."""
    keep_outputs: bool | None = None
    """Whether answers are kept with the result; kept where something scores them when left out."""
    corpus: Corpus = Corpus()
    """The vectors that `knn` searches."""
    queries: int = Field(default=1000, ge=1)
    """Different queries of `knn`."""
    k: int = Field(default=10, ge=1, le=10_000)
    """Neighbours that `knn` asks for."""
    filter: Share | None = None
    """Share of the vectors that a filter of `knn` leaves, such as 10%."""


class LoadStage(Section):
    """One part of a load, with a level that may rise or fall."""

    duration: Duration = Field(gt=0)
    """How long."""
    rate: float | None = Field(default=None, ge=0)
    """Requests per second at its start."""
    concurrency: int | None = Field(default=None, ge=0)
    """Requests in flight at its start."""
    to: float | None = Field(default=None, ge=0)
    """The level at its end; the same as at its start when left out."""

    @model_validator(mode="after")
    def _one_level(self) -> LoadStage:
        if (self.rate is None) == (self.concurrency is None):
            raise ValueError("a stage has either a rate or a concurrency")
        return self


class Search(Section):
    """How `rate: search` looks for the highest rate that meets the objective."""

    lowest: float = Field(default=1.0, gt=0)
    """Rate to begin with, per second."""
    highest: float = Field(default=10_000.0, gt=0)
    """Rate never to exceed."""
    probe: Duration = Field(default=10.0, gt=0)
    """How long a rate is usually tried: half as long on the way up, four to eight times near the capacity."""
    within: Share = 0.05
    """How closely the answer must be known."""
    probes: int = Field(default=12, ge=2, le=100)
    """The time of a search: at most three times this many probes."""


class Load(Section):
    """How the target is driven."""

    scenario: Literal["single-stream", "multi-stream", "offline"] | None = None
    """MLPerf's names: one call after another (latency), several together (latency of the slowest), or as much
    as it can (throughput)."""
    streams: int | None = Field(default=None, ge=1, le=1024)
    """Calls in flight in `multi-stream` (8 when left out) and `offline` (1)."""
    concurrency: int | None = Field(default=None, ge=1, le=65_536)
    """Requests (or conversations) in flight (closed loop); 1 when neither this nor a rate is given."""
    think: Duration | None = None
    """Mean pause of a user between an answer and the next request (closed loop); exponential."""
    arrivals: Literal["constant", "poisson", "gamma"] | None = None
    """Arrival process of an open loop; `poisson` when a rate is given."""
    burstiness: float | None = Field(default=None, gt=0)
    """Shape of `gamma` arrivals: 1 is Poisson, less is burstier, more is more even."""
    rate: Annotated[float, Field(gt=0)] | Literal["search"] | None = None
    """Requests per second (open loop), or `search` for the highest that meets the objective."""
    search: Search = Search()
    """How `rate: search` looks."""
    trace: str | None = None
    """File of times and sizes to replay: JSONL or CSV with `at` (seconds), and optional `input_tokens`,
    `output_tokens`."""
    stages: tuple[LoadStage, ...] = ()
    """Parts of a load, one after another, all rates or all concurrencies."""
    ramp: Duration | None = None
    """Time over which a closed loop reaches its concurrency; counts as warm-up."""
    duration: Duration | None = None
    """How long to measure."""
    requests: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """How many requests to measure."""
    errors: Share | None = None
    """Stop when more than this share of the last hundred or more requests failed."""
    max_in_flight: int = Field(default=4096, ge=1, le=65_536)
    """Open loop: the most requests in flight; one that is due beyond them is skipped and counted."""
    saturation: Literal["stop", "go on"] = "stop"
    """Open loop: whether to end early when the service falls behind for good."""
    clients: int = Field(default=1, ge=1, le=256)
    """Client processes on this machine that share the load."""
    hosts: int = Field(default=1, ge=1, le=64)
    """Machines that share the load, each a job of its own on another agent; with `clients` processes each."""
    host: int | None = Field(default=None, ge=0, le=63)
    """Which of these machines a job is for, counted from 0; the plan sets it."""

    @model_validator(mode="after")
    def _can_be_shared(self) -> Load:
        if self.host is not None and self.host >= self.hosts:
            raise ValueError(f"host is {self.host}, and hosts counted from 0 end at {self.hosts - 1}")
        if self.hosts == 1:
            return self
        shared = f"hosts is {self.hosts}"
        if self.rate == "search":
            raise ValueError(f"{shared}, and rate: search looks for a rate with one machine; use a matrix over rate")
        if self.duration is None:
            raise ValueError(f"{shared}, so a duration is needed: it is what lets their windows overlap")
        users = None if self.rate or self.trace or self.stages else self.concurrency or 1
        if users is not None and users < self.hosts:
            raise ValueError(f"{shared} and concurrency is {users}: every machine needs a request of its own")
        return self

    @model_validator(mode="after")
    def _one_shape(self) -> Load:
        shapes = [name for name in ("concurrency", "rate", "trace", "stages") if getattr(self, name)]
        mixed = len({stage.rate is None for stage in self.stages}) > 1
        refuse(
            (len(shapes) > 1, f"{' and '.join(shapes)} are different loads; give one of them"),
            (mixed, "stages are either all rates or all concurrencies"),
        )
        closed = self.concurrency is not None or any(stage.concurrency is not None for stage in self.stages)
        open_only = [name for name in ("arrivals", "burstiness") if getattr(self, name) is not None]
        thinks = not closed and self.think is not None and (self.rate or self.trace or self.stages)
        no_rate = self.arrivals is not None and self.rate is None and not self.stages
        highest = self.search.highest
        refuse(
            (closed and open_only, f"{' and '.join(open_only)} belong to a rate, and this load has a concurrency"),
            (thinks, "think belongs to a concurrency: an open loop does not wait for answers"),
            (no_rate, "arrivals belong to a rate; give load.rate, or remove them"),
            (self.burstiness is not None and self.arrivals != "gamma", "burstiness belongs to arrivals: gamma"),
            (highest <= self.search.lowest, f"search.highest ({highest:g}) is not above search.lowest"),
        )
        return self
