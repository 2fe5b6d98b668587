"""A benchmark in one line: what a person typed in place of keys becomes keys, and errors name the option.

    assay run http://127.0.0.1:8000/v1 --rate 5 --batch 1,8

Every option sets one key of the file; several values separated by commas become an axis of the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from assay.errors import Problem, SpecError
from assay.spec.flags import BY_KEY, FLAGS, LOADED, MODELS, Flag
from assay.spec.matrix import apply
from assay.spec.section import section_of
from assay.spec.source import KeyPath, SourceDocument, parse

# What the options mean together: a level of a load takes the place of another, and an end that of another end.
_OTHERS = ("load.trace", "load.stages")
_INSTEAD = {
    "load.rate": ("load.concurrency", "load.think", "load.ramp", *_OTHERS),
    "load.concurrency": ("load.rate", "load.arrivals", "load.burstiness", *_OTHERS),
}
_ENDS = ("load.duration", "load.requests")

QUICK_LOAD = "5s"
QUICK_MODEL: dict[str, JsonValue] = {"at_most": "2s"}
QUICK_NAME = " (quick look)"
QUICK_NOTE = "a quick look, not a measurement: one short run cannot show how far runs differ"


def with_flags(source: SourceDocument, kind: str, given: Mapping[str, str], *, quick: bool = False) -> SourceDocument:
    """A document with the keys that options set; a single value takes the place of an axis of the matrix.

    Args:
        kind: kind of the target.
        given: key of a `Flag` → what was typed.
        quick: whether one short run is enough.
    """
    flags = [BY_KEY[key] for key in given]
    if misplaced := [flag for flag in flags if kind and kind not in flag.kinds]:
        raise SpecError.of([_misplaced(flag, kind) for flag in misplaced])
    values = {flag.path: _values(flag, given[flag.key]) for flag in flags}
    document = _without(source.document, _replaced(values))
    matrix = {path: axis for path, axis in section_of(document, "matrix").items() if path not in values}
    axes: dict[str, JsonValue] = {path: axis for path, axis in values.items() if len(axis) > 1}
    singles = {path: axis[0] for path, axis in values.items() if len(axis) == 1}
    if quick:
        document = _quick(document, kind, values)
        matrix.pop("measure.runs", None)
        matrix.pop("load.duration", None)
    document = apply(document, singles)
    if matrix or axes:
        document["matrix"] = {**matrix, **axes}
    typed: dict[KeyPath, str] = {tuple(flag.path.split(".")): flag.name for flag in flags}
    typed |= {("matrix", flag.path): flag.name for flag in flags}
    return replace(source, document=document, typed={**source.typed, **typed})


def kind_of_document(document: Mapping[str, JsonValue]) -> str:
    """The kind of target of a document that was not checked yet; empty where it has none."""
    target = section_of(document, "target")
    if not target:
        return ""
    for kind in ("command", "service", "endpoint", "library"):
        if kind in target or (kind == "command" and "image" in target):
            return kind
    if "model" not in target:
        return "device" if "device" in target else ""
    return "language model" if target.get("runtime") not in (None, "onnxruntime", "torch") else "model"


def _replaced(values: Mapping[str, object]) -> set[str]:
    """Keys of the document that would contradict the options."""
    gone = {other for path in values for other in _INSTEAD.get(path, ())}
    ends = [path for path in _ENDS if path in values]
    return (gone | ({*_ENDS} if ends else set())) - set(values)


def _without(document: Mapping[str, JsonValue], paths: set[str]) -> dict[str, JsonValue]:
    kept = dict(document)
    for path in paths:
        section, _, key = path.partition(".")
        inside = kept.get(section)
        if isinstance(inside, dict):
            kept[section] = {name: value for name, value in inside.items() if name != key}
    return kept


def _quick(document: dict[str, JsonValue], kind: str, given: Mapping[str, object]) -> dict[str, JsonValue]:
    """The document with one short run; what was typed stays."""
    load = section_of(document, "load")
    short: dict[str, JsonValue] = {"benchmark": f"{document.get('benchmark', '')}{QUICK_NAME}", "measure.runs": 1}
    if kind in MODELS:
        short["measure.until"] = QUICK_MODEL
    if kind in LOADED and load.get("rate") == "search":
        short |= {"load.search.probe": "2s", "load.search.probes": 5}
    elif kind in LOADED and not (load.get("trace") or load.get("stages") or "load.requests" in given):
        document = _without(document, {"load.requests"})
        short["load.duration"] = QUICK_LOAD
    matrix = document.get("matrix")
    changed = apply(document, short)
    return changed if matrix is None else {**changed, "matrix": matrix}


def _values(flag: Flag, text: str) -> list[JsonValue]:
    """What was typed, read as `--set` reads it: one value, or several separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if flag.is_text:
        values: list[JsonValue] = [part for part in parts if part]
    else:
        try:
            read = parse(f"values: [{text}]", ".yaml", flag.name).document["values"]
        except SpecError as wrong:
            if wrong.problem.code != "syntax":
                raise
            read = list[JsonValue](parts)
        values = read if isinstance(read, list) else [read]
    if not values:
        raise SpecError(f"{flag.name} is empty", code="value", at=flag.name, try_=f"give a value: {flag.meaning}")
    return values


def _misplaced(flag: Flag, kind: str) -> Problem:
    """Why an option does not fit, and which ones would."""
    fitting = ", ".join(other.name for other in FLAGS if kind in other.kinds)
    others = [name for name in flag.kinds if name not in ("library", "device", "service")] or list(flag.kinds)
    a = "an" if kind[:1] in "aeiou" else "a"
    message = f"{flag.name} sets {flag.path}, which is for {_listed(others)}; this is {a} {kind}"
    return Problem("option", message, flag.name, f"leave it out; for {a} {kind} there are {fitting}")


def _listed(kinds: list[str]) -> str:
    named = [f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in kinds]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
