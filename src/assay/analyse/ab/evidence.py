"""What a test concludes from the differences of the blocks, and the interval of all that it does not reject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assay.analyse.ab.pairs import Values

Design = Literal["planned", "open-ended"]

# How far from the middle the end of an interval is looked for, in units of the widest deviation.
_REACH: list[float] = [2.0**step for step in range(10, -7, -1)]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the blocks say, on the scale on which they were subtracted."""

    differs: bool
    centre: float
    ends: tuple[float, float] | None
    """None where too few blocks promise any end."""
    method: str
    """How the interval was found, in words."""


def centre_of(values: Values) -> float:
    """The middle of all means of two values (Hodges and Lehmann): hardly moved by outliers, and still precise."""
    first, second = np.triu_indices(values.size)
    return float(np.median((values[first] + values[second]) / 2))


def interval_of(values: Values, excluded: Callable[[float], bool], *, halvings: int = 24) -> tuple[float, float] | None:
    """Where the true difference lies, from a test that says which ones are excluded; None where it excludes none."""
    if not values.size:
        return None
    centre = float(np.median(values))
    widest = float(np.abs(values - centre).max())
    if widest == 0:
        return (centre, centre) if excluded(centre + 1.0) else None
    ends = [_end(excluded, centre, side * widest, halvings) for side in (-1.0, 1.0)]
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _end(excluded: Callable[[float], bool], centre: float, unit: float, halvings: int) -> float | None:
    """The outermost difference on one side that is not yet excluded, to many digits."""
    if not excluded(centre + _REACH[0] * unit):
        return None
    outer, inner = _REACH[0], 0.0
    for reach in _REACH[1:]:
        if not excluded(centre + reach * unit):
            inner = reach
            break
        outer = reach
    for _ in range(halvings):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if excluded(centre + middle * unit) else (outer, middle)
    return centre + outer * unit
