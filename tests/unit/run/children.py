"""The processes that a test has started and not yet seen the end of."""

from __future__ import annotations

from contextlib import suppress

import psutil


def children(word: str) -> list[psutil.Process]:
    """Those of this process whose command holds a word; one that has ended is none, also where nobody has noticed."""
    found = []
    for one in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if word in " ".join(one.cmdline()):
                found.append(one)
    return found
