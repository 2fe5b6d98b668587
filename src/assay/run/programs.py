"""What to advise where a program cannot be started: the one that was perhaps meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import suppress

_CHECK = "check the command and cwd; relative paths start at the benchmark file's folder"
_ALIKE = 0.75


def advice_for(word: str, problem: object, path: str | None) -> str:
    """What to do about a program that could not be started.

    Args:
        word: the program, as the command names it.
        problem: what the system said.
        path: the folders in which it was looked for.
    """
    if not isinstance(problem, FileNotFoundError) or os.sep in word:
        return _CHECK
    near = difflib.get_close_matches(word, _programs(path or os.defpath), 1, _ALIKE)
    return f"did you mean {near[0]}?" if near else _CHECK


def _programs(path: str) -> set[str]:
    """The names of all that can be started without a folder before it."""
    return {name for folder in path.split(os.pathsep) for name in _names(folder)}


def _names(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder or ".") as entries:
        yield from (entry.name for entry in entries if entry.is_file() and os.access(entry.path, os.X_OK))
