"""The matrix unfolded: every point once, in the order of the file."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping

from pydantic import JsonValue

from assay.errors import SpecError
from assay.spec.matrix import Matrix, Point

MAX_POINTS = 100_000
# Characters of all jobs together, and comparisons of points with rules of `exclude`: seconds of work.
MAX_PLANNED = 100_000_000
MAX_COMPARED = 5_000_000
# What a value of a point costs at least, whatever its text.
_OF_AN_AXIS = 64


def points(matrix: Matrix, document: Mapping[str, JsonValue] | None = None, at: str = "") -> list[Point]:
    """All points: the product of the axes, less `exclude`, plus `include`.

    Raises:
        SpecError: if there are too many.
    """
    _refuse_large(matrix, document or {}, at)
    product = _product(matrix) if matrix.axes else ([] if matrix.include else [{}])
    kept = [point for point in product if not any(_matches(point, rule) for rule in matrix.exclude)]
    return _unique([*kept, *matrix.include])


def _refuse_large(matrix: Matrix, document: Mapping[str, JsonValue], at: str) -> None:
    """Refuse a matrix whose jobs would hold too much together: each has a copy of the document and its own values.

    Raises:
        SpecError: if they would.
    """
    count = _count(matrix)
    if count > MAX_POINTS:
        shown = f"{count:,}" if count < 10**18 else "more than 10^18"
        raise SpecError(
            f"the matrix has {shown} points; at most {MAX_POINTS:,} are planned at once", code="matrix", at=at
        )
    each = len(json.dumps({key: value for key, value in document.items() if key != "matrix"}))
    each += sum(_OF_AN_AXIS + max(len(json.dumps(value)) for value in values) for values in matrix.axes.values())
    planned = (count + len(matrix.include)) * each
    if planned > MAX_PLANNED:
        raise SpecError(
            f"the jobs of the matrix would hold {planned:,} characters together; at most {MAX_PLANNED:,} are planned",
            code="matrix",
            at=at,
            try_="give it fewer points, or put long texts into a file",
        )
    compared = count * len(matrix.exclude)
    if compared > MAX_COMPARED:
        raise SpecError(
            f"{count:,} points and {len(matrix.exclude):,} rules of exclude are too many to compare: "
            f"at most {MAX_COMPARED:,} pairs are",
            code="matrix",
            at=at,
            try_="list the points under include, or exclude whole values from the axes",
        )


def _count(matrix: Matrix) -> int:
    return math.prod(len(values) for values in matrix.axes.values())


def _product(matrix: Matrix) -> list[Point]:
    axes = list(matrix.axes)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*matrix.axes.values())]


def _matches(point: Point, rule: Point) -> bool:
    return all(path in point and point[path] == value for path, value in rule.items())


def _unique(found: list[Point]) -> list[Point]:
    return list({json.dumps(point, sort_keys=True): point for point in found}.values())
