"""Quantities that are fixed or drawn: `50ms`, `normal:50ms,5ms`, `lognormal:50ms,0.3`, `exponential:50ms`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from assay.units import seconds

Kind = Literal["constant", "uniform", "normal", "lognormal", "exponential"]
# What stands after the colon: how many values, and which of them have the quantity's unit.
_SHAPES: dict[Kind, tuple[str, tuple[bool, ...]]] = {
    "constant": ("VALUE", (True,)),
    "uniform": ("LOW,HIGH", (True, True)),
    "normal": ("MEAN,SD", (True, True)),
    "lognormal": ("MEDIAN,SIGMA", (True, False)),
    "exponential": ("MEAN", (True,)),
}


@dataclass(frozen=True, slots=True)
class Draw:
    """A quantity; `normal` is cut off at 0."""

    kind: Kind
    first: float
    second: float = 0.0

    @property
    def is_constant(self) -> bool:
        return self.kind == "constant"

    def value(self, source: Random) -> float:
        if self.kind == "constant":
            return self.first
        if self.kind == "uniform":
            return source.uniform(self.first, self.second)
        if self.kind == "normal":
            return max(0.0, source.normalvariate(self.first, self.second))
        if self.kind == "lognormal":
            return self.first * math.exp(source.normalvariate(0.0, self.second))
        return source.expovariate(1 / self.first) if self.first else 0.0


def duration(value: object) -> Draw:
    """A time, fixed or drawn, in seconds."""
    return _parse(value, seconds)


def count(value: object) -> Draw:
    """A number of things, fixed or drawn; rounded when it is used."""
    return _parse(value, _number)


def _parse(value: object, unit: Callable[[object], float]) -> Draw:
    name, colon, rest = value.partition(":") if isinstance(value, str) else ("constant", "", "")
    if not colon:
        return Draw("constant", unit(value))
    kind = next((kind for kind in _SHAPES if kind == name.strip()), None)
    if kind is None:
        raise ValueError(f"unknown distribution {name!r} in {value!r}; use one of {', '.join(_SHAPES)}")
    shape, with_unit = _SHAPES[kind]
    texts = [text.strip() for text in rest.split(",")]
    if len(texts) != len(with_unit):
        raise ValueError(f"{value!r} needs {len(with_unit)} values: {kind}:{shape}")
    numbers = [unit(text) if has_unit else _number(text) for text, has_unit in zip(texts, with_unit, strict=True)]
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise ValueError(f"{value!r} ends before it begins")
    return Draw(kind, *numbers)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004  (reported like every wrong value)
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is not a number of 0 or more")
    return number
