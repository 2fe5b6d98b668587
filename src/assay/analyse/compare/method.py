"""Releases of assay that changed what a number means: results from before and after one do not compare.

A line is added whenever the same thing, measured again, would give another number because assay measures it in another
way. A release that only measures more, or faster, has no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_VERSION = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class MethodChange:
    """What a release measures in another way."""

    since: str
    """The first version that measures the new way."""
    what: str
    """One plain sentence without a stop."""


# Oldest first; nothing has changed since the first release.
CHANGES: tuple[MethodChange, ...] = ()


def changed_between(a: str, b: str, changes: Iterable[MethodChange] = CHANGES) -> tuple[str, ...]:
    """What the newer of two versions measures in another way than the older; empty where a version is not known."""
    first, second = _parts(a), _parts(b)
    if first is None or second is None:
        return ()
    older, newer = min(first, second), max(first, second)
    return tuple(
        f"assay {one.since} measures in another way: {one.what}"
        for one in changes
        if (since := _parts(one.since)) is not None and older < since <= newer
    )


def _parts(version: str) -> tuple[int, int, int] | None:
    """The numbers of a version; what follows them (`.dev1`, `rc2`, `+local`) measures as the release does."""
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
