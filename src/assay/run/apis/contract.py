"""What a protocol of served targets must say: how its requests are written, its answers read and its models loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from assay.run.apis.answers import AnswerDraft, ServedAnswer
from assay.run.apis.readers import Take
from assay.spec.target import Served

if TYPE_CHECKING:
    from assay.run.workloads.records import Item

_VERSION = re.compile(r"^v\d+[a-z0-9.]*$")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, before it is put on the wire."""

    method: str
    path: str
    """Relative to the endpoint's URL; `wire_path` puts the two together."""
    headers: Mapping[str, str]
    """The protocol's and the user's; secrets are still references."""
    body: bytes


class ServedApi:
    """A protocol, registered by name under the entry-point group `assay.apis`.

    The class itself says what must be known before anything runs. Its module is loaded by the process that plans as
    well, so it imports nothing heavy. An instance belongs to one target and is used by the process that measures.
    """

    needs_model: ClassVar[bool] = True
    """Whether a request names a model: a file without `target.model` is then refused before it runs."""
    task: ClassVar[str | None] = None
    """Task of a workload that names none; `synthetic`, or `prompts` where there is a file, when None."""
    generates: ClassVar[bool] = True
    """Whether answers are made of tokens."""
    counts_input: ClassVar[bool] = True
    """Whether prompts are made of tokens."""
    streams: bool = False
    """Whether answers are asked for token by token."""
    take: Take | None = None
    """Reads one event of a stream of server-sent events, which makes equal streams quick to read; None for others."""

    def __init__(self, target: Served, seed: int) -> None:
        """Check what the target says, once.

        Raises:
            MeasureError: if it lacks what the protocol needs.
        """
        raise NotImplementedError

    def call(self, item: Item, turn: int, answers: Sequence[str]) -> Call:
        """The request for one turn of an item, after the server's answers to the turns before."""
        raise NotImplementedError

    def draft(self, body: bytes) -> AnswerDraft:
        """Read the body of an answer; what is wrong with it is noted in the draft, never raised."""
        raise NotImplementedError

    def read(self, body: bytes | memoryview) -> ServedAnswer:
        return self.draft(bytes(body)).answer()

    @classmethod
    def warm_request(cls, target: Served) -> tuple[str, dict[str, JsonValue]] | None:  # noqa: ARG003
        """Path and JSON body of one small POST that has the server load its model; None where there is none."""
        return None


def wire_path(endpoint_path: str, api_path: str) -> str:
    """The whole path of a request.

    What both have is said once: `/v1` and `/v1/chat/completions` give `/v1/chat/completions`. An endpoint that has a
    version of its own (`/v1beta/openai`) keeps it, and the protocol's version is left out.
    """
    rest, mark, query = api_path.partition("?")
    base = [part for part in endpoint_path.split("/") if part]
    own = [part for part in rest.split("/") if part]
    overlap = _overlap(base, own)
    if not overlap and own and _VERSION.match(own[0]) and any(_VERSION.match(part) for part in base):
        overlap = 1
    slash = "/" if rest.endswith("/") and own else ""
    return "/" + "/".join([*base, *own[overlap:]]) + (slash if own else "") + mark + query


def _overlap(base: list[str], own: list[str]) -> int:
    """How many of the protocol's first parts the endpoint's path already ends with."""
    for count in range(min(len(base), len(own)), 0, -1):
        if base[-count:] == own[:count]:
            return count
    return 0
