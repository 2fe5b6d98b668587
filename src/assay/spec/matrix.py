"""The matrix section: axes by dotted path, points to include, points to exclude."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from assay.errors import Problem
from assay.spec.limits import MAX_DEPTH, MAX_PROBLEMS, cut
from assay.spec.source import SourceDocument

Point = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Matrix:
    """What a matrix section says, shape checked."""

    axes: Mapping[str, tuple[JsonValue, ...]]
    include: tuple[Point, ...] = ()
    exclude: tuple[Point, ...] = ()


def parse_matrix(source: SourceDocument) -> tuple[Matrix, list[Problem]]:
    """Read the matrix section; whatever is wrong with its shape comes back as problems."""
    raw = source.document.get("matrix") or {}
    if not isinstance(raw, dict):
        return Matrix({}), [_wrong(source, ("matrix",), raw, "a mapping of dotted paths to lists")]
    problems: list[Problem] = []
    axes: dict[str, tuple[JsonValue, ...]] = {}
    for path, values in raw.items():
        if path in ("include", "exclude"):
            continue
        if path.count(".") >= MAX_DEPTH:
            problems.append(_too_many_parts(path, source.at(("matrix", path))))
        elif not isinstance(values, list) or not values:
            problems.append(_wrong(source, ("matrix", path), values, "a list with at least one value"))
        else:
            axes[path] = tuple(values)
    points = {key: _points(source, key, raw.get(key), axes, problems) for key in ("include", "exclude")}
    return Matrix(axes, points["include"], points["exclude"]), problems


def apply(document: Mapping[str, JsonValue], point: Point) -> dict[str, JsonValue]:
    """The document with the values of a point at their dotted paths, and without its matrix."""
    result: dict[str, Any] = copy.deepcopy({key: value for key, value in document.items() if key != "matrix"})
    for path, value in point.items():
        *parents, last = path.split(".")
        place = result
        for part in parents:
            below = place.get(part)
            place[part] = below = dict(below) if isinstance(below, dict) else {}
            place = below
        place[last] = copy.deepcopy(value)
    return result


def first_point(matrix: Matrix) -> Point:
    """One value per axis, so that a file whose required keys come from the matrix can be read."""
    return {path: values[0] for path, values in matrix.axes.items()} or (matrix.include[0] if matrix.include else {})


def _points(
    source: SourceDocument, key: str, raw: JsonValue, axes: Mapping[str, object], problems: list[Problem]
) -> tuple[Point, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list) or not all(isinstance(point, dict) and point for point in raw):
        problems.append(_wrong(source, ("matrix", key), raw, "a list of mappings from dotted path to value"))
        return ()
    points = tuple(point for point in raw if isinstance(point, dict))
    paths = [(index, path) for index, point in enumerate(points) for path in point]
    deep = [entry for entry in paths if entry[1].count(".") >= MAX_DEPTH]
    problems += [_too_many_parts(path, source.at(("matrix", key, index, path))) for index, path in deep[:MAX_PROBLEMS]]
    if key == "exclude":
        choices = cut(", ".join(axes) or "no axis", 200)
        unknown = [entry for entry in paths if entry[1] not in axes]
        problems += [
            Problem(
                "matrix",
                f"matrix.exclude[{index}] names {cut(path, 200)}, which is not an axis of the matrix",
                source.at(("matrix", "exclude", index, path)),
                f"use one of {choices}",
            )
            for index, path in unknown[: MAX_PROBLEMS + 1]
        ]
    return () if deep else points


def _too_many_parts(path: str, at: str) -> Problem:
    return Problem(
        "matrix",
        f"{cut(path, 80)} has {path.count('.') + 1:,} parts; at most {MAX_DEPTH} are read",
        at,
        "write for example `workload.batch: [1, 8]`",
    )


def _wrong(source: SourceDocument, path: tuple[str, ...], value: object, expected: str) -> Problem:
    name, shown = ".".join(path[1:]) or "matrix", cut(repr(value), 200)
    return Problem(
        "matrix",
        f"{path[0]}: {cut(name, 200)} is {shown}, not {expected}",
        source.at(path),
        "write for example `workload.batch: [1, 8]`",
    )
