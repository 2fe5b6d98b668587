"""Secrets of an agent, kept from the processes beside it: jobs run as the same user and could read them from there."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_DUMPABLE = 4
# Fields of /proc/PID/stat, counted after the name in parentheses: where words and variables of the start lie.
_ARGUMENTS, _VARIABLES = 45, 47


def keep_private(names: Iterable[str], values: Iterable[str]) -> None:
    """Take secrets out of what others can see of this process, once they were read.

    The variables are gone from the environment, and what the kernel shows as the words and the environment of this
    process is overwritten where the values stand. On Linux no other process of the same user may look into this one
    from then on; an administrator still may. Processes that it starts are as open as ever.
    """
    gone = [os.environ.pop(name, "") for name in names]
    if sys.platform != "linux":
        return
    secrets = [os.fsencode(value) for value in {*gone, *values} if value]
    for begin, end in _shown():
        _overwrite(begin, end, secrets)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _shown() -> Iterator[tuple[int, int]]:
    """Where the words and the environment of this process lie in its memory."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        for first in (_ARGUMENTS, _VARIABLES):
            begin, end = int(fields[first]), int(fields[first + 1])
            if 0 < begin < end:
                yield begin, end


def _overwrite(begin: int, end: int, secrets: Iterable[bytes]) -> None:
    """Overwrite what is a secret as a whole: a word, or what follows the `=` of a variable or an option."""
    content = b"\0" + ctypes.string_at(begin, end - begin) + b"\0"
    for secret in secrets:
        for found in re.finditer(rb"(?<=[=\0])" + re.escape(secret) + rb"(?=\0)", content):
            ctypes.memset(begin + found.start() - 1, ord("*"), len(secret))
