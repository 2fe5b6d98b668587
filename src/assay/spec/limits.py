"""How much a document may hold, whatever its format: bounds that no honest benchmark file comes near.

A document of another size, depth or kind ends in an error before it costs time or memory: each bound is checked before
the work that it limits.
"""

from __future__ import annotations

import difflib
import errno
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from assay.errors import Problem, SpecError
from assay.files import read_bounded

KeyPath = tuple[str | int, ...]

MAX_CHARACTERS = 500_000
"""Characters of a text, and of a tree with its aliases written out."""
MAX_DEPTH = 64
"""Sections and lists inside one another, and parts of a dotted key."""
MAX_NODES = 50_000
"""Keys and values of a tree; a YAML alias counts as often as it is used."""
MAX_DIGITS = 300
"""Digits of a whole number: a longer one would not fit into a floating-point number either."""
MAX_PROBLEMS = 100
"""Problems that are reported together."""
MAX_PATTERN = 1000
"""Characters of a regular expression."""
MAX_GROUPS = 100
"""Parentheses of a regular expression."""
MAX_PATTERNS = 50_000
"""Characters of all regular expressions of one target."""
MAX_SETS = 500
"""Sets such as `[a-z]` in all regular expressions of one target: compiling one can take milliseconds."""

_MAX_BYTES = 4 * MAX_CHARACTERS  # of UTF-8
_MAX_MESSAGE = 1000
_MAX_INTEGER = 10**MAX_DIGITS
_HALF = re.compile("[\ud800-\udfff]")
_CHECK = "check the path, or write a starter file with `assay init`"
_SPLIT = "split it into several files, or put long values into a file of their own"


def _meant(path: Path) -> str:
    """The file beside a missing one that was perhaps meant."""
    with suppress(OSError):
        near = difflib.get_close_matches(
            path.name, [beside.name for beside in path.parent.iterdir() if beside.is_file()], 1, 0.7
        )
        if near and near[0] != path.name:
            return f"did you mean {path.parent / near[0]}?"
    return _CHECK


def read_text(path: Path, what: str = "the benchmark file", most_bytes: int = _MAX_BYTES) -> str:
    """The text of a file, or of a pipe that has a writer; a byte order mark is left out."""
    try:
        content = read_bounded(path, most_bytes)
    except OSError as problem:
        if problem.errno == errno.EFBIG:
            raise SpecError(
                f"{what} has more than {most_bytes:,} bytes", code="too-large", at=str(path), try_=_SPLIT
            ) from None
        raise SpecError(
            f"cannot read {what}: {problem.strerror}", code="no-file", at=cut(str(path)), try_=_meant(path)
        ) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise SpecError(
            f"not UTF-8 text: {problem.reason}, at byte {problem.start:,}",
            code="syntax",
            at=str(path),
            try_="save it as UTF-8",
        ) from None


def check_text(text: str, name: str) -> None:
    """Refuse a text that is too long, or that holds characters no benchmark file can have."""
    if len(text) > MAX_CHARACTERS:
        raise SpecError(
            f"the text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read",
            code="too-large",
            at=name,
            try_=_SPLIT,
        )
    zero, half = text.find("\0"), _HALF.search(text)
    if zero >= 0 or half:
        at = zero if zero >= 0 else half.start() if half else 0
        kind = "a zero byte" if zero >= 0 else "half a character (a lone surrogate)"
        raise SpecError(
            f"the text holds {kind}", code="syntax", at=f"{name}:{text.count(chr(10), 0, at) + 1}", try_="remove it"
        )


def check_tree(document: object, name: str, at: Callable[[KeyPath], str] | None = None) -> None:
    """Refuse a tree that is too deep or too large, or a value in it that cannot be kept.

    Args:
        at: where a key stands; asked only when the size is right.
    """
    nodes = characters = 0
    wrong: tuple[KeyPath, str] | None = None
    waiting: list[tuple[KeyPath, object]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        below: list[tuple[KeyPath, object]] = []
        if isinstance(value, Mapping):
            characters += sum(len(key) for key in value if isinstance(key, str))
            nodes += 2 * len(value)
            below = [((*path, key), child) for key, child in value.items()] if nodes <= MAX_NODES else []
            reason = next(
                (f"has the key {cut(repr(key), 80)}, which {reason}" for key in value if (reason := _unusable(key))), ""
            )
        elif isinstance(value, list | tuple):
            nodes += len(value)
            below = [((*path, index), child) for index, child in enumerate(value)] if nodes <= MAX_NODES else []
            reason = ""
        else:
            characters += len(value) if isinstance(value, str) else 0
            reason = _unusable(value)
        wrong = wrong or ((path, reason) if reason else None)
        if below and len(path) >= MAX_DEPTH:
            raise too_deep(name)
        if nodes > MAX_NODES:
            raise too_many(name)
        if characters > MAX_CHARACTERS:
            raise too_long(name)
        waiting += reversed(below)
    if wrong is not None:
        path, reason = wrong
        place = name if at is None else at(path)
        raise SpecError(f"{cut(dotted(path), 200) or 'the document'} {reason}", code="value", at=place)


def too_deep(at: str) -> SpecError:
    """The error for a document that nests too deeply."""
    return SpecError(
        f"more than {MAX_DEPTH} sections or lists inside one another", code="too-deep", at=at, try_="write it flatter"
    )


def too_many(name: str) -> SpecError:
    """The error for a document of too many values."""
    return SpecError(f"the file unfolds to more than {MAX_NODES} keys and values", code="syntax", at=name, try_=_SPLIT)


def too_long(name: str) -> SpecError:
    """The error for a document whose texts are too long when its aliases are written out."""
    return SpecError(
        f"the file unfolds to more than {MAX_CHARACTERS:,} characters", code="syntax", at=name, try_=_SPLIT
    )


def bounded(problems: list[Problem]) -> list[Problem]:
    """The first problems, each short enough to read, and a word about the rest."""
    shown = [
        Problem(problem.code, cut(problem.message), cut(problem.at), cut(problem.try_))
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        shown.append(Problem("more", "there are more problems than these", shown[-1].at, "solve these first"))
    return shown


def cut(text: str, most: int = _MAX_MESSAGE) -> str:
    """A text without its middle where it is too long to be read."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 4 :]}"


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that a user wrote, compiled."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"it has {len(pattern):,} characters, and at most {MAX_PATTERN:,} are read")
    if pattern.count("(") > MAX_GROUPS:
        raise ValueError(f"it has {pattern.count('(')} parentheses, and at most {MAX_GROUPS} are read")
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(str(problem)) from None


def check_patterns(patterns: Iterable[str]) -> None:
    """Refuse regular expressions that would take long to compile together; none is compiled here."""
    whole = "".join(patterns)
    if len(whole) > MAX_PATTERNS:
        raise ValueError(f"the patterns have {len(whole):,} characters together; at most {MAX_PATTERNS:,} are read")
    if whole.count("[") > MAX_SETS:
        raise ValueError(f"the patterns have {whole.count('['):,} sets [...] together; at most {MAX_SETS} are read")


def dotted(path: KeyPath) -> str:
    """A path as people write it: `alerts[0].metric`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _unusable(value: object) -> str:
    """Why a plain value cannot be kept; empty if it can."""
    if isinstance(value, str):
        if "\0" in value:
            return "holds a zero byte (\\0), which no database and no command line can hold; remove it"
        return "holds half a character (a lone surrogate); remove it" if _HALF.search(value) else ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}: a finite number is needed"
    if isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        return f"is a whole number of more than {MAX_DIGITS} digits"
    return ""


MAX_COMMAND = 131_071
"""Bytes of a command, and of each of its words: Linux starts no program with a longer one."""


@lru_cache(maxsize=64)  # the jobs of a matrix share their command
def split_words(command: str) -> tuple[str, ...]:
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
