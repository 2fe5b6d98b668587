"""The matrix unfolded: every point once, in the order of the file."""

from __future__ import annotations

import itertools
import json

from assay.errors import SpecError
from assay.spec.matrix import Matrix, Point

MAX_POINTS = 100_000


def points(matrix: Matrix) -> list[Point]:
    """All points: the product of the axes, less `exclude`, plus `include`."""
    product = _product(matrix) if matrix.axes else ([] if matrix.include else [{}])
    kept = [point for point in product if not any(_matches(point, rule) for rule in matrix.exclude)]
    return _unique([*kept, *matrix.include])


def _product(matrix: Matrix) -> list[Point]:
    count = 1
    for values in matrix.axes.values():
        count *= len(values)
    if count > MAX_POINTS:
        raise SpecError(f"the matrix has {count:,} points; at most {MAX_POINTS:,} are planned at once", code="matrix")
    axes = list(matrix.axes)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*matrix.axes.values())]


def _matches(point: Point, rule: Point) -> bool:
    return all(path in point and point[path] == value for path, value in rule.items())


def _unique(found: list[Point]) -> list[Point]:
    return list({json.dumps(point, sort_keys=True): point for point in found}.values())
