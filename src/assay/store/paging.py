"""Pages of a list: a cursor says where one ended, so that nothing is skipped or shown twice while the list grows."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from assay.errors import UsageError

T = TypeVar("T")
R = TypeVar("R")

LARGEST_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins."""

    items: tuple[T, ...]
    next: str | None = None
    """Cursor of the next page; None on the last one."""


def page_of(rows: Sequence[R], limit: int, key: Callable[[R], tuple[object, ...]], make: Callable[[R], T]) -> Page[T]:
    """Make a page of rows that were asked for with one more than fits."""
    more = len(rows) > limit
    shown = rows[:limit]
    return Page(tuple(make(row) for row in shown), to_cursor(key(shown[-1])) if more else None)


def bounded(limit: int) -> int:
    """A page size within reason."""
    return max(1, min(limit, LARGEST_PAGE))


def to_cursor(key: tuple[object, ...]) -> str:
    """Write a sort key as text that nobody needs to understand."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def from_cursor(cursor: str, *kinds: type) -> tuple[object, ...]:
    """Read a sort key back; its parts have the kinds given.

    Raises:
        UsageError: if it is no cursor of this list.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    if not isinstance(key, list) or len(key) != len(kinds) or not all(map(_is_a, key, kinds)):
        raise UsageError("the cursor is not one that this list gave out", code="cursor", try_="begin without a cursor")
    return tuple(key)


def _is_a(part: object, kind: type) -> bool:
    if kind is float:
        return isinstance(part, int | float) and not isinstance(part, bool)
    return isinstance(part, kind) and not isinstance(part, bool)
