"""Which metrics of a job are shown first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from pydantic import JsonValue, ValidationError

from assay.analyse.headline import declared, headline_or_first
from assay.analyse.records import MultiRunJobResult
from assay.metrics import base_name
from assay.spec.benchmark import Definition


def headline_of(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured; else the first that there is.

    Nothing takes the place of metrics that the file declares: `unreported` names those that are missing.
    """
    return _headline_of(json.dumps(result.definition), tuple(result.metrics))


def unreported(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that the file declares and no run gave, in the order of the file."""
    known = {base_name(name) for name in result.metrics}
    return tuple(name for name in _declared(json.dumps(result.definition)) if name not in known)


@lru_cache(maxsize=2048)
def _declared(definition: str) -> tuple[str, ...]:
    try:
        return declared(Definition.model_validate_json(definition))
    except ValidationError:  # written by another version
        return ()


# A comparison asks for every job several times, and the next one for the same jobs again.
@lru_cache(maxsize=2048)
def _headline_of(definition: str, measured: tuple[str, ...]) -> tuple[str, ...]:
    try:
        read = Definition.model_validate_json(definition)
    except ValidationError:  # written by another version: there is still something to show
        return measured[:1]
    return headline_or_first(read, measured)


def section(definition: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """A section of a job's definition, empty when it is missing."""
    part = definition.get(name)
    return part if isinstance(part, dict) else {}
