"""How a target is driven: streams for a model file, closed or open loops for a service."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from assay.spec.section import Duration, Section, Share


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
    """How long one rate is tried."""
    within: Share = 0.05
    """How closely the answer must be known."""
    probes: int = Field(default=12, ge=2, le=100)
    """Most rates to try."""


class Load(Section):
    """How the target is driven."""

    scenario: Literal["single-stream", "multi-stream", "offline"] | None = None
    """MLPerf's names: one call after another (latency), several at once (latency of the slowest), or as much
    as it can (throughput)."""
    streams: int | None = Field(default=None, ge=1, le=1024)
    """Calls in flight at once in `multi-stream` (8 when left out) and `offline` (1)."""
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
    """Open loop: requests that may be open at once; one that is due beyond them is skipped and counted."""
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
        if len(shapes) > 1:
            raise ValueError(f"{' and '.join(shapes)} are different loads; give one of them")
        if self.stages and len({one.rate is None for one in self.stages}) > 1:
            raise ValueError("stages are either all rates or all concurrencies")
        closed = self.concurrency is not None or any(one.concurrency is not None for one in self.stages)
        open_only = [name for name in ("arrivals", "burstiness") if getattr(self, name) is not None]
        if closed and open_only:
            raise ValueError(f"{' and '.join(open_only)} belong to a rate, and this load has a concurrency")
        if not closed and self.think is not None and (self.rate or self.trace or self.stages):
            raise ValueError("think belongs to a concurrency: in an open loop nobody waits for an answer")
        if self.arrivals is not None and self.rate is None and not self.stages:
            raise ValueError("arrivals belong to a rate; give load.rate, or remove them")
        if self.burstiness is not None and self.arrivals != "gamma":
            raise ValueError("burstiness belongs to arrivals: gamma")
        if self.search.highest <= self.search.lowest:
            raise ValueError(f"search.highest ({self.search.highest:g}) is not above search.lowest")
        return self
