"""What every section of a benchmark file shares: frozen, strict, units parsed at the edge."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, WithJsonSchema

from assay import units


class Section(BaseModel):
    """A part of a benchmark file: unknown keys are errors, values are never coerced silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _quantity(examples: list[JsonValue]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}], "examples": examples})


Duration = Annotated[float, BeforeValidator(units.seconds), _quantity(["30s", "500ms", "5m"])]
Share = Annotated[float, BeforeValidator(units.ratio), _quantity(["2%", 0.02])]
Size = Annotated[int, BeforeValidator(units.size_bytes), _quantity(["16GiB", "500MB"])]
