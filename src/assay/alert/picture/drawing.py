"""What a picture of a series shows: the points around a change, up to the newest one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_POINTS = 120
# So much of the history before the change is shown, at least.
_BEFORE = 40


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a picture shows."""

    title: str
    values: tuple[float | None, ...]
    """The newest last; None where a result has no value."""
    errors: tuple[float | None, ...]
    """Standard error of each value; None where it is not known."""
    first: str = ""
    """What the first point is called, such as its day."""
    last: str = ""
    change_at: int | None = None
    """Position of the first point after the change."""
    before: float | None = None
    """Level before the change."""
    after: float | None = None
    """Level from the change on."""


def drawing_of(
    title: str,
    values: Sequence[float | None],
    errors: Sequence[float | None],
    days: Sequence[str],
    *,
    change_at: int | None = None,
    before: float | None = None,
    after: float | None = None,
) -> Drawing | None:
    """The part of a series that is worth a picture.

    Returns:
        None when fewer than two results have a value: there is nothing to see.
    """
    start, end = _window(len(values), change_at)
    shown = tuple(_finite(value) for value in values[start:end])
    if sum(value is not None for value in shown) < 2:
        return None
    at = None if change_at is None or not start < change_at < end else change_at - start
    return Drawing(
        title,
        shown,
        tuple(_finite(error) for error in errors[start:end]),
        days[start],
        days[end - 1],
        at,
        _finite(before),
        _finite(after),
    )


def _window(count: int, change_at: int | None) -> tuple[int, int]:
    """Which points are shown: the newest ones, or from some before the change on when that was longer ago."""
    start = max(count - MOST_POINTS, 0)
    if change_at is not None:
        start = min(start, max(change_at - _BEFORE, 0))
    return start, min(start + MOST_POINTS, count)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
