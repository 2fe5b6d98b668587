"""Plain English words to make prompts of."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def plain_words() -> tuple[str, ...]:
    """The shipped list: lower case, letters only, no word twice."""
    text = (files("assay.run.workloads") / "data" / "words.txt").read_text(encoding="ascii")
    return tuple(text.split())
