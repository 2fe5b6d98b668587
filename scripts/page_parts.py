"""What the pages of the reference are put together from."""

from __future__ import annotations

import inspect
import re


def anchor(heading: str) -> str:
    """The anchor that a heading has on the site and in a repository's view alike."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def plain(text: str | None) -> str:
    """A docstring or description on one line."""
    return " ".join(inspect.cleandoc(text or "").split())


def table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *(tuple(_escaped(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(cell: str) -> str:
    # A bar ends a cell, except inside a code span.
    parts = cell.split("`")
    return "`".join(part if place % 2 else part.replace("|", "\\|") for place, part in enumerate(parts)) or "–"
