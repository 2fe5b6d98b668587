"""History that people already have, from a file: CSV or JSON lines with a series, a time and a value in each line.

Other columns are `better` (`lower` or `higher`), `unit`, and anything that was around the point and may explain a
change: `commit`, `model`, `image`, `driver`, `kernel`, `machine`, `package.NAME`, …
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from assay.errors import Problem, UsageError
from assay.files import read_bounded
from assay.metrics import METRICS, Better, base_name

NEEDED = ("series", "time", "value")
_OWN = frozenset({*NEEDED, "better", "unit"})
_MISSING = frozenset({"", "-", "na", "n/a", "nan", "null", "none"})
_ALIASES = {"host": "machine", "hostname": "machine"}
_LONGEST_NAME = 200
_LONGEST_CONTEXT = 2000
_LARGEST = 1e300
_LARGEST_FILE = 512 * 2**20
# From the year 1 to the year 9999.
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_799.0


@dataclass(frozen=True, slots=True)
class FilePoint:
    """One line of a file."""

    series: str
    at: float
    """Seconds since 1970, or whatever number the file counts time by."""
    value: float | None
    """None where the line has none: nothing was measured then."""
    better: Better | None = None
    unit: str = ""
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    label: str = ""
    """The time as it is written."""


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """What a file holds: points in its order, and every line that cannot be used."""

    points: tuple[FilePoint, ...]
    problems: tuple[Problem, ...]

    def series(self) -> dict[str, tuple[FilePoint, ...]]:
        """Name → its points in order of time; those of equal time in the order of the file."""
        by_name: dict[str, list[FilePoint]] = {}
        for point in self.points:
            by_name.setdefault(point.series, []).append(point)
        return {name: tuple(sorted(points, key=lambda entry: entry.at)) for name, points in by_name.items()}


class _BadLineError(Exception):
    """A line that cannot be used, and why."""


def read_series_file(path: Path) -> SeriesFile:
    """Read a file of points; lines that cannot be used are reported and left out."""
    try:
        text = read_bounded(path, _LARGEST_FILE).decode("utf-8-sig")
    except OSError as problem:
        raise UsageError(f"cannot read the file: {problem.strerror}", code="no-file", at=str(path)) from None
    except UnicodeDecodeError as problem:
        raise UsageError(
            f"the file is not UTF-8 text (byte {problem.start})",
            code="series-file",
            at=str(path),
            try_="save it as UTF-8",
        ) from None
    is_json = path.suffix.lower() in (".jsonl", ".ndjson", ".json") or text.lstrip()[:1] == "{"
    lines = _json_lines(text) if is_json else _csv_lines(text, str(path))
    return _gathered(lines, str(path))


def _gathered(lines: Iterable[tuple[int, Mapping[str, Any] | _BadLineError]], source: str) -> SeriesFile:
    points: list[FilePoint] = []
    problems: list[Problem] = []
    for number, line in lines:
        try:
            if isinstance(line, _BadLineError):
                raise line
            points.append(_point(line))
        except _BadLineError as bad:
            problems.append(Problem("series-line", str(bad), f"{source}:{number}"))
    return SeriesFile(tuple(points), tuple(problems))


def _json_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any] | _BadLineError]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            yield number, _BadLineError("this line is not JSON")
            continue
        yield number, document if isinstance(document, dict) else _BadLineError("this line is no JSON object")


def _csv_lines(text: str, source: str) -> Iterator[tuple[int, Mapping[str, Any] | _BadLineError]]:
    head = text.partition("\n")[0]
    delimiter = next((candidate for candidate in (",", ";", "\t") if candidate in head), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = _columns(next(reader, []), source)
    except csv.Error as problem:
        raise UsageError(f"the first line is no CSV: {problem}", code="series-file", at=f"{source}:1") from None
    last = reader.line_num
    while True:
        try:
            row = next(reader, None)
        except csv.Error as problem:
            # An open quote swallows the lines after it.
            upto = f", up to line {reader.line_num}" if reader.line_num > last + 1 else ""
            yield last + 1, _BadLineError(f"this is no CSV{upto}: {problem}")
            last = reader.line_num
            continue
        if row is None:
            return
        number, last = last + 1, reader.line_num
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(names):
            yield number, _BadLineError(f"{len(row)} cells for {len(names)} columns")
        else:
            yield number, dict(zip(names, row, strict=False))


def _columns(head: Iterable[str], source: str) -> list[str]:
    """The names of the columns in small letters, however they are written."""
    names = [name.strip().lower() for name in head]
    twice = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    lacking = [name for name in NEEDED if name not in names]
    if lacking or twice:
        complaint = f"no column {' and '.join(lacking)}" if lacking else f"{' and '.join(twice)} more than once"
        shown = f"; it is {','.join(names)[:80]!r}" if any(names) else "; it is empty"
        raise UsageError(
            f"the first line names {complaint}{shown}",
            code="series-file",
            at=f"{source}:1",
            try_="begin with series,time,value",
        )
    return names


def _point(line: Mapping[str, Any]) -> FilePoint:
    name = line.get("series")
    if not isinstance(name, str) or not name.strip():
        raise _BadLineError("it names no series")
    name = name.strip()
    if len(name) > _LONGEST_NAME or "\0" in name:
        raise _BadLineError(f"the name of its series has {len(name)} characters; at most {_LONGEST_NAME} are possible")
    label = str(line.get("time") if line.get("time") is not None else "").strip()
    return FilePoint(
        name,
        _time(label),
        _value(line.get("value")),
        _better(line.get("better"), name),
        str(line.get("unit") or "").strip() or _unit(name),
        _context(line),
        label,
    )


def _time(text: str) -> float:
    """Seconds since 1970 of a date, of a moment (in UTC where it names no zone), or a plain number as it is."""
    if not text:
        raise _BadLineError("it has no time")
    try:
        at = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise _BadLineError(f"{text!r} is no time; write 2026-11-15, 2026-11-15T03:00:00Z or a number") from None
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not _EARLIEST <= at <= _LATEST:
        raise _BadLineError(f"{text!r} is no time that can be kept")
    return at


def _value(cell: object) -> float | None:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING):
        return None
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise _BadLineError(f"{cell!r} is no number")
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        hint = "; decimals are written with a point" if "," in str(cell) else ""
        raise _BadLineError(f"{cell!r} is no number{hint}") from None
    if math.isnan(value):
        return None
    if abs(value) > _LARGEST:
        raise _BadLineError(f"{cell!r} is too large a number")
    return value


def _better(cell: object, name: str) -> Better | None:
    text = str(cell or "").strip().lower()
    if text in ("lower", "higher"):
        return cast("Better", text)
    if text not in _MISSING:
        raise _BadLineError(f"better is {cell!r}; it is lower or higher, or left out")
    # A name that assay itself gives a metric says which direction is better.
    metric = METRICS.get(base_name(name))
    return metric.better if metric else None


def _unit(name: str) -> str:
    metric = METRICS.get(base_name(name))
    return metric.unit if metric else ""


def _context(line: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Everything else that the line tells: packages together, empty cells left out."""
    facts: dict[str, JsonValue] = {}
    packages: dict[str, JsonValue] = {}
    for name, cell in line.items():
        value = cell.strip() if isinstance(cell, str) else cell
        if name in _OWN or not name or value is None or value == "":
            continue
        if "\0" in name or "\\u0000" in json.dumps(value) or len(str(value)) > _LONGEST_CONTEXT:
            raise _BadLineError(f"what it tells as {name[:40]!r} cannot be kept")
        mark, dot, package = name.partition(".")
        if dot and mark in ("package", "packages"):
            packages[package] = value
        else:
            facts[_ALIASES.get(name, name)] = value
    named = facts.get("packages")
    if packages:
        facts["packages"] = {**(named if isinstance(named, dict) else {}), **packages}
    return facts


def checked_point(point: FilePoint) -> FilePoint:
    """A point that was sent, under the same rules as a line of a file."""
    line = {
        **point.context,
        "series": point.series,
        "time": repr(point.at),
        "value": point.value,
        "better": point.better,
        "unit": point.unit,
    }
    try:
        return _point(line)
    except _BadLineError as bad:
        raise UsageError(str(bad), code="series-line") from None
