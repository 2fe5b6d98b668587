"""A machine that itself moved between two results: a change that is no larger than that cannot be told from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import JsonValue

from assay.analyse.compare.likeness import CONTROL, SAME, SIDES, Sides
from assay.analyse.records import Comparison, MultiRunJobResult
from assay.analyse.series.identity import context, section
from assay.analyse.words import percent

# A control workload tells how fast a machine is. Scores, sizes and counts do not depend on that.
_TIMES = frozenset({"ns", "us", "µs", "ms", "s", "min", "h", "TFLOPS", "TOPS"})


@dataclass(frozen=True, slots=True)
class Moved:
    """How far the control workload moved between two sides."""

    took: float
    """Change of its time, as a share: 0.1 is a machine that became slower by that much."""
    sentence: str

    def explains(self, change: float, unit: str) -> str:
        """Why a relative change of a metric cannot be told from the machine's own; empty where it can."""
        if unit not in _TIMES and not unit.endswith("/s"):
            return ""
        if change > -1 and abs(math.log1p(change)) > abs(math.log1p(self.took)):
            return ""
        return f"the machine itself moved by as much as the change or more: {self.sentence}"


def machine_moved(
    a: Sequence[MultiRunJobResult], b: Sequence[MultiRunJobResult], sides: Sides = SIDES, *, anyway: bool = False
) -> Moved | None:
    """How far the machine moved from some results to others; None where it did not, or where that is not known.

    Args:
        anyway: Whether the difference between the sides is asked about: two machines then differ on purpose.
    """
    first, second = ([context(job) for job in side] for side in (a, b))
    if anyway and {facts.get("machine") for facts in first} != {facts.get("machine") for facts in second}:
        return None
    controls = [[section(facts, "control") for facts in side] for side in (first, second)]
    if len({control.get("version") for side in controls for control in side}) != 1:
        return None
    found = {
        name: float(np.median(times[1]) / np.median(times[0])) - 1
        for part, name in CONTROL.items()
        if all(times := [_times(side, part) for side in controls])
    }
    name = max(found, key=lambda one: abs(math.log1p(found[one])), default=None)
    if name is None or abs(math.log1p(found[name])) <= math.log1p(SAME):
        return None
    told = f"the control workload took {percent(found[name], signed=True)} around {sides[1]} result ({name})"
    return Moved(found[name], told)


def _times(controls: Sequence[Mapping[str, JsonValue]], part: str) -> list[float]:
    return [float(value) for one in controls if isinstance(value := one.get(part), int | float) and value > 0]


def doubted(one: Comparison, moved: Moved | None) -> Comparison:
    """A comparison whose answer is "cannot tell" where the machine moved as much."""
    if moved is None or one.answer == "cannot tell" or not one.a:
        return one
    reason = moved.explains((one.b - one.a) / abs(one.a), one.unit)
    return replace(one, answer="cannot tell", because=(reason, *one.because)) if reason else one
