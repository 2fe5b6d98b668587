"""From a file and values set on the command line to a checked benchmark: the one way in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError

from assay.errors import Problem, SpecError, UsageError
from assay.spec.benchmark import Benchmark, Definition, whole_input
from assay.spec.importers import own_source
from assay.spec.kubernetes import with_distributed
from assay.spec.limits import MAX_DEPTH, bounded, check_tree, cut
from assay.spec.matrix import Matrix, Point, apply, first_point, parse_matrix
from assay.spec.paths import command_problems, name_problems
from assay.spec.problems import place_of, problems_of, unique, unrunnable
from assay.spec.recipes import with_recipes
from assay.spec.section import section_of
from assay.spec.slurm import with_clients
from assay.spec.source import KeyPath, SourceDocument, dotted, from_mapping, parse, read

S = TypeVar("S", bound=Definition)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A benchmark, the matrix it spans and the text it came from."""

    benchmark: Benchmark
    matrix: Matrix
    source: SourceDocument
    base: Path  # folder that relative paths start from


def load(origin: str | Path | Mapping[str, Any] | Benchmark, *, base: Path | None = None) -> Loaded:
    """Load a benchmark from a file, a mapping or a `Benchmark`; a document of another tool is imported."""
    if isinstance(origin, str | Path):
        path = Path(origin)
        return check(own_source(read(path)), base or path.resolve().parent)
    if isinstance(origin, Benchmark):
        origin = origin.model_dump(mode="json", exclude_defaults=True)
    return check(own_source(from_mapping(origin)), base or Path.cwd())


def check(source: SourceDocument, base: Path) -> Loaded:
    matrix, problems = parse_matrix(source)
    point = first_point(matrix)
    benchmark, faults = validate(Benchmark, source, point)
    problems += faults
    if problems or benchmark is None:
        raise SpecError.of(bounded(unique(problems)))
    full_benchmark = benchmark.model_copy(update={"matrix": source.document.get("matrix") or {}})
    return Loaded(full_benchmark, matrix, source, base)


def validate(model: type[S], source: SourceDocument, point: Point) -> tuple[S | None, list[Problem]]:
    """Validate the document at one point of its matrix; problems come back, they are not raised."""
    document = _whole(apply(source.document, point))
    if model is Definition:
        document = {key: value for key, value in document.items() if key in Definition.model_fields}
    try:
        # Through JSON, because only its strict mode takes a list for a tuple.
        checked = model.model_validate_json(json.dumps(document))
    except ValidationError as invalid:
        return None, problems_of(invalid, source, document, point)
    complaints = [(*complaint, "close its quotes, or write a list") for complaint in command_problems(checked)]
    complaints += [(*complaint, "check the path") for complaint in name_problems(checked)]
    problems = [
        Problem("value", f"{dotted(path)} {message}", place_of(path, source, point), advice)
        for path, message, advice in complaints
    ] or unrunnable(checked, source, point)
    return (None, problems) if problems else (checked, [])


def _whole(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The document with short forms written out, before anything is checked."""
    document = with_recipes(with_distributed(with_clients(document)))
    inputs = {name: whole_input(entry) for name, entry in section_of(document, "workload", "inputs").items()}
    return {**document, "workload": {**section_of(document, "workload"), "inputs": inputs}} if inputs else document


def read_with(path: Path, settings: Sequence[str]) -> Loaded:
    """Load a file with some of its keys replaced; the matrix stays and wins over them.

    A document of another tool is imported first, so that the keys are those of a benchmark.
    """
    return with_settings(own_source(read(path)), settings, path.resolve().parent)


def with_settings(source: SourceDocument, settings: Sequence[str], base: Path) -> Loaded:
    """Check a source with some of its keys replaced."""
    matrix = source.document.get("matrix")
    changes = dict(_setting(text) for text in settings)
    document = apply(source.document, changes)
    if matrix is not None and "matrix" not in changes:
        document["matrix"] = matrix
    check_tree(document, "--set")
    typed: dict[KeyPath, str] = {tuple(path.split(".")): f"--set {path}" for path in changes}
    return check(replace(source, document=document, typed={**source.typed, **typed}), base)


def settings_of(settings: Sequence[str]) -> dict[str, JsonValue]:
    """A document made of settings alone: `partition=gpu`, `each.monitor.cpus=1`."""
    return apply({}, dict(_setting(text) for text in settings))


def _setting(text: str) -> tuple[str, JsonValue]:
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UsageError(
            f"{cut(repr(text), 200)} sets nothing", code="set", at="--set", try_="write --set measure.runs=3"
        )
    if path.count(".") >= MAX_DEPTH:
        raise UsageError(
            f"{cut(path, 80)} has {path.count('.') + 1:,} parts; at most {MAX_DEPTH} are read",
            code="set",
            at="--set",
            try_="write --set measure.runs=3",
        )
    # The value is read as YAML reads it, so that 3 is a number and [1, 2] a list.
    try:
        return path.strip(), parse(f"value: {value}", ".yaml", "--set").document["value"]
    except SpecError as wrong:  # no YAML, such as `@daily`: then it is the text itself
        if wrong.problem.code != "syntax":
            raise
        return path.strip(), value
