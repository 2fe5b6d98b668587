"""Reading the fields of a foreign document: each value checked, none silently dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from assay.errors import Problem

T = TypeVar("T")
_SHOWN = 60
_CLOCK = re.compile(r"(?:(?P<days>\d{1,4})-)?(?P<rest>\d{1,5}(?::\d{1,2}){0,2})")


class Fields:
    """The values of a document by dotted path; keeps what is wrong with them and which nobody asked for."""

    def __init__(self, document: Mapping[str, Any], sections: Collection[str]) -> None:
        self.problems: list[Problem] = []
        self._sections = sections
        self._values: dict[str, Any] = {}
        self._asked: set[str] = set()
        self._walk(document, "")

    def _walk(self, section: Mapping[str, Any], above: str) -> None:
        for key, value in section.items():
            # Quoted, so that a key with a dot is never taken for a path.
            name = str(key) if re.fullmatch(r"[\w-]+", str(key)) else json.dumps(str(key))
            path = f"{above}.{name}" if above else name
            if path not in self._sections:
                self._values[path] = value
            elif isinstance(value, Mapping):
                self._walk(value, path)
            elif value is not None:
                self.wrong(path, f"a section with keys is needed here, not {shown(value)}")

    def wrong(self, path: str, message: str) -> None:
        """Keep a problem; a value that is read twice is wrong once."""
        problem = Problem("import", f"{path}: {message}", path)
        if problem not in self.problems:
            self.problems.append(problem)

    def given(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths that have a value, which are read from now on."""
        self._asked |= set(paths)
        return [path for path in paths if self._values.get(path) is not None]

    def read(self, path: str, parse: Callable[[Any], T]) -> T | None:
        """One value, checked; None where there is none or it is wrong."""
        if not self.given([path]):
            return None
        try:
            return parse(self._values[path])
        except ValueError as problem:
            self.wrong(path, str(problem))
            return None

    def raw(self, path: str) -> str:
        """A value as the document has it, short enough for a line."""
        return shown(self._values.get(path))

    def left(self) -> list[str]:
        """The paths that nobody asked for."""
        return [path for path in self._values if path not in self._asked]


def shown(value: object) -> str:
    """A value on one line, cut where it is long."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def whole(least: int, most: int) -> Callable[[Any], int]:
    """Reads a whole number, also one in quotes."""

    def parse(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"\s*\d{1,12}\s*", value, re.ASCII) else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ValueError(f"must be a whole number from {least:,} to {most:,}, not {shown(value)}")
        return number

    return parse


def number(least: float, most: float) -> Callable[[Any], float]:
    """Reads a number."""

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}, not {shown(value)}")
        return value

    return parse


def line(longest: int = 200) -> Callable[[Any], str]:
    """Reads text on one line."""

    def parse(value: object) -> str:
        text = value.strip() if isinstance(value, str) else ""
        if not 1 <= len(text) <= longest or not text.isprintable():
            raise ValueError(f"must be text of 1 to {longest} characters on one line, not {shown(value)}")
        return text

    return parse


def text(value: object) -> str:
    """Read any text that can be written to a file."""
    if isinstance(value, str) and not re.search("[\ud800-\udfff]", value):
        return value
    raise ValueError(f"must be text, not {shown(value)}")


def slurm_time(value: object) -> str | None:
    """Read a time limit as Slurm writes it, `MM`, `HH:MM:SS` or `D-HH:MM`; None for no limit.

    Returns:
        The limit in words of a benchmark file, such as `1h30m`.
    """
    wanted = "must be a time limit of Slurm such as 00:15:00, 1-12:00:00 or 30 (minutes)"
    if isinstance(value, str) and value.strip().upper() in ("UNLIMITED", "INFINITE"):
        return None
    written = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    match = _CLOCK.fullmatch(written)
    if match is None:
        raise ValueError(f"{wanted}, not {shown(value)}")
    parts = [int(part) for part in match["rest"].split(":")]
    # With days the first number is hours; without, a lone one is minutes and two are minutes and seconds.
    units = (3600, 60, 1) if match["days"] or len(parts) == 3 else (60, 1)
    seconds = int(match["days"] or 0) * 86_400 + sum(part * unit for part, unit in zip(parts, units, strict=False))
    if seconds == 0:
        raise ValueError(f"{wanted}, not {shown(value)}")
    return duration_words(seconds)


def duration_words(seconds: int) -> str:
    """A duration as a benchmark file has it: `1h30m`, `15m`, `90s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
