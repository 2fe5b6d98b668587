"""Request bodies: our fields, the user's on top, and placeholders filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.spec.target import Served

if TYPE_CHECKING:
    from assay.run.workloads.records import Item

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
    """Whether a tree has a placeholder anywhere."""
    if isinstance(value, dict):
        return any(has_placeholder(item, name) for item in value.values())
    if isinstance(value, list):
        return any(has_placeholder(item, name) for item in value)
    return isinstance(value, str) and name in value


def _given(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if values[name] is None:
        raise MeasureError(
            f"{name} is used in a request, but the workload gives no number of output tokens",
            code="output-tokens",
            at="target",
            try_="set workload.output_tokens, or remove the placeholder",
        )
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
        raise MeasureError(
            f"the protocol {target.api} needs the name of a model, and target.model is missing",
            code="target",
            at="target.model",
            try_="add target.model; many servers list their models under /v1/models",
        )
    return model


def messages_of(item: Item, turn: int, answers: list[str]) -> list[JsonValue]:
    """A conversation up to a turn: system, user and the server's own answers in order."""
    messages: list[JsonValue] = [] if item.system is None else [{"role": "system", "content": item.system}]
    for number in range(turn):
        messages.append({"role": "user", "content": item.turns[number]})
        messages.append({"role": "assistant", "content": answers[number]})
    messages.append({"role": "user", "content": item.turns[turn]})
    return messages
