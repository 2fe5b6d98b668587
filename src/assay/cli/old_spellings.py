"""Spellings of earlier versions, which keep working for one version with a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile


@dataclass(frozen=True, slots=True)
class OldSpelling:
    """An option, with its value where that matters, of the verbs whose words begin with `verb`."""

    verb: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]


# Words that called a verb, and those that call it now.
VERBS = {
    ("schedule", "run-now"): ("schedules", "run"),
    ("schedules", "run-now"): ("schedules", "run"),
    ("schedule",): ("schedules",),
    ("jobs", "logs"): ("logs",),
}
_JSON = (
    *("info", "doctor", "ab", "bisect", "noise", "device", "campaigns", "jobs", "schedules", "alerts"),
    *("clusters", "kubernetes", "agents", "agent", "infra", "monitoring", "objects"),
)
OPTIONS = (
    *(OldSpelling((verb,), ("--json",), ("--format", "json")) for verb in _JSON),
    *(OldSpelling((verb,), ("--folder",), ("--store",)) for verb in ("serve", "tokens", "db", "demo-data")),
    *(OldSpelling(("agent", verb), ("--host",), ("--server",)) for verb in ("test", "enroll", "start")),
    OldSpelling(("agent", "install-service"), ("--host",), ("--server",)),
    OldSpelling(("logs",), ("-f",), ("--follow",)),
    OldSpelling(("score",), ("--format", "table"), ("--format", "text")),
    OldSpelling(("score",), ("-f", "table"), ("-f", "text")),
)


def current(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line as this version spells them, and a note for each that was spelt otherwise."""
    notes: list[str] = []
    words = list(words)
    for old_verb, new_verb in VERBS.items():
        if tuple(words[: len(old_verb)]) == old_verb:
            words[: len(old_verb)] = new_verb
            notes.append(_note(old_verb, new_verb))
            break
    verb = tuple(takewhile(lambda word: not word.startswith("-"), words))
    end = words.index("--") if "--" in words else len(words)  # what follows is another program's
    own, rest = words[:end], words[end:]
    for spelling in OPTIONS:
        if verb[: len(spelling.verb)] == spelling.verb:
            own = _replaced(own, spelling, notes)
    return [*own, *rest], notes


def _replaced(words: list[str], spelling: OldSpelling, notes: list[str]) -> list[str]:
    changed: list[str] = []
    old, place = spelling.old, 0
    while place < len(words):
        name, equals, value = words[place].partition("=")
        if tuple(words[place : place + len(old)]) == old:
            changed += spelling.new
            place += len(old)
        elif equals and len(old) == 1 and (name,) == old:
            changed.append(f"{spelling.new[0]}={value}")
            place += 1
        elif equals and (name, value) == old:
            changed.append(f"{spelling.new[0]}={spelling.new[1]}")
            place += 1
        else:
            changed.append(words[place])
            place += 1
            continue
        notes.append(_note(old, spelling.new))
    return changed


def _note(old: Sequence[str], new: Sequence[str]) -> str:
    return f"note    `{' '.join(old)}` is now `{' '.join(new)}`; the next version does not know the old spelling"
