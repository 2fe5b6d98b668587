"""What changed around a change of a series: one factor for each thing that is known of the points before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pydantic import JsonValue

from assay.analyse.series.records import Finding

FactorCause = Literal["code", "data or model", "environment", "machine", "method"]
CAUSES: tuple[FactorCause, ...] = ("method", "machine", "environment", "data or model", "code")

# What a name in the context of a point is evidence for; other names are told, and blamed for nothing.
_CAUSE: Mapping[str, FactorCause] = {
    "commit": "code",
    "changed": "code",
    "model": "data or model",
    "data": "data or model",
    "files": "data or model",
    "image": "environment",
    "server": "environment",
    "driver": "environment",
    "packages": "environment",
    "package": "environment",
    "python": "environment",
    "kernel": "environment",
    "os": "environment",
    "governor": "environment",
    "machine": "machine",
    "host": "machine",
    "method": "method",
    "assay": "method",
    "spec": "method",
}
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
    cause: FactorCause | None
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


def factors(
    finding: Finding, before: Sequence[Mapping[str, JsonValue]], after: Sequence[Mapping[str, JsonValue]]
) -> tuple[Factor, ...]:
    """Everything that is known of both sides; what differs comes first."""
    rows = [flat(one) for one in (*before, *after)]
    if not before or not after:
        return ()
    window = _window(finding, len(before), len(rows))
    names = dict.fromkeys(name for row in rows for name in row)
    found = [one for name in names if (one := _factor(name, rows, len(before), window)) is not None]
    if (content := _content(rows, len(before), window)) is not None:
        found.append(content)
    return tuple(sorted(found, key=lambda one: (not one.differs, -one.weight)))


def flat(context: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What was around a point, one name for each thing: packages and settings by their own names."""
    row: dict[str, JsonValue] = {}
    for name, value in context.items():
        if name in _APART:
            continue
        if isinstance(value, Mapping):
            prefix = "package " if name == "packages" else f"{name}."
            row |= {f"{prefix}{key}": one for key, one in _leaves(value)}
        else:
            row[name] = value
    method = context.get("method")
    if isinstance(method, Mapping):
        row |= dict(_leaves(method))
    elif method is not None:
        row["method"] = method
    # What is hashed here is told above by its parts; only where there are none, it speaks for itself.
    row |= {f"#{name}": context[name] for name in ("spec", "definition", "program") if name in context}
    if "machine" in row and isinstance(identity := context.get("machine_id"), str):
        row["#machine"] = identity
    return row


def cause_of(name: str) -> FactorCause | None:
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


def _factor(name: str, rows: Sequence[Mapping[str, JsonValue]], middle: int, window: tuple[int, int]) -> Factor | None:
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


def _known(name: str, rows: Sequence[Mapping[str, JsonValue]]) -> list[object]:
    """The value in each row: a machine by its own id where it has one, what is told to be not there as None."""
    told = [_is_told(name, row) for row in rows]
    hidden = f"#{name}"
    return [row.get(hidden, row.get(name)) if known else _UNKNOWN for row, known in zip(rows, told, strict=True)]


def _is_told(name: str, row: Mapping[str, JsonValue]) -> bool:
    if name.startswith("package "):
        return any(key.startswith("package ") for key in row)
    # The definition of a result is complete: a setting that is not in it has its default.
    return name in row or ("#definition" in row and name.startswith(_SETTINGS))


def _changes(values: Sequence[object], window: tuple[int, int]) -> tuple[list[int], int, int]:
    """Where a factor changed inside the window, how often elsewhere, and how often it could have there."""
    known = [place for place, value in enumerate(values) if value is not _UNKNOWN]
    inside: list[int] = []
    elsewhere = chances = 0
    for last, place in pairwise(known):
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


def _content(rows: Sequence[Mapping[str, JsonValue]], middle: int, window: tuple[int, int]) -> Factor | None:
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
    if is_result and _told_otherwise(old, new):
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


def _told_otherwise(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> bool:
    """Whether something else that is part of a job's digest differs between two points."""
    names = {
        name for row in (old, new) for name in row if name.partition(".")[0] in _HASHED or name.startswith(_SETTINGS)
    }
    return any(old.get(name) != new.get(name) for name in names)
