"""Whether the machine itself moved together with a series: the control workload, held clocks, and busy neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pydantic import JsonValue

from assay.analyse.series.records import Finding
from assay.analyse.words import percent

Contexts = Sequence[Mapping[str, JsonValue]]

_PARTS = ("integer_ms", "memory_ms")
_FEWEST = 2
# A timing of the control workload is never better known than this.
_LEAST_SPREAD = 0.003
_NORMAL_MAD = 1.4826
_ERROR_OF_MEDIAN = 1.25
_CLEAR = 3.0
_LEAST_MOVE = 0.01
# The control workload explains a change if it moved by at least this share of it.
_ENOUGH = 0.3
# A check speaks of the machine if it failed at most points on one side of the change, and at few on the other.
_MOST = 0.5
_FEW = 0.2
_OF_THE_MACHINE = (
    "clocks not throttled",
    "machine quiet",
    "no foreign process on the device",
    "device held alone",
    "cool enough",
    "memory free",
)


@dataclass(frozen=True, slots=True)
class Moved:
    """What the control workload did while a series changed."""

    along: bool
    """Whether it went the same way, and far enough to explain the change."""
    sentence: str


def control_moved(finding: Finding, before: Contexts, after: Contexts) -> Moved | None:
    """What the control workload did; None where it was not timed on both sides."""
    later = after[_settled(finding, len(after)) :]
    moves = [found for part in _PARTS if (found := _move(part, before, later)) is not None]
    if not moves:
        return None
    share, clear, part = max(moves, key=lambda one: abs(one[0]))
    told = f"{percent(share, signed=True)}, {part.removesuffix('_ms')} loop"
    if not clear:
        return Moved(False, f"the control workload did not move ({told})")
    way = {"worse": 1, "better": -1, "unknown": 0}[finding.direction]
    size = abs(finding.change or 0.0)
    if share * way < 0 or abs(share) < _ENOUGH * size:
        return Moved(False, f"the control workload moved ({told}), which does not explain it")
    return Moved(True, f"the control workload moved too ({told})")


def disturbed(finding: Finding, before: Contexts, after: Contexts) -> str:
    """How checks of the machine failed on one side of a change and not on the other; empty where they did not."""
    sides = (before, after) if finding.direction == "better" else (after, before)
    for name in _OF_THE_MACHINE:
        (bad, of_bad), (good, of_good) = (_failed(name, side) for side in sides)
        if of_bad >= _FEWEST and of_good >= _FEWEST and bad >= _MOST * of_bad and good <= _FEW * of_good:
            when, other = ("before", "after") if finding.direction == "better" else ("after", "before")
            return f'"{name}" failed at {bad} of {of_bad} points {when} it, and at {good} of {of_good} {other}'
    return ""


def _settled(finding: Finding, count: int) -> int:
    """From which of the points after it a change is all there: at once for a step, at its end for a drift."""
    if finding.kind == "step":
        return 0
    return max(0, min(finding.range[1] - finding.first_bad, count - max(3, count // 3)))


def _move(part: str, before: Contexts, after: Contexts) -> tuple[float, bool, str] | None:
    """By which share a part of the control workload moved, whether that is clear, and its name."""
    version = next((one for side in (after, before) for row in side if (one := _version(row)) is not None), None)
    sides = [
        [took for row in side if _version(row) == version and (took := _took(row, part))] for side in (before, after)
    ]
    if min(map(len, sides)) < _FEWEST:
        return None
    middles = [median(side) for side in sides]
    away = [abs(took / middle - 1) for side, middle in zip(sides, middles, strict=True) for took in side]
    spread = max(_LEAST_SPREAD, _NORMAL_MAD * median(away))
    error = _ERROR_OF_MEDIAN * spread * (1 / len(sides[0]) + 1 / len(sides[1])) ** 0.5
    share = middles[1] / middles[0] - 1
    return share, abs(share) > max(_CLEAR * error, _LEAST_MOVE), part


def _version(row: Mapping[str, JsonValue]) -> JsonValue:
    control = row.get("control")
    return control.get("version") if isinstance(control, Mapping) else None


def _took(row: Mapping[str, JsonValue], part: str) -> float:
    control = row.get("control")
    value = control.get(part) if isinstance(control, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0


def _failed(name: str, side: Contexts) -> tuple[int, int]:
    """At how many points a check failed, and at how many it was asked."""
    answers = [answer for row in side if (answer := _failed_at(name, row)) is not None]
    return sum(answers), len(answers)


def _failed_at(name: str, row: Mapping[str, JsonValue]) -> bool | None:
    if name == "clocks not throttled" and isinstance(told := row.get("throttled"), bool):
        return told
    doubts = row.get("doubts")
    return name in doubts if isinstance(doubts, list) else None
