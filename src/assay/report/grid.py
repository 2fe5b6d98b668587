"""Plain text in columns: aligned by what a terminal really shows, never wrapped, never wider than allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

GAP = "  "
# What would move the cursor, change colours, break a line or turn the direction of text around.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Column:
    """How one column of a text table is laid out."""

    title: str
    right: bool = False
    flexible: bool = False  # may be shortened with … when the table is too wide
    # No name is cut below this: a whole column less is better than names that nobody knows.
    shortest: int = 14
    expendable: int = 0  # dropped when still too wide, highest first; 0 is never dropped


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Write a table as lines of equal layout, none wider than `width`; control characters in cells are escaped."""
    rows = [[plain(cell) for cell in row] for row in rows]
    kept = list(range(len(columns)))
    widths = [
        max(cell_len(text) for text in (column.title, *(row[i] for row in rows))) for i, column in enumerate(columns)
    ]
    while (excess := _total(widths, kept) - width) > 0:
        if _shorten(columns, widths, kept, excess):
            break
        dropped = max(kept, key=lambda i: columns[i].expendable)
        if not columns[dropped].expendable:
            break
        kept.remove(dropped)
    lines = [[column.title for column in columns], *rows]
    return [shorten(_line(columns, line, widths, kept), width) for line in lines]


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters are written as escapes."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shorten(text: str, width: int) -> str:
    """Cut a text to a number of terminal cells, in its middle: what tells rows apart stands at the end."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) * 2 // 3
    kept = text[len(text) - tail :]
    while cell_len(kept) > tail:
        kept = kept[1:]
    return set_cell_size(text, width - 1 - cell_len(kept)).rstrip() + "…" + kept


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill a text with spaces up to a number of terminal cells."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + len(GAP) * (len(kept) - 1)


def _shorten(columns: Sequence[Column], widths: list[int], kept: Sequence[int], excess: int) -> bool:
    """Take the excess from the flexible columns, the widest first; tell whether that was enough."""
    for i in sorted((i for i in kept if columns[i].flexible), key=lambda i: -widths[i]):
        given = min(excess, max(widths[i] - columns[i].shortest, 0))
        widths[i] -= given
        excess -= given
    return excess <= 0


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], kept: Sequence[int]) -> str:
    parts = (pad(shorten(cells[i], widths[i]), widths[i], right=columns[i].right) for i in kept)
    return GAP.join(parts).rstrip()
