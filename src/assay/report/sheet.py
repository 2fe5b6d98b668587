"""A small table that is gathered once and written in every form: on a terminal, in Markdown, in HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.report.grid import Column, lay_out


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows of text under a title, with the sentences that say how to read them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: frozenset[int] = frozenset({0})
    """Columns that hold words; the others hold numbers and are aligned at their right."""
    kept: tuple[int, ...] = (0, 1)
    """Columns that a narrow terminal keeps; the others go, the last first."""


def sheet_lines(sheet: Sheet, width: int) -> list[str]:
    """A table as lines of plain text, none of them wider than `width`; the notes below it are never cut."""
    columns = [
        Column(
            title,
            right=place not in sheet.words,
            flexible=place in sheet.words,
            expendable=0 if place in sheet.kept else place,
        )
        for place, title in enumerate(sheet.head)
    ]
    return [*lay_out(columns, sheet.rows, width), *sheet.notes]


def without_empty(sheet: Sheet, nothing: Sequence[str] = ("", "-")) -> Sheet:
    """The same table without the columns in which no row says anything."""
    there = [place for place in range(len(sheet.head)) if any(row[place] not in nothing for row in sheet.rows)]
    moved = {old: new for new, old in enumerate(there)}
    return Sheet(
        sheet.title,
        tuple(sheet.head[place] for place in there),
        tuple(tuple(row[place] for place in there) for row in sheet.rows),
        sheet.notes,
        frozenset(moved[place] for place in sheet.words if place in moved),
        tuple(moved[place] for place in sheet.kept if place in moved),
    )
