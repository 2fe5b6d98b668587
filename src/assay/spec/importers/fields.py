"""Reading the fields of a foreign document: each value checked, none silently dropped; and types of cloud machines.

The table `instances.csv` beside this file has the types of Amazon EC2. A file of the same columns that the variable
ASSAY_INSTANCES names adds others, and wins over it.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import JsonValue

from assay.errors import Problem, SpecError, UsageError
from assay.spec.importers.registry import Imported

T = TypeVar("T")
_SHOWN = 60
_CLOCK = re.compile(r"(?:(?P<days>\d{1,4})-)?(?P<rest>\d{1,5}(?::\d{1,2}){0,2})")


class Fields:
    """The values of a document by dotted path; keeps what is wrong with them and which were never read."""

    def __init__(self, document: Mapping[str, Any], sections: Collection[str]) -> None:
        self.problems: list[Problem] = []
        self._sections = sections
        self._values: dict[str, Any] = {}
        self._read: set[str] = set()
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
        self._read |= set(paths)
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
        """The paths that were never read."""
        return [path for path in self._values if path not in self._read]


class ForeignDocument:
    """A document of another tool while it is read: its fields, and the remarks on them."""

    name: ClassVar[str]

    def __init__(self, document: Mapping[str, Any], sections: Collection[str]) -> None:
        self.fields = Fields(document, sections)
        self.remarks: list[str] = []

    def say(self, path: str, why: str) -> None:
        """Add a remark on how a field is imported."""
        self.remarks.append(f"{path} is {self.fields.raw(path)}: {why}")

    def imported(self, benchmark: dict[str, JsonValue]) -> Imported:
        """What it was made into, once every field was read."""
        for path in self.fields.left():
            self.say(path, f"no field of a {self.name} that is known; left out")
        if self.fields.problems:
            raise SpecError.of(self.fields.problems)
        return Imported(benchmark, tuple(dict.fromkeys(self.remarks)))


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
    message = "must be a time limit of Slurm such as 00:15:00, 1-12:00:00 or 30 (minutes)"
    if isinstance(value, str) and value.strip().upper() in ("UNLIMITED", "INFINITE"):
        return None
    written = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    match = _CLOCK.fullmatch(written)
    if match is None:
        raise ValueError(f"{message}, not {shown(value)}")
    parts = [int(part) for part in match["rest"].split(":")]
    # With days the first number is hours; without, a lone one is minutes and two are minutes and seconds.
    units = (3600, 60, 1) if match["days"] or len(parts) == 3 else (60, 1)
    seconds = int(match["days"] or 0) * 86_400 + sum(part * unit for part, unit in zip(parts, units, strict=False))
    if seconds == 0:
        raise ValueError(f"{message}, not {shown(value)}")
    return duration_words(seconds)


def duration_words(seconds: int) -> str:
    """A duration as a benchmark file has it: `1h30m`, `15m`, `90s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)


VARIABLE = "ASSAY_INSTANCES"
COLUMNS = ("instance_type", "cpus", "memory_gib", "gpus", "gpu_model", "gpu_memory_gib")
# What a machine or a GPU shows is a little less than its type says: firmware and kernel keep some for themselves.
_USABLE = 0.9


@dataclass(frozen=True, slots=True)
class Instance:
    """One type of machine."""

    name: str
    cpus: int
    memory_gib: float
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_gib: float = 0.0

    def needs(self) -> dict[str, JsonValue]:
        """What a machine must have to be like it, as a benchmark file says it."""
        needs: dict[str, JsonValue] = {"cpus": self.cpus, "memory": _shown(self.memory_gib)}
        if self.gpus:
            gpu_memory = self.gpu_memory_gib and _shown(self.gpu_memory_gib)
            gpus: dict[str, JsonValue] = {"gpus": self.gpus, "gpu_model": self.gpu_model, "gpu_memory": gpu_memory}
            needs |= {name: value for name, value in gpus.items() if value}
        return needs


def find_instance(name: str, environ: Mapping[str, str] | None = None) -> Instance | None:
    """A type of machine by its name, such as `p3.8xlarge`; None where no table has it."""
    variables = os.environ if environ is None else environ
    if variables.get(VARIABLE):
        path = Path(variables[VARIABLE]).expanduser()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(
                f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}",
                code="instances",
                at=VARIABLE,
                try_="name a CSV file, or unset it",
            ) from None
        if (own := _found(name, lines, str(path))) is not None:
            return own
    table = (files("assay.spec.importers") / "instances.csv").read_text(encoding="utf-8")
    return _found(name, table.splitlines(), "instances.csv")


def _found(name: str, lines: Iterable[str], source: str) -> Instance | None:
    rows = csv.DictReader(lines)
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise UsageError(
            f"{source} has other columns than {','.join(COLUMNS)}",
            code="instances",
            at=source,
            try_="write them as its first line",
        )
    for row in rows:
        if (row["instance_type"] or "").strip() == name:
            return _instance(row, f"{source}:{rows.line_num}")
    return None


def _instance(row: Mapping[str, str | None], at: str) -> Instance:
    cells = {key: (value or "").strip() for key, value in row.items() if key is not None}
    try:
        instance = Instance(
            cells["instance_type"],
            int(cells["cpus"]),
            float(cells["memory_gib"]),
            int(cells["gpus"] or 0),
            cells["gpu_model"],
            float(cells["gpu_memory_gib"] or 0),
        )
    except ValueError as problem:
        raise UsageError(f"a number is wrong: {problem}", code="instances", at=at, try_="write 4 or 30.5") from None
    memory_is_finite = 0 < instance.memory_gib < math.inf and 0 <= instance.gpu_memory_gib < math.inf
    if instance.cpus < 1 or instance.gpus < 0 or not memory_is_finite:
        raise UsageError(f"{instance.name} has a size that no machine has", code="instances", at=at)
    return instance


def _shown(gib: float) -> str:
    return f"{int(gib * 1024 * _USABLE)}MiB"
