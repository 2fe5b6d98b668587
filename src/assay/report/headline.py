"""Which metrics of a job are shown first."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from assay.analyse.headline import headline
from assay.analyse.records import MultiRunJobResult
from assay.spec.benchmark import Definition


def headline_of(result: MultiRunJobResult) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured; else the first that there is."""
    try:
        definition = Definition.model_validate_json(json.dumps(result.definition))
    except ValidationError:  # written by another version: there is still something to show
        return tuple(result.metrics)[:1]
    return headline(definition, result.metrics) or tuple(result.metrics)[:1]


def section(definition: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """A section of a job's definition, empty when it is missing."""
    part = definition.get(name)
    return part if isinstance(part, dict) else {}
