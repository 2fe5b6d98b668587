"""What a vector database must do to be measured, by how it is reached, and how its options are named."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.contract import Order, Rules, Stage
from assay.run.workloads.corpus import Block, Floats
from assay.spec.benchmark import Definition
from assay.spec.workload import Corpus

if TYPE_CHECKING:
    from assay.run.targets.vector.http import JsonClient

Options = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """What a collection must hold and find."""

    corpus: Corpus
    k: int
    filtered: bool
    """Whether a search may only return vectors whose tag is 1."""
    index: Options
    search: Options


@dataclass(frozen=True, slots=True)
class SearchLoad:
    """What every load of searches is given, however it is driven."""

    queries: Floats
    order: Order
    stage: Stage
    rules: Rules
    began_ns: int
    """When the run began; its deadline counts from there."""
    cpu_s: Callable[[], float] = time.process_time
    """Processor time of what belongs to the measurement."""

    @property
    def definition(self) -> Definition:
        return self.order.job.definition


class Collection(ABC):
    """One collection of one vector database, made for one run: no other collection is ever touched.

    A class that is registered by name under the entry-point group `assay.vectors` derives from `HttpCollection`,
    `DriverCollection` or `LibraryCollection`, which says how the database is reached and searched.
    """

    name: ClassVar[str]
    """Name of the database in messages and facts."""

    @abstractmethod
    def create(self) -> None:
        """Make the collection; an option that the database does not know is an error in the database's own words."""

    @abstractmethod
    def insert(self, block: Block) -> float | None:
        """Load some vectors; return the seconds that the database took, None where nothing is sent to it."""

    @abstractmethod
    def finish(self) -> float:
        """Wait until all vectors are indexed; return the seconds from the last insert until then."""

    @abstractmethod
    def index_mb(self) -> float | str:
        """Memory that the index takes, or why that is not known."""

    @abstractmethod
    def facts(self) -> dict[str, JsonValue]:
        """Version and settings, read back from the database."""

    @abstractmethod
    def close(self) -> None:
        """Remove the collection and let go of the database, also after a failure."""


class HttpCollection(Collection):
    """A collection that is searched over HTTP; the load loop sends its requests."""

    def __init__(self, rest: JsonClient, task: SearchTask, patience_s: float) -> None:
        self._rest, self._task, self._patience_s = rest, task, patience_s

    @abstractmethod
    def search_request(self, query: Floats) -> tuple[str, str, bytes]:
        """Method, path and body of one search."""

    @abstractmethod
    def read_ids(self, body: bytes) -> Sequence[int]:
        """The vectors that an answer names; ValueError when it is not an answer."""

    def headers(self) -> Mapping[str, str]:
        return {**self._rest.headers, "Content-Type": "application/json"}


Search = Callable[[int], NDArray[np.int64]]
"""Number of a query → numbers of the vectors found."""


class Searcher(Protocol):
    """One thread's own way to search: its connection, its settings."""

    search: Search

    def close(self) -> None: ...


class ThreadCollection(Collection):
    """A collection that is searched by calls from threads of this process."""

    failures: tuple[type[Exception], ...]
    """What a failed search raises; the load continues and counts it."""

    @abstractmethod
    def searcher(self, queries: Floats) -> Searcher:
        """A way to search for the thread that calls this."""


class DriverCollection(ThreadCollection):
    """A collection of a server that is reached by a driver of its own, at an address that is not HTTP."""

    @abstractmethod
    def __init__(self, url: str, task: SearchTask, timeout_s: float) -> None: ...

    @classmethod
    @abstractmethod
    def service_url(cls, host: str, port: int, path: str | None) -> str:
        """The address of a service that we started, with `target.path` where the file gives one."""

    @classmethod
    @abstractmethod
    def checked_url(cls, url: str) -> str:
        """An address of the file that may be connected to."""

    def local_pid(self) -> int | None:
        """The process that answers, where it runs on this machine and can be seen."""
        return None


class LibraryCollection(ThreadCollection):
    """An index of a library inside this process."""

    @abstractmethod
    def __init__(self, task: SearchTask, threads: int | None) -> None: ...


def refuse_loads(definition: Definition, why: str, try_: str, *, shared: bool = False) -> None:
    """Refuse what a load of searches has no use for, before anything is built for it.

    Args:
        shared: whether several client processes may share the load.
    """
    load = definition.load
    several = not shared and load.clients > 1
    for name, given in (("rate: search", load.rate == "search"), ("trace", load.trace), ("clients", several)):
        if given:
            raise MeasureError(f"load.{name} {why}", code="usage", at="load", try_=try_)


def own_name(separator: str = "_") -> str:
    """A name that no collection has yet."""
    return f"assay{separator}{uuid.uuid4().hex[:20]}"


def renamed(options: Options, names: Mapping[str, str]) -> dict[str, JsonValue]:
    """Options with the common short names put into the engine's own; all others stay as they are."""
    translated: dict[str, JsonValue] = {}
    for key, value in options.items():
        name = names.get(key, key)
        if name in translated:
            raise MeasureError(f"{name} is given twice, under two names", code="index-option", try_="keep one of them")
        translated[name] = value
    return translated


def refuse_ignored(engine: str, asked: Mapping[str, JsonValue], effective: Mapping[str, JsonValue], at: str) -> None:
    """Make sure that what was asked for is what the engine has."""
    for name, value in asked.items():
        if value is None:
            continue
        if name not in effective:
            available = ", ".join(sorted(effective)) or "none"
            message = f"{engine} took no notice of {name!r}; it has {available}"
            raise MeasureError(message, code="index-option", at=at, try_=f"use the engine's own names under {at}")
        if effective[name] != value and not (
            isinstance(value, dict) and isinstance(effective[name], dict) and _within(value, effective[name])
        ):
            message = f"{engine} made {name} {effective[name]!r} where {value!r} was asked for"
            raise MeasureError(message, code="index-option", at=at, try_="ask for a value that it accepts")


def _within(asked: Mapping[str, JsonValue], effective: JsonValue) -> bool:
    return isinstance(effective, dict) and all(
        _within(value, effective.get(name)) if isinstance(value, dict) else effective.get(name) == value
        for name, value in asked.items()
    )
