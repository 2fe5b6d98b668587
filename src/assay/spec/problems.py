"""What is wrong with a document, in plain words: file, line, key, value, nearest valid key, and what to do.

The last part is what a document of the right shape may say that no run could do. These are not rules of the sections
themselves: results that were kept before a rule was made must still be read.
"""

from __future__ import annotations

import difflib
import json
import re
import typing
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from assay.documents import needed_type, validation_words
from assay.errors import Problem
from assay.plugins import find_plugin, plugin_names
from assay.spec.benchmark import Benchmark, Definition
from assay.spec.limits import MAX_PROBLEMS, cut
from assay.spec.matrix import Point
from assay.spec.section import Section, did_you_mean
from assay.spec.source import KeyPath, SourceDocument, dotted
from assay.spec.target import (
    APIS,
    TARGET_TAGS,
    TARGETS,
    VECTORS,
    CommandTarget,
    DeviceTarget,
    EndpointTarget,
    LibraryTarget,
    ModelTarget,
    Served,
    ServiceTarget,
    needs_model,
)

_TARGETS: dict[str, type[Section]] = dict(
    zip(
        TARGET_TAGS,
        (ModelTarget, CommandTarget, ServiceTarget, EndpointTarget, LibraryTarget, DeviceTarget),
        strict=True,
    )
)


def problems_of(
    invalid: ValidationError, source: SourceDocument, document: dict[str, JsonValue], point: Point
) -> list[Problem]:
    """Every problem of a validation error, once each, in the order of the file."""
    grouped: dict[KeyPath, list[ErrorDetails]] = {}
    for error in invalid.errors(include_url=False):
        if len(grouped) > MAX_PROBLEMS:  # one more than is shown; what to do about each takes a while to find
            break
        grouped.setdefault(_path(error["loc"], document, error["type"]), []).append(error)
    return [_problem(path, errors, source, point) for path, errors in grouped.items()]


def unique(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, in the order of the file: matrix points repeat what they share."""
    return sorted(dict.fromkeys(problems), key=_line)


def _line(problem: Problem) -> int:
    line = problem.at.rpartition(":")[2]
    return int(line) if line.isdigit() else 0


def _path(loc: tuple[int | str, ...], document: JsonValue, kind: str) -> KeyPath:
    """The path inside the file; labels that pydantic adds for unions are not part of it."""
    if loc[:1] == ("target",) and loc[1:2] and loc[1] in TARGET_TAGS:
        loc = ("target", *loc[2:])
    path: KeyPath = ()
    cursor: Any = document
    for position, part in enumerate(loc):
        inside = (isinstance(cursor, dict) and part in cursor) or (
            isinstance(cursor, list) and isinstance(part, int) and part < len(cursor)
        )
        if inside:
            cursor = cursor[part]
            path = (*path, part)
        elif kind == "missing" and position == len(loc) - 1:
            path = (*path, part)
    return path


def _problem(path: KeyPath, errors: list[ErrorDetails], source: SourceDocument, point: Point) -> Problem:
    error = errors[0]
    at = place_of(path, source, point)
    name = cut(dotted(path), 200)
    if error["type"] == "extra_forbidden":
        return _unknown_key(path, error["input"], at)
    if error["type"] == "missing":
        return Problem(
            "missing-key", f"{name} is missing", at, f"add {path[-1]}: … to {dotted(path[:-1]) or 'the file'}"
        )
    message = _said(errors)
    if not name:
        return Problem("value", message, at)
    return Problem("value", f"{name} is {_show(error['input'])}: {message}", at, _advice(error))


def place_of(path: KeyPath, source: SourceDocument, point: Point) -> str:
    """The line of a key; a key that the matrix set stands on the line of its axis."""
    name = ".".join(str(part) for part in path)
    for axis in point:
        if name == axis or name.startswith(f"{axis}."):
            return source.at(("matrix", axis))
    return source.at(path)


def _unknown_key(path: KeyPath, value: object, at: str) -> Problem:
    valid = valid_keys(path[:-1])
    near = difflib.get_close_matches(str(path[-1]), valid, n=1, cutoff=0.5)
    parent = cut(dotted(path[:-1]), 200) or "a benchmark file"
    advice = f"did you mean {near[0]}?" if near else f"valid keys are {', '.join(valid)}"
    if near and near[0] == path[-1]:  # known, but not to this kind of target
        kinds = [tag for tag, model in _TARGETS.items() if path[-1] in model.model_fields]
        advice = f"{path[-1]} belongs to a {' or '.join(kinds)} target; a target is one of {', '.join(TARGET_TAGS)}"
    return Problem(
        "unknown-key", f"{cut(dotted(path), 200)} is not a key of {parent}; its value is {_show(value)}", at, advice
    )


def _said(errors: Sequence[ErrorDetails]) -> str:
    """What is wrong with one value; where it may be of several kinds, each that it is not."""
    kinds = [kind for error in errors if (kind := needed_type(error)) is not None]
    choices = [str(error.get("ctx", {}).get("expected", "")) for error in errors if error["type"] == "literal_error"]
    needed = " or ".join(dict.fromkeys([*choices, *kinds]))
    others = [
        cut(validation_words(error))
        for error in errors
        if needed_type(error) is None and error["type"] != "literal_error"
    ]
    return "; ".join(dict.fromkeys([*([f"{needed} is needed"] if needed else []), *others]))


def _advice(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == "literal_error":
        return _nearest_choice(error["input"], str(context.get("expected", "")))
    for bound, words in (("ge", "or more"), ("gt", "or more, but not itself"), ("le", "or less"), ("lt", "or less")):
        if bound in context:
            return f"use {context[bound]} {words}"
    if error["type"] in ("int_type", "int_from_float", "float_type", "int_parsing"):
        return "write a plain number, such as 2, without quotes"
    return "`assay schema` prints every key with its type and meaning"


def _nearest_choice(value: object, expected: str) -> str:
    choices = re.findall(r"'([^']+)'", expected)
    return did_you_mean(str(value), choices, f"use one of {', '.join(choices)}", cutoff=0.5)


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "…"


def valid_keys(path: KeyPath) -> list[str]:
    """The keys that a section accepts, by its path."""
    kinds: list[Any] = [Benchmark]
    for part in path:
        kinds = [below for kind in kinds for below in _below(kind, part)]
    sections = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)]
    return sorted({name for section in sections for name in section.model_fields})


def _below(kind: Any, part: str | int) -> list[Any]:  # noqa: ANN401  (annotations have no common type)
    if isinstance(kind, type) and issubclass(kind, Section):
        if part == "target":
            return list(_TARGETS.values())
        field = kind.model_fields.get(str(part))
        return _unfold(field.annotation) if field else []
    arguments = typing.get_args(kind)
    return [member for argument in arguments for member in _unfold(argument)]


def _unfold(annotation: Any) -> list[Any]:  # noqa: ANN401
    """The alternatives of an annotation, unions and Annotated taken apart."""
    origin = typing.get_origin(annotation)
    if origin is None or origin in (dict, tuple, list):
        return [annotation]
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _unfold(arguments[0])
    return [member for argument in arguments for member in _unfold(argument)]


# Stands for the model's name in the file that `assay init URL` writes when the endpoint could not be asked.
PLACEHOLDER = "CHANGE-ME"
# Built-in tasks, which put the item's text into the prompt; tasks of other packages may read it as they like.
_OWN_TASKS = frozenset({None, "synthetic", "prompts", "conversation", "wikipedia-summary", "embedding"})


def unrunnable(definition: Definition, source: SourceDocument, point: Point) -> list[Problem]:
    """Everything that would fail in every run, at its line of the file."""
    faults = (
        _protocol(definition),
        _model(definition),
        _prompt(definition),
        _file(definition),
        _monitoring(definition),
    )
    return [
        Problem(code, message, place_of(tuple(path.split(".")), source, point), advice)
        for code, message, path, advice in filter(None, faults)
    ]


_Wrong = tuple[str, str, str, str]  # code, message, path of the key, advice


# How near a name must be to one that is known to be that name misspelt. Any other may be a protocol of a package that
# only the machine that measures has.
_MISSPELT = 0.75


def _protocol(definition: Definition) -> _Wrong | None:
    target = definition.target
    groups = (APIS, VECTORS, TARGETS)
    if not isinstance(target, Served) or find_plugin(target.api, *groups) is not None:
        return None
    names = plugin_names(APIS, VECTORS)
    advice = did_you_mean(target.api, names, cutoff=_MISSPELT)
    message = f"target.api is {cut(repr(target.api), 80)}, which is no protocol; there are {', '.join(names)}"
    return ("target", message, "target.api", advice) if advice else None


def _model(definition: Definition) -> _Wrong | None:
    target = definition.target
    if not isinstance(target, Served) or not needs_model(target):
        return None
    model, path = target.options.get("model", target.model), "target.model"
    ask = "many servers list their models under /v1/models"
    if not model:
        message = f"target.model is missing, and {target.api} needs the name of a model"
        return "missing-key", message, path, f"add model: … to target; {ask}"
    if model == PLACEHOLDER:
        message = f"target.model is {PLACEHOLDER}, which stands for the name of your model"
        return "placeholder", message, path, f"write the name of the model there; {ask}"
    return None


def _prompt(definition: Definition) -> _Wrong | None:
    prompt = definition.workload.prompt
    if prompt is None or "{text}" in prompt or definition.workload.task not in _OWN_TASKS:
        return None
    message = f"workload.prompt is {prompt[:60]!r}, which has no {{text}} where the prompt of each item belongs"
    tip = "write {text} where it belongs; prompts of your own are read with workload.file"
    return "prompt-template", message, "workload.prompt", tip


def _file(definition: Definition) -> _Wrong | None:
    if definition.workload.task != "prompts" or definition.workload.file is not None:
        return None
    message = "the task prompts reads a file, and workload.file is not given"
    return "workload-file", message, "workload.file", 'name a JSONL file with lines such as {"prompt": "…"}'


def _monitoring(definition: Definition) -> _Wrong | None:
    if not isinstance(definition, Benchmark) or not definition.monitoring:
        return None
    clients = {"kubernetes": "pods", "fleet": "agents of a server"}.get(definition.place.engine)
    message = f"monitoring is for runs on one machine and on a Slurm cluster; {clients} start no Prometheus"
    tip = "remove it; telemetry of every job is recorded anyway (measure.probe)"
    return ("monitoring", message, "monitoring", tip) if clients else None
