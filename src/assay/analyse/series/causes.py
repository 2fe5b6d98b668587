"""Why a series changed: the likeliest cause with its evidence, all that differs, and whether the machine moved too.

A thing that changed together with the series explains it the better, the rarer it changes: a driver that is new for the
first time in months says much, a commit that is new every night says little, but it may be all there is. A thing that
had its new value before, while all was well, or got its old value back without effect, explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from pydantic import JsonValue

from assay.analyse.records import section
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
    moves = [move for part in _PARTS if (move := _move(part, before, later)) is not None]
    if not moves:
        return None
    share, clear, part = max(moves, key=lambda candidate: abs(candidate[0]))
    figures = f"{percent(share, signed=True)}, {part.removesuffix('_ms')} loop"
    if not clear:
        return ControlShift(False, f"the control workload did not move ({figures})")
    way = {"worse": 1, "better": -1, "unknown": 0}[finding.direction]
    size = abs(finding.change or 0.0)
    if share * way < 0 or abs(share) < _ENOUGH * size:
        return ControlShift(False, f"the control workload moved ({figures}), which does not explain it")
    return ControlShift(True, f"the control workload moved too ({figures})")


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
    """From which of the points after it a change is complete: the first for a step, its end for a drift."""
    if finding.kind == "step":
        return 0
    return max(0, min(finding.range[1] - finding.first_bad, count - max(3, count // 3)))


def _move(part: str, before: Contexts, after: Contexts) -> tuple[float, bool, str] | None:
    """By which share a part of the control workload moved, whether that is clear, and its name."""
    version = next((known for side in (after, before) for row in side if (known := _version(row)) is not None), None)
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
    return section(row, "control").get("version")


def _took(row: Mapping[str, JsonValue], part: str) -> float:
    value = section(row, "control").get(part)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0


def _failed(name: str, side: Contexts) -> tuple[int, int]:
    """At how many points a check failed, and at how many it was asked."""
    answers = []
    for row in side:
        if name == "clocks not throttled" and isinstance(throttled := row.get("throttled"), bool):
            answers.append(throttled)
        elif isinstance(doubts := row.get("doubts"), list):
            answers.append(name in doubts)
    return sum(answers), len(answers)


Cause = Literal["code", "data or model", "environment", "machine", "method", "noise", "unknown"]

# A difference counts as evidence if it would be there by chance in at most one of this many cases.
_TELLING_RATIO = 2.0
# Two causes are distinguished if one of them is this many times as likely.
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


def triage(finding: Finding, before: Contexts, after: Contexts) -> CauseAnalysis:
    """Say why a series changed.

    Args:
        before: What was around the points up to and with the last good one, oldest first; those on its level.
        after: What was around the points from the first bad one on; those on its level.
    """
    compared = factors(finding, before, after)
    differs = tuple(
        FactorDifference(factor.name, factor.before, factor.after, factor.elsewhere)
        for factor in compared
        if factor.differs
    )
    cause, because = _cause(finding, compared, before, after)
    return CauseAnalysis(cause, because, differs)


def _cause(
    finding: Finding, compared: Sequence[Factor], before: Contexts, after: Contexts
) -> tuple[Cause, tuple[str, ...]]:
    if doubted := _doubted(finding):
        return "noise", doubted
    moved = control_moved(finding, before, after)
    hot = disturbed(finding, before, after)
    strong = [factor for factor in compared if factor.explains and factor.weight >= _TELLING_RATIO]
    telling = [] if finding.kind == "drift" else strong
    method = [factor for factor in telling if factor.cause == "method"]
    if method:
        return "method", (*map(_factor_text, method), *_control_said(moved))
    if moved is not None and moved.along:
        return _slower_machine(moved, hot, telling)
    if hot:
        return "machine", (hot, *_beside(telling))
    likely_cause, because = _likeliest(finding, compared, telling)
    return likely_cause, (*because, *_control_said(moved))


def _doubted(finding: Finding) -> tuple[str, ...]:
    """Why a finding is no change to speak of; empty where it is one."""
    interval = finding.difference_interval
    if interval.low <= 0 <= interval.high:
        return ("the interval of the change reaches over zero",)
    # Looking at many series adds a reason to what the series itself says.
    own = 1 if finding.direction == "unknown" else 0
    # What is only new is no noise: it is looked at like any other change.
    is_doubted = finding.answer == "cannot tell" and finding.unconfirmed is None
    return finding.because[own:] if is_doubted else ()


def _slower_machine(moved: ControlShift, hot: str, telling: Sequence[Factor]) -> tuple[Cause, tuple[str, ...]]:
    """The cause where the control workload moved too: the machine, or what lies below all programs on it."""
    below = [factor for factor in telling if factor.name in _BELOW_CONTROL]
    if below and not any(factor.cause == "machine" for factor in telling):
        return "environment", (*map(_factor_text, below), moved.sentence)
    others = [factor for factor in telling if factor.cause == "machine"]
    rest = _beside([factor for factor in telling if factor.cause != "machine"])
    return "machine", (moved.sentence, *([hot] if hot else []), *map(_factor_text, others), *rest)


def _likeliest(finding: Finding, seen: Sequence[Factor], telling: Sequence[Factor]) -> tuple[Cause, tuple[str, ...]]:
    """The cause whose differences are hardest to have by chance; code where there is nothing but commits."""
    if finding.kind == "drift":
        changed = [factor.name for factor in seen if factor.differs]
        more = f"; what differs by now ({listed(changed)}) changed in one step" if changed else ""
        return "unknown", (f"it came slowly over the points {finding.range[0]} to {finding.range[1]}{more}",)
    by_cause: dict[Cause, list[Factor]] = {}
    for cause in CAUSES:
        if group := sorted((factor for factor in telling if factor.cause == cause), key=lambda factor: -factor.weight):
            by_cause[cause] = group
    ranked = sorted(by_cause.items(), key=lambda pair: -pair[1][0].weight)
    if not ranked:
        return _only_code(finding, seen)
    best = ranked[0][1][0].weight
    close = [pair for pair in ranked if pair[1][0].weight * _CLEARER >= best]
    if len(close) == 1:
        return ranked[0][0], (
            *map(_factor_text, ranked[0][1]),
            *_beside([factor for _, group in ranked[1:] for factor in group]),
        )
    sentences = [_factor_text(factor) for _, group in close for factor in group]
    names = " and ".join(cause for cause, _ in close)
    return "unknown", (*sentences, f"{names} changed together: a run with one of them alone would tell")


def _only_code(finding: Finding, compared: Sequence[Factor]) -> tuple[Cause, tuple[str, ...]]:
    """The cause where nothing rare changed."""
    code = [factor for factor in compared if factor.cause == "code" and factor.explains]
    if code:
        return "code", (*map(_factor_text, code), "nothing else that is recorded explains it")
    if finding.chance > _RARE:
        remark = f"chance alone shows as much in {percent(finding.chance)} of series"
        return "unknown" if finding.unconfirmed else "noise", (f"nothing that is recorded explains it, and {remark}",)
    often = [factor for factor in compared if factor.differs]
    if often:
        return "unknown", (f"{listed([factor.name for factor in often])} differs, and did so before without effect",)
    return "unknown", ("nothing that is recorded differs between the points before and after",)


def _factor_text(factor: Factor) -> str:
    changed = f"{factor.name} changed from {shown(factor.before)} to {shown(factor.after)}"
    if not factor.chances:
        return changed
    if not factor.elsewhere:
        return f"{changed}, and at none of {count(factor.chances, 'other step')} around"
    return f"{changed}, as it did at {factor.elsewhere} of {count(factor.chances, 'other step')} around"


def _beside(others: Sequence[Factor]) -> tuple[str, ...]:
    """What changed too, in one sentence."""
    return (f"{listed([factor.name for factor in others])} changed too, which is less telling",) if others else ()


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


CAUSES: tuple[Cause, ...] = ("method", "machine", "environment", "data or model", "code")
# Names in the context of a point, by what they are evidence for; other names are shown, and blamed for nothing.
_NAMES: Mapping[Cause, tuple[str, ...]] = {
    "code": ("commit", "changed"),
    "data or model": ("model", "data", "files"),
    "environment": ("image", "server", "driver", "packages", "package", "python", "kernel", "os", "governor"),
    "machine": ("machine", "host"),
    "method": ("method", "assay", "spec"),
}
_CAUSE = {name: cause for cause, names in _NAMES.items() for name in names}
# Read on their own; the rest would only repeat them.
_APART = frozenset({"control", "throttled", "doubts", "definition", "program", "machine_id", "spec", "method"})
_UNKNOWN = object()
_HASHED = ("model", "data", "image")
# Parts of a definition that may change in the course of a series; where it runs and what it costs changes no number.
_METHOD = ("measure.", "objective.")
_SETTINGS = (*_METHOD, "needs.", "price.")


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing that may differ between two points."""

    name: str
    cause: Cause | None
    before: JsonValue
    after: JsonValue
    differs: bool
    """Whether it changed where the series may have."""
    explains: bool
    """Whether its new value was never there before the change, nor its old one after it."""
    elsewhere: int
    """How often it changed at other points."""
    chances: int
    """How often it could have."""
    weight: float
    """One over the chance that it changed here without having to do with it."""


def factors(finding: Finding, before: Contexts, after: Contexts) -> tuple[Factor, ...]:
    """Everything that is known of both sides; what differs comes first."""
    rows = [flat(facts) for facts in (*before, *after)]
    if not before or not after:
        return ()
    window = _window(finding, len(before), len(rows))
    names = dict.fromkeys(name for row in rows for name in row)
    all_factors = [factor for name in names if (factor := _factor(name, rows, len(before), window)) is not None]
    if (content := _content(rows, len(before), window)) is not None:
        all_factors.append(content)
    return tuple(sorted(all_factors, key=lambda entry: (not entry.differs, -entry.weight)))


def flat(context: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What was around a point, one name for each thing: packages and settings by their own names."""
    row: dict[str, JsonValue] = {}
    for name, value in context.items():
        if name in _APART:
            continue
        if isinstance(value, Mapping):
            prefix = "package " if name == "packages" else f"{name}."
            row |= {f"{prefix}{key}": leaf for key, leaf in _leaves(value)}
        else:
            row[name] = value
    method = context.get("method")
    if isinstance(method, Mapping):
        row |= dict(_leaves(method))
    elif method is not None:
        row["method"] = method
    # What is hashed here is listed above by its parts; only without them it counts itself.
    row |= {f"#{name}": context[name] for name in ("spec", "definition", "program") if name in context}
    if "machine" in row and isinstance(identity := context.get("machine_id"), str):
        row["#machine"] = identity
    return row


def cause_of(name: str) -> Cause | None:
    """What a difference of this name is evidence for."""
    if name.startswith("package "):
        return "environment"
    if name.startswith(_METHOD):
        return "method"
    return _CAUSE.get(name.partition(".")[0])


def _leaves(tree: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _window(finding: Finding, before: int, total: int) -> tuple[int, int]:
    """The steps from one row to the next at which the series may have changed, both ends included."""

    def row_of(index: int) -> int:
        if index >= finding.first_bad:
            return before + index - finding.first_bad
        return before if index > finding.last_good else before - 1 - (finding.last_good - index)

    first, last = (row_of(index) for index in finding.range)
    return max(1, min(first, before)), min(total - 1, max(last, before))


def _factor(name: str, rows: Contexts, middle: int, window: tuple[int, int]) -> Factor | None:
    if name.startswith("#"):
        return None
    values = _known(name, rows)
    if not any(value is not _UNKNOWN for value in values[:middle]) or all(v is _UNKNOWN for v in values[middle:]):
        return None
    inside, elsewhere, chances = _changes(values, window)
    first, last = _ends(values, middle, inside)
    old, new = values[first], values[last]
    seen_before = any(value == new for value in values[: window[0]])
    seen_after = any(value == old for value in values[window[1] :])
    differs = bool(inside)
    # Two machines may have one name; their ids tell them apart.
    shown = f"#{name}" if differs and rows[first].get(name) == rows[last].get(name) else name
    return Factor(
        name=name,
        cause=cause_of(name),
        before=rows[first].get(shown),
        after=rows[last].get(shown),
        differs=differs,
        explains=differs and old != new and not seen_before and not seen_after,
        elsewhere=elsewhere,
        chances=chances,
        weight=_weight(elsewhere, chances, window) if differs else 0.0,
    )


def _known(name: str, rows: Contexts) -> list[object]:
    """The value in each row: a machine by its own id where it has one, None for what is known to be absent."""

    def is_known(row: Mapping[str, JsonValue]) -> bool:
        if name.startswith("package "):
            return any(key.startswith("package ") for key in row)
        # The definition of a result is complete: a setting that is not in it has its default.
        return name in row or ("#definition" in row and name.startswith(_SETTINGS))

    return [row.get(f"#{name}", row.get(name)) if is_known(row) else _UNKNOWN for row in rows]


def _changes(values: Sequence[object], window: tuple[int, int]) -> tuple[list[int], int, int]:
    """Where a factor changed inside the window, how often elsewhere, and how often it could have there."""
    known_places = [place for place, value in enumerate(values) if value is not _UNKNOWN]
    inside: list[int] = []
    elsewhere = chances = 0
    for last, place in pairwise(known_places):
        changed = values[last] != values[place]
        # A step over unknown rows may have been anywhere between.
        if last < window[1] and place >= window[0]:
            inside += [place] if changed else []
        else:
            chances += 1
            elsewhere += changed
    return inside, elsewhere, chances


def _ends(values: Sequence[object], middle: int, at: Sequence[int]) -> tuple[int, int]:
    """The rows to compare: the last good and the first bad one, or the two between which it changed nearby."""

    def known(places: Iterator[int]) -> int:
        return next(place for place in places if values[place] is not _UNKNOWN)

    first, last = known(iter(range(middle - 1, -1, -1))), known(iter(range(middle, len(values))))
    if values[first] != values[last] or not at:
        return first, last
    nearest = min(at, key=lambda place: abs(place - middle))
    return known(iter(range(nearest - 1, -1, -1))), nearest


def _weight(elsewhere: int, chances: int, window: tuple[int, int]) -> float:
    """How much a change inside the window says, from how often there is one elsewhere."""
    rate = (elsewhere + 0.5) / (chances + 1)
    steps = window[1] - window[0] + 1
    return 1 / max(1e-9, 1 - (1 - min(rate, 1.0)) ** steps)


def _content(rows: Contexts, middle: int, window: tuple[int, int]) -> Factor | None:
    """The content of the files that a definition names, where nothing else tells why the digest of the job changed.

    The digest covers the definition and the files. Settings, images, model and data speak for themselves.
    """
    specs = [row.get("#spec", _UNKNOWN) for row in rows]
    places = [
        at
        for at in range(window[0], window[1] + 1)
        if _UNKNOWN not in specs[at - 1 : at + 1] and specs[at] != specs[at - 1]
    ]
    if not places:
        return None
    place = min(places, key=lambda at: abs(at - middle))
    old, new = rows[place - 1], rows[place]
    is_result = "#definition" in old and "#definition" in new
    # Whether something else that is part of a job's digest differs between the two.
    hashed = (key for row in (old, new) for key in row if key.partition(".")[0] in _HASHED or key.startswith(_SETTINGS))
    if is_result and any(old.get(key) != new.get(key) for key in hashed):
        return None
    name = "files" if is_result else "spec"
    _, elsewhere, chances = _changes(specs, window)
    return Factor(
        name=name,
        cause="code" if is_result and new.get("#program") else cause_of(name),
        before=old["#spec"],
        after=new["#spec"],
        differs=True,
        explains=specs[place] not in specs[: window[0]] and specs[place - 1] not in specs[window[1] :],
        elsewhere=elsewhere,
        chances=chances,
        weight=_weight(elsewhere, chances, window),
    )
