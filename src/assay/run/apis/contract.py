"""What a protocol of served targets must say: how its requests are written, its answers read and its models loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.apis.answers import AnswerDraft
from assay.run.apis.readers import Take
from assay.spec.target import Served

if TYPE_CHECKING:
    from assay.run.workloads import Item

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

    @classmethod
    def warm_request(cls, target: Served) -> tuple[str, dict[str, JsonValue]] | None:  # noqa: ARG003
        """Path and JSON body of one small POST that has the server load its model; None where there is none."""
        return None


def wire_path(endpoint_path: str, api_path: str) -> str:
    """The whole path of a request.

    A part that both have occurs once: `/v1` and `/v1/chat/completions` give `/v1/chat/completions`. An endpoint with a
    version of its own (`/v1beta/openai`) keeps it, and the protocol's version is left out.
    """
    rest, mark, query = api_path.partition("?")
    base = [part for part in endpoint_path.split("/") if part]
    own = [part for part in rest.split("/") if part]
    # How many of the protocol's first parts the endpoint's path already ends with.
    overlap = next((size for size in range(min(len(base), len(own)), 0, -1) if base[-size:] == own[:size]), 0)
    if not overlap and own and _VERSION.match(own[0]) and any(_VERSION.match(part) for part in base):
        overlap = 1
    slash = "/" if rest.endswith("/") and own else ""
    return "/" + "/".join([*base, *own[overlap:]]) + (slash if own else "") + mark + query


OUTPUT_TOKENS = "$output_tokens"
PROMPT = "$prompt"


def merged(fields: Mapping[str, JsonValue], options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Our fields with the user's over them: theirs win, null takes a field away, sections are merged."""
    whole = dict(fields)
    for name, value in options.items():
        mine = whole.get(name)
        if value is None:
            whole.pop(name, None)
        elif isinstance(value, dict) and isinstance(mine, dict):
            whole[name] = merged(mine, value)
        else:
            whole[name] = value
    return whole


def filled(value: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """A tree with its placeholders replaced: one that stands alone keeps its value's type.

    Raises:
        MeasureError: if a placeholder has no value.
    """
    if isinstance(value, dict):
        return {name: filled(item, values) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, values) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    if value in values:
        return _given(value, values)
    # The prompt comes last: what looks like a placeholder inside it is text.
    for name in sorted(values, key=lambda name: name == PROMPT):
        if name in value:
            value = value.replace(name, str(_given(name, values)))
    return value


def has_placeholder(value: JsonValue, name: str) -> bool:
    if isinstance(value, dict):
        return any(has_placeholder(item, name) for item in value.values())
    if isinstance(value, list):
        return any(has_placeholder(item, name) for item in value)
    return isinstance(value, str) and name in value


def _given(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if values[name] is None:
        message = f"{name} is used in a request, but the workload gives no number of output tokens"
        try_ = "set workload.output_tokens, or remove the placeholder"
        raise MeasureError(message, code="output-tokens", at="target", try_=try_)
    return values[name]


def headers_of(target: Served, accept: str) -> dict[str, str]:
    """The protocol's headers with the user's over them, whatever their case."""
    theirs = {name.lower() for name in target.headers}
    ours = {"Content-Type": "application/json", "Accept": accept}
    return {name: value for name, value in ours.items() if name.lower() not in theirs} | dict(target.headers)


def model_of(target: Served) -> str:
    """The model that requests name.

    Raises:
        MeasureError: if the file names none.
    """
    model = target.options.get("model", target.model)
    if not isinstance(model, str) or not model:
        message = f"the protocol {target.api} needs the name of a model, and target.model is missing"
        try_ = "add target.model; many servers list their models under /v1/models"
        raise MeasureError(message, code="target", at="target.model", try_=try_)
    return model


def messages_of(item: Item, turn: int, answers: list[str]) -> list[JsonValue]:
    """A conversation up to a turn: system, user and the server's own answers in order."""
    messages: list[JsonValue] = [] if item.system is None else [{"role": "system", "content": item.system}]
    for number in range(turn):
        messages.append({"role": "user", "content": item.turns[number]})
        messages.append({"role": "assistant", "content": answers[number]})
    messages.append({"role": "user", "content": item.turns[turn]})
    return messages
