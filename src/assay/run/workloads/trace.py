"""A recorded load: when requests came, and how long they and their answers were.

Own files have `at` (seconds from the start). The columns of public traces are read as they are published: Azure's
(`TIMESTAMP`, `ContextTokens`, `GeneratedTokens`), Mooncake's (`timestamp` in milliseconds, `input_length`,
`output_length`) and BurstGPT's (`Timestamp` in seconds, `Request tokens`, `Response tokens`).
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.files import refuse_endless
from assay.plan.job import content_hash
from assay.run.tokens import Tokenizer
from assay.run.workloads import Workset, digest, make_workset, spread, workset
from assay.run.workloads.synthetic import LICENCE, SOURCE, draw_outputs, exact_items
from assay.spec.benchmark import Definition

# Names of columns, in lower case with `_` for a space; the first that a file has is taken.
_TIMES = ("at", "at_s", "at_ms", "timestamp_ms", "arrival_s", "arrival_time", "arrived_at", "timestamp", "time")
_INPUTS = ("input_tokens", "prompt_tokens", "contexttokens", "context_tokens", "input_length", "request_tokens",
           "num_prefill_tokens")  # fmt: skip
_OUTPUTS = ("output_tokens", "completion_tokens", "generatedtokens", "generated_tokens", "output_length",
            "response_tokens", "num_decode_tokens")  # fmt: skip
_FROM_START = frozenset({"at", "at_s", "at_ms"})  # counted from the start of the load, not from the first row
_LARGEST_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in the order in which they came."""

    name: str
    at_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64] | None
    output_tokens: NDArray[np.int64] | None
    unread: tuple[str, ...] = ()
    """Columns that say something we do not replay, such as which blocks of two prompts are the same."""

    def __len__(self) -> int:
        return len(self.at_s)


def read_trace(path: Path, *, within_s: float | None = None, at_most: int | None = None) -> Trace:
    """Read a trace from JSONL or CSV, plain or gzipped."""
    rows = _Rows(path)
    at: list[float] = []
    sizes: dict[str, list[int]] = {"input": [], "output": []}
    for line, row in rows:
        when = rows.time(line, row)
        if at and when < at[-1]:
            raise rows.wrong(line, f"came {at[-1] - when:g} s before the row above it", "sort the file by time")
        if (within_s is not None and when > within_s) or (at_most is not None and len(at) >= at_most):
            break
        at.append(when)
        for which in sizes:
            if (size := rows.size(line, row, which)) is not None:
                sizes[which].append(size)
    if not at:
        raise _unreadable(path, "holds no request")
    inputs, outputs = (np.array(sizes[which], dtype=np.int64) if sizes[which] else None for which in sizes)
    return Trace(path.name, np.array(at), inputs, outputs, rows.unread())


def trace_workset(definition: Definition, base: Path, tokenizer: Tokenizer | None, trace: Trace) -> Workset:
    """Items of a trace's sizes, one per row, so that session number s is row s.

    Where the trace gives no prompt lengths, the items of the workload's own task are used in turn.
    """
    workload = definition.workload
    more: dict[str, JsonValue] = {"trace": trace.name, "trace_rows": len(trace), "not_replayed": list(trace.unread)}
    if trace.input_tokens is None:
        rows = definition.load.model_copy(update={"requests": len(trace)})
        made = make_workset(definition.model_copy(update={"load": rows}), base, tokenizer)
        return _with_outputs(made, trace, more)
    for key in ("task", "file", "input_tokens", "items"):
        if getattr(workload, key) not in (None, "synthetic"):
            message = f"workload.{key} and the prompt lengths of {trace.name} cannot both be followed"
            try_ = f"remove workload.{key}, or the input tokens from the trace"
            raise MeasureError(message, code="trace", at=f"workload.{key}", try_=try_)
    items, facts = exact_items(workload, [int(length) for length in trace.input_tokens], tokenizer)
    answers = (
        draw_outputs(workload.output_tokens, len(items), workload.seed)
        if trace.output_tokens is None
        else [int(length) for length in trace.output_tokens]
    )
    asked = [replace(item, output_tokens=answer) for item, answer in zip(items, answers, strict=True)]
    source = f"{SOURCE}, in the lengths of {trace.name}"
    return workset(
        "synthetic", asked, workload, tokenizer, source=source, licence=LICENCE, more={**facts, **more}, made=True
    )


def _with_outputs(made: Workset, trace: Trace, more: Mapping[str, JsonValue]) -> Workset:
    if trace.output_tokens is None:
        return replace(made, facts={**made.facts, **more})
    answers = [int(length) for length in trace.output_tokens]
    items = tuple(
        replace(made.items[number % len(made.items)], output_tokens=answer) for number, answer in enumerate(answers)
    )
    lengths: JsonValue = {"asked": f"those of {trace.name}", "drawn": spread(answers)}
    changed: dict[str, JsonValue] = {"items": len(items), "digest": digest(items), "output_tokens": lengths}
    if "texts_digest" in made.facts:  # words that are new in every run mean the same
        changed |= {"digest": content_hash([made.facts["digest"], answers]), "texts_digest": digest(items)}
    return replace(made, items=items, facts={**made.facts, **changed, **more})


class _Rows:
    """The rows of a file with their lines, and how its columns are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: dict[str, str] = {}  # plain name → name in the file
        self._first: float | None = None

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, JsonValue]]]:
        with _explained(self._path), _opened(self._path) as file:
            begin = next((line for line in file if line.strip()), "")
            file.seek(0)
            for line, row in self._json(file) if begin.lstrip().startswith("{") else self._csv(file):
                if not self._columns:
                    self._columns = {name.strip().lower().replace(" ", "_"): name for name in row}
                    if not self._name(_TIMES):
                        raise self.wrong(line, f"has no column for the time; it has {', '.join(row) or 'none'}")
                yield line, row

    def unread(self) -> tuple[str, ...]:
        return tuple(self._columns[name] for name in ("hash_ids", "numimages") if name in self._columns)

    def time(self, line: int, row: Mapping[str, JsonValue]) -> float:
        """Seconds from the start of the load."""
        name = self._name(_TIMES)
        column = self._columns[name]
        # Mooncake counts in milliseconds and calls that column `timestamp` like everybody else.
        in_milliseconds = name.endswith("_ms") or (name == "timestamp" and "input_length" in self._columns)
        value = self._seconds(line, column, row.get(column)) * (0.001 if in_milliseconds else 1.0)
        if name in _FROM_START:
            if value < 0:
                raise self.wrong(line, f"has the time {value:g}, before the start", "count from 0")
            return value
        self._first = value if self._first is None else self._first
        return value - self._first

    def size(self, line: int, row: Mapping[str, JsonValue], which: str) -> int | None:
        """A length in tokens; None where the file has no such column."""
        name = self._name(_INPUTS if which == "input" else _OUTPUTS)
        if not name:
            return None
        column = self._columns[name]
        number = _number(row.get(column))
        if number is None or number != int(number) or not 1 <= number <= _LARGEST_TOKENS:
            shown = "nothing" if row.get(column) in (None, "") else repr(row.get(column))
            raise self.wrong(
                line,
                f"has {shown} for {column}; a whole number from 1 to {_LARGEST_TOKENS:,} is needed",
                "leave out the rows of failed requests",
            )
        return int(number)

    def wrong(self, line: int, why: str, hint: str = "") -> MeasureError:
        return MeasureError(f"line {line} {why}", code="trace", at=f"{self._path.name}:{line}", try_=hint or _SHAPE)

    def _name(self, names: Sequence[str]) -> str:
        return next((name for name in names if name in self._columns), "")

    def _seconds(self, line: int, column: str, value: JsonValue) -> float:
        number = _number(value)
        if number is not None:
            return number
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            shown = "nothing" if value in (None, "") else repr(value)
            raise self.wrong(line, f"has {shown} for {column}; seconds or a date with a time are needed") from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def _json(self, file: TextIO) -> Iterator[tuple[int, Mapping[str, JsonValue]]]:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as problem:  # ValueError: also a number of thousands of digits
                raise self.wrong(line, f"is not JSON: {problem}") from None
            if not isinstance(row, dict):
                raise self.wrong(line, "is not a JSON object")
            yield line, row

    def _csv(self, file: TextIO) -> Iterator[tuple[int, Mapping[str, JsonValue]]]:
        reader = csv.DictReader(file, strict=True)
        try:
            yield from ((reader.line_num, row) for row in reader)
        except csv.Error as problem:
            raise self.wrong(reader.reader.line_num, f"is not CSV: {problem}") from None


_SHAPE = 'a row is like {"at": 0.5, "input_tokens": 512, "output_tokens": 128}, or a CSV file with these columns'


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _opened(path: Path) -> TextIO:
    """The text of a file, read as it is needed: public traces have millions of rows."""
    refuse_endless(path)
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of reading into ours."""
    try:
        yield
    except (EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        raise _unreadable(path, "is not UTF-8 text, plain or gzipped") from None
    except OSError as problem:
        raise _unreadable(path, f"cannot be read: {problem.strerror or problem}") from None


def _unreadable(path: Path, why: str) -> MeasureError:
    return MeasureError(f"{path} {why}", code="trace", at="load.trace", try_=_SHAPE)
