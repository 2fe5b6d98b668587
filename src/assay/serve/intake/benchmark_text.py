"""The text of a benchmark file, as somebody writes it: what it says, what is wrong and where, what would happen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from assay.errors import AssayError, Problem
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.serve.intake.submission import plan_loaded, preview
from assay.serve.state import ServerState
from assay.serve.web.problems import is_away
from assay.serve.web.records import BenchmarkPreview
from assay.spec.importers import own_source
from assay.spec.limits import MAX_CHARACTERS
from assay.spec.load import check
from assay.spec.source import KeyPath, SourceDocument, dotted, parse

LONGEST_TEXT = MAX_CHARACTERS
_NAME = "file"
_LINE = re.compile(rf"^{_NAME}:(\d+)$")


@dataclass(frozen=True, slots=True)
class BenchmarkText:
    """A benchmark file while it is written."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)]
    format: Literal["yaml", "toml", "json"] = "yaml"
    files: Mapping[str, tuple[JobFile, ...]] = field(default_factory=dict)
    """Text of the document that names a local file → the file, then files beside it; uploaded before."""


@dataclass(frozen=True, slots=True)
class ReadProblem:
    """One thing that is wrong with a file, and where."""

    message: str
    code: str
    line: int | None
    """From 1; null where no single line is to blame."""
    column: int | None
    """From 1: where the key of that line stands."""
    path: str
    """The key of that line, such as `load.rate`; empty where no line is to blame."""
    try_: Annotated[str, Field(alias="try")]
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class BenchmarkCheck:
    """What a file says."""

    document: Mapping[str, JsonValue] | None
    """The file as plain data; null where it cannot be read at all."""
    errors: tuple[ReadProblem, ...]
    """Everything that is wrong with it, in the order of the file."""
    preview: BenchmarkPreview | None
    """What would happen if it were submitted; null while something is wrong."""


def read_text(state: ServerState, given: BenchmarkText) -> BenchmarkCheck:
    """Read a file and say what it means; what is wrong with it is the answer, not an error.

    Raises:
        StoreError: if the store cannot be asked who could take the jobs.
    """
    source = None
    try:
        source = parse(given.text, f".{given.format}", _NAME)
        planned = plan_loaded(state, check(own_source(source), Path()), Submission(files=given.files))
        return BenchmarkCheck(source.document, (), preview(state, planned))
    except AssayError as wrong:
        if is_away(wrong):
            raise
        keys = _keys(source)
        told = tuple(_problem(one, given.text, keys) for one in wrong.problems)
        return BenchmarkCheck(source.document if source else None, told, None)


Keys = Mapping[int, list[tuple[str, KeyPath]]]


def _keys(source: SourceDocument | None) -> Keys:
    """Line → the keys that stand there, with their names."""
    found: dict[int, list[tuple[str, KeyPath]]] = {}
    for path, line in source.lines.items() if source else ():
        found.setdefault(line, []).extend([(f"{dotted(path)} ", path)] if path else [])
    return found


def _problem(problem: Problem, text: str, keys: Keys) -> ReadProblem:
    found = _LINE.match(problem.at)
    if found is None:
        return ReadProblem(problem.message, problem.code, None, None, "", problem.try_)
    line = int(found[1])
    path = _path(keys.get(line, []), problem.message)
    return ReadProblem(problem.message, problem.code, line, _column(text, line, path), dotted(path), problem.try_)


def _path(there: list[tuple[str, KeyPath]], message: str) -> KeyPath:
    """The key that a problem on a line is about: the one that the message begins with, else the first of the line."""
    named = [path for name, path in there if message.startswith(name)]
    return max(named, key=len) if named else min((path for _, path in there), key=len, default=())


def _column(text: str, line: int, path: KeyPath) -> int | None:
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return None
    shown = lines[line - 1]
    key = path[-1] if path and isinstance(path[-1], str) else ""
    at = shown.find(key) if key else -1
    return (at if at >= 0 else len(shown) - len(shown.lstrip())) + 1
