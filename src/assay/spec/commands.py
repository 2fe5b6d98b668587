"""Commands as text: split into words like a shell would, within what a machine can start."""

from __future__ import annotations

import shlex
from functools import lru_cache

MAX_COMMAND = 131_071
"""Bytes of a command, and of each of its words: Linux starts no program with a longer one."""


@lru_cache(maxsize=64)  # the jobs of a matrix share their command
def split_words(command: str) -> tuple[str, ...]:
    """The words of a command.

    Raises:
        ValueError: for a quote that is never closed, or a command that is too long.
    """
    if too_long := longer_than_possible(command):
        raise ValueError(too_long)
    try:
        return tuple(shlex.split(command))
    except ValueError as problem:
        raise ValueError(str(problem)[:1].lower() + str(problem)[1:]) from None


def longer_than_possible(word: str) -> str:
    """Why no machine could start this; empty if one could."""
    size = len(word) if len(word) > MAX_COMMAND else len(word.encode(errors="replace"))
    return f"it has {size:,} bytes, and at most {MAX_COMMAND:,} can be started" if size > MAX_COMMAND else ""
