"""Which metrics of a job are shown first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from pydantic import JsonValue, ValidationError

from assay.analyse.headline import headline
from assay.analyse.records import MultiRunJobResult
from assay.spec.benchmark import Definition


def headline_of(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured; else the first that there is."""
    return _headline_of(json.dumps(result.definition), tuple(result.metrics))


# A comparison asks for every job several times, and the next one for the same jobs again.
@lru_cache(maxsize=2048)
def _headline_of(definition: str, measured: tuple[str, ...]) -> tuple[str, ...]:
    try:
        read = Definition.model_validate_json(definition)
    except ValidationError:  # written by another version: there is still something to show
        return measured[:1]
    return headline(read, measured) or measured[:1]


def section(definition: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """A section of a job's definition, empty when it is missing."""
    part = definition.get(name)
    return part if isinstance(part, dict) else {}
