"""Small tables: gathered once as a `Sheet`, written on a terminal, in Markdown and in HTML; colour repeats a word."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

GAP = "  "
# What would move the cursor, change colours, break a line or turn the direction of text around.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOURS = {
    "valid": "green", "better": "green", "suspect": "yellow", "cannot tell": "yellow",
    "invalid": "red", "worse": "red", "failed": "red", "missed": "red",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GridColumn:
    """How one column of a text table is laid out."""

    title: str
    right: bool = False
    flexible: bool = False  # may be shortened with … when the table is too wide
    # No name is cut below this: a whole column less is better than names that no one recognises.
    shortest: int = 14
    expendable: int = 0  # dropped when still too wide, highest first; 0 is never dropped


def lay_out(columns: Sequence[GridColumn], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Write a table as lines of equal layout, none wider than `width`; control characters in cells are escaped."""
    rows = [[plain(cell) for cell in row] for row in rows]
    shown = list(range(len(columns)))
    widths = [
        max(cell_len(text) for text in (column.title, *(row[i] for row in rows))) for i, column in enumerate(columns)
    ]
    while (excess := _total(widths, shown) - width) > 0:
        if _shorten(columns, widths, shown, excess):
            break
        dropped = max(shown, key=lambda i: columns[i].expendable)
        if not columns[dropped].expendable:
            break
        shown.remove(dropped)
    lines = [[column.title for column in columns], *rows]
    return [shorten(_line(columns, line, widths, shown), width) for line in lines]


def text_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    right: Collection[int] = (),
    flexible: Collection[int] = (),
) -> list[str]:
    """A table as lines; the columns at these places are aligned at their right, or may be shortened."""
    columns = [GridColumn(title, right=i in right, flexible=i in flexible) for i, title in enumerate(titles)]
    return lay_out(columns, rows, width)


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters are written as escapes."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def shorten(text: str, width: int) -> str:
    """Cut a text to a number of terminal cells, in its middle: what tells rows apart stands at the end."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) * 2 // 3
    ending = text[len(text) - tail :]
    while cell_len(ending) > tail:
        ending = ending[1:]
    return set_cell_size(text, width - 1 - cell_len(ending)).rstrip() + "…" + ending


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill a text with spaces up to a number of terminal cells."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + len(GAP) * (len(kept) - 1)


def _shorten(columns: Sequence[GridColumn], widths: list[int], kept: Sequence[int], excess: int) -> bool:
    """Take the excess from the flexible columns, the widest first; tell whether that was enough."""
    for i in sorted((i for i in kept if columns[i].flexible), key=lambda i: -widths[i]):
        given = min(excess, max(widths[i] - columns[i].shortest, 0))
        widths[i] -= given
        excess -= given
    return excess <= 0


def _line(columns: Sequence[GridColumn], cells: Sequence[str], widths: Sequence[int], kept: Sequence[int]) -> str:
    parts = (pad(shorten(cells[i], widths[i]), widths[i], right=columns[i].right) for i in kept)
    return GAP.join(parts).rstrip()


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
    order: tuple[int, ...] = ()
    """All columns, those that a narrow terminal keeps longest first; `kept` says it when left out."""
    verdict: int | None = None
    """The column that holds verdicts: a terminal never cuts it, Markdown and HTML mark it."""


def sheet_lines(sheet: Sheet, width: int) -> list[str]:
    """A table as lines of plain text, none of them wider than `width`; the notes below it are never cut."""
    columns = [
        GridColumn(
            title,
            right=place not in sheet.words,
            flexible=place in sheet.words and place != sheet.verdict,
            expendable=_expendable(sheet, place),
        )
        for place, title in enumerate(sheet.head)
    ]
    return [*lay_out(columns, sheet.rows, width), *sheet.notes]


def _expendable(sheet: Sheet, place: int) -> int:
    if sheet.order:
        return max(sheet.order.index(place) - 1, 0)
    return 0 if place in sheet.kept else place


def without_empty(sheet: Sheet, nothing: Sequence[str] = ("", "-")) -> Sheet:
    """The same table without the columns in which no row says anything."""
    there = [place for place in range(len(sheet.head)) if any(row[place] not in nothing for row in sheet.rows)]
    moved = {old: new for new, old in enumerate(there)}
    return replace(
        sheet,
        head=tuple(sheet.head[place] for place in there),
        rows=tuple(tuple(row[place] for place in there) for row in sheet.rows),
        words=frozenset(moved[place] for place in sheet.words if place in moved),
        kept=tuple(moved[place] for place in sheet.kept if place in moved),
        order=tuple(moved[place] for place in sheet.order if place in moved),
        verdict=moved.get(sheet.verdict) if sheet.verdict is not None else None,
    )


def paint(text: str) -> str:
    """Colour the verdict words that stand in columns of their own; the words stay, colour only repeats them."""
    return "\n".join(_paint_line(line) for line in text.split("\n"))


def _paint_line(line: str) -> str:
    from rich.color import ColorSystem
    from rich.style import Style

    for word, colour in _COLOURS.items():
        style = Style.parse(colour)
        if line.startswith(f"{word} "):
            return style.render(word, color_system=ColorSystem.STANDARD) + line.removeprefix(word)
        if line.endswith(f"  {word}"):
            return line.removesuffix(word) + style.render(word, color_system=ColorSystem.STANDARD)
        if f"  {word}  " in line:  # a reason follows
            before, _, after = line.rpartition(f"  {word}  ")
            return f"{before}  {style.render(word, color_system=ColorSystem.STANDARD)}  {after}"
    return line


def wrap(text: str, width: int, indent: str, head: str = "") -> list[str]:
    """Break a text at spaces into lines of at most `width` cells; those after the first begin with `indent`.

    A word that is longer than a line stands on a line of its own, uncut: a path that is cut is no path.
    """
    lines, line = [], head
    empty = True  # whether the line has no word of the text yet
    # A number and its sign of percent stay together.
    for word in (part.replace("\0", " ") for part in text.replace(" %", "\0%").split()):
        space = "" if empty else " "
        if not empty and cell_len(line) + len(space) + cell_len(word) > width:
            lines.append(line)
            line, space = indent, ""
        line += space + word
        empty = False
    return [*lines, line.rstrip()]
