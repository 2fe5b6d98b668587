"""Why a series changed: the likeliest cause with its evidence, all that differs, and whether the machine moved too.

A thing that changed together with the series explains it the better, the rarer it changes: a driver that is new for the
first time in months says much, a commit that is new every night says little, but it may be all there is. A thing that
had its new value before, while all was well, or got its old value back without effect, explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from pydantic import JsonValue

from assay.analyse.series.factors import CAUSES, Factor, factors
from assay.analyse.series.records import Finding
from assay.analyse.text import count, listed, percent

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
class ControlShift:
    """What the control workload did while a series changed."""

    along: bool
    """Whether it went the same way, and far enough to explain the change."""
    sentence: str


def control_moved(finding: Finding, before: Contexts, after: Contexts) -> ControlShift | None:
    """What the control workload did; None where it was not timed on both sides."""
    later = after[_settled(finding, len(after)) :]
    moves = [found for part in _PARTS if (found := _move(part, before, later)) is not None]
    if not moves:
        return None
    share, clear, part = max(moves, key=lambda one: abs(one[0]))
    told = f"{percent(share, signed=True)}, {part.removesuffix('_ms')} loop"
    if not clear:
        return ControlShift(False, f"the control workload did not move ({told})")
    way = {"worse": 1, "better": -1, "unknown": 0}[finding.direction]
    size = abs(finding.change or 0.0)
    if share * way < 0 or abs(share) < _ENOUGH * size:
        return ControlShift(False, f"the control workload moved ({told}), which does not explain it")
    return ControlShift(True, f"the control workload moved too ({told})")


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


Cause = Literal["code", "data or model", "environment", "machine", "method", "noise", "unknown"]

# A difference counts as evidence if it would be there by chance in at most one of so many cases.
_TELLS = 2.0
# Two causes are told apart if one of them is so many times as likely.
_CLEARER = 3.0
# With nothing else to blame, a change is taken for chance unless that is rarer than this.
_RARE = 0.003
# Only these can make the control workload itself slower: it runs in a bare interpreter, beside everything else.
_BELOW_CONTROL = frozenset({"kernel", "os", "governor", "python"})


@dataclass(frozen=True, slots=True)
class FactorDifference:
    """Something that is not the same after a change as before it."""

    name: str
    before: JsonValue
    after: JsonValue
    elsewhere: int = 0
    """How often it changed at other points around, where the series did not."""


@dataclass(frozen=True, slots=True)
class CauseAnalysis:
    """Why a series changed, as far as the evidence tells."""

    cause: Cause
    because: tuple[str, ...]
    """One plain sentence per reason."""
    differs: tuple[FactorDifference, ...] = ()


def triage(
    finding: Finding, before: Sequence[Mapping[str, JsonValue]], after: Sequence[Mapping[str, JsonValue]]
) -> CauseAnalysis:
    """Say why a series changed.

    Args:
        before: What was around the points up to and with the last good one, oldest first; those on its level.
        after: What was around the points from the first bad one on; those on its level.
    """
    seen = factors(finding, before, after)
    differs = tuple(FactorDifference(one.name, one.before, one.after, one.elsewhere) for one in seen if one.differs)
    cause, because = _cause(finding, seen, before, after)
    return CauseAnalysis(cause, because, differs)


def _cause(
    finding: Finding,
    seen: Sequence[Factor],
    before: Sequence[Mapping[str, JsonValue]],
    after: Sequence[Mapping[str, JsonValue]],
) -> tuple[Cause, tuple[str, ...]]:
    if doubted := _doubted(finding):
        return "noise", doubted
    moved = control_moved(finding, before, after)
    hot = disturbed(finding, before, after)
    telling = [] if finding.kind == "drift" else [one for one in seen if one.explains and one.weight >= _TELLS]
    method = [one for one in telling if one.cause == "method"]
    if method:
        return "method", (*map(_told, method), *_control_said(moved))
    if moved is not None and moved.along:
        return _slower_machine(moved, hot, telling)
    if hot:
        return "machine", (hot, *_beside(telling))
    found, because = _likeliest(finding, seen, telling)
    return found, (*because, *_control_said(moved))


def _doubted(finding: Finding) -> tuple[str, ...]:
    """Why a finding is no change to speak of; empty where it is one."""
    interval = finding.difference_interval
    if interval.low <= 0 <= interval.high:
        return ("the interval of the change reaches over zero",)
    # Whoever looks at many series adds a reason of his own to what the series itself says.
    own = 1 if finding.direction == "unknown" else 0
    # What is only new is no noise: it is looked at like any other change.
    is_doubted = finding.answer == "cannot tell" and finding.unconfirmed is None
    return finding.because[own:] if is_doubted else ()


def _slower_machine(moved: ControlShift, hot: str, telling: Sequence[Factor]) -> tuple[Cause, tuple[str, ...]]:
    """The cause where the control workload moved too: the machine, or what lies below all programs on it."""
    below = [one for one in telling if one.name in _BELOW_CONTROL]
    if below and not any(one.cause == "machine" for one in telling):
        return "environment", (*map(_told, below), moved.sentence)
    others = [one for one in telling if one.cause == "machine"]
    rest = _beside([one for one in telling if one.cause != "machine"])
    return "machine", (moved.sentence, *([hot] if hot else []), *map(_told, others), *rest)


def _likeliest(finding: Finding, seen: Sequence[Factor], telling: Sequence[Factor]) -> tuple[Cause, tuple[str, ...]]:
    """The cause whose differences are hardest to have by chance; code where there is nothing but commits."""
    if finding.kind == "drift":
        changed = [one.name for one in seen if one.differs]
        more = f"; what differs by now ({listed(changed)}) changed at once" if changed else ""
        return "unknown", (f"it came slowly over the points {finding.range[0]} to {finding.range[1]}{more}",)
    ranked = sorted(_by_cause(telling), key=lambda pair: -pair[1][0].weight)
    if not ranked:
        return _only_code(finding, seen)
    best = ranked[0][1][0].weight
    close = [pair for pair in ranked if pair[1][0].weight * _CLEARER >= best]
    if len(close) == 1:
        return ranked[0][0], (*map(_told, ranked[0][1]), *_beside([one for _, group in ranked[1:] for one in group]))
    told = [_told(one) for _, group in close for one in group]
    names = " and ".join(cause for cause, _ in close)
    return "unknown", (*told, f"{names} changed together: a run with one of them alone would tell")


def _by_cause(telling: Sequence[Factor]) -> Iterator[tuple[Cause, list[Factor]]]:
    for cause in CAUSES:
        group = sorted((one for one in telling if one.cause == cause), key=lambda one: -one.weight)
        if group:
            yield cause, group


def _only_code(finding: Finding, seen: Sequence[Factor]) -> tuple[Cause, tuple[str, ...]]:
    """The cause where nothing rare changed."""
    code = [one for one in seen if one.cause == "code" and one.explains]
    if code:
        return "code", (*map(_told, code), "nothing else that is recorded explains it")
    if finding.chance > _RARE:
        told = f"chance alone shows as much in {percent(finding.chance)} of series"
        return "unknown" if finding.unconfirmed else "noise", (f"nothing that is recorded explains it, and {told}",)
    often = [one for one in seen if one.differs]
    if often:
        return "unknown", (f"{listed([one.name for one in often])} differs, and did so before without effect",)
    return "unknown", ("nothing that is recorded differs between the points before and after",)


def _told(one: Factor) -> str:
    changed = f"{one.name} changed from {shown(one.before)} to {shown(one.after)}"
    if not one.chances:
        return changed
    if not one.elsewhere:
        return f"{changed}, and at none of {count(one.chances, 'other step')} around"
    return f"{changed}, as it did at {one.elsewhere} of {count(one.chances, 'other step')} around"


def _beside(others: Sequence[Factor]) -> tuple[str, ...]:
    """What changed too, in one sentence."""
    if not others:
        return ()
    return (f"{listed([one.name for one in others])} changed too, which is less telling",)


def _control_said(moved: ControlShift | None) -> tuple[str, ...]:
    return () if moved is None or moved.along else (moved.sentence,)


def shown(value: JsonValue) -> str:
    """A value for people: long digests by their beginning."""
    if value is None:
        return "none"
    text = str(value)
    if isinstance(value, str):
        digest = value.rpartition(":")[2]
        if len(digest) >= 32 and all(char in "0123456789abcdef" for char in digest):
            text = digest[:12]
    return text if len(text) <= 60 else f"{text[:59]}…"
