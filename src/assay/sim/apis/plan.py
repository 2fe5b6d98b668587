"""What one request asked for, in terms of tokens, and the way in which it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assay.sim.wire.problem import HttpError


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to one request, in tokens."""

    tokens: int
    reason: str
    """`stop`, or `length` where the request bounded it."""
    prompt_tokens: int
    stream: bool
    usage: bool


@dataclass(frozen=True, slots=True)
class Times:
    """When an answer happened: nanoseconds of `perf_counter_ns`."""

    arrival_ns: int
    first_ns: int
    last_ns: int


class Dialect(Protocol):
    """How an API tells an answer."""

    name: str
    kind: bytes
    """Content type of a stream."""

    def opening(self) -> bytes | None:
        """An event without text, which some servers send first."""
        ...

    def event(self, text: str, *, reasoning: bool, first: bool) -> bytes:
        """The event of some tokens; `first` if nothing was sent before it."""
        ...

    def ending(self, plan: Plan, times: Times) -> list[bytes]:
        """The events after the last token."""
        ...

    def whole(self, plan: Plan, reasoning: str, answer: str, times: Times) -> bytes: ...

    def error(self, problem: HttpError) -> bytes:
        """What is said when there is no answer."""
        ...

    def error_event(self, problem: HttpError) -> bytes:
        """The same inside a stream."""
        ...

    def broken_event(self) -> bytes:
        """An event whose content is not what it should be."""
        ...
