"""A benchmark file as text: its tree of plain values, and the line of every key in it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from assay.errors import Problem, SpecError

KeyPath = tuple[str | int, ...]

# A YAML alias can blow a small file up to gigabytes; no honest benchmark file comes near this.
MAX_NODES = 200_000


@dataclass(frozen=True, slots=True)
class Source:
    """What a file says, before anything is checked."""

    name: str
    document: dict[str, JsonValue]
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a person should know about how it was read, such as from which tool it was imported."""

    def at(self, path: KeyPath) -> str:
        """Where a key stands, as `file:line`; the nearest enclosing key when it is not written itself."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return f"{self.name}:{self.lines[path[:end]]}"
        return self.name


def read(path: Path) -> Source:
    """Read a YAML, TOML or JSON file.

    Raises:
        SpecError: if it cannot be read or is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise SpecError(
            f"cannot read the benchmark file: {problem.strerror}",
            code="no-file",
            at=str(path),
            try_="check the path, or write a starter file with `assay init`",
        ) from None
    except UnicodeDecodeError as problem:
        raise SpecError(f"not UTF-8 text: {problem.reason}", code="syntax", at=str(path)) from None
    return parse(text, path.suffix.lower(), str(path))


def parse(text: str, suffix: str, name: str) -> Source:
    """Parse the text of a benchmark file; the suffix tells the format."""
    if suffix == ".toml":
        document, lines = _toml(text, name)
    elif suffix == ".json":
        document, lines = _json(text, name)
    else:
        document, lines = _yaml(text, name)
    if not isinstance(document, dict):
        raise SpecError(
            f"a benchmark file is a mapping of keys, this is {_kind(document)}",
            code="syntax",
            at=name,
            try_="start from `assay init`",
        )
    return Source(name, document, lines)


def from_mapping(document: Mapping[str, Any], name: str = "benchmark") -> Source:
    """Wrap a mapping that a program built; it has no lines."""
    try:
        return Source(name, json.loads(json.dumps(document, allow_nan=False)))
    except (TypeError, ValueError) as problem:
        raise SpecError(f"the benchmark is not plain data: {problem}", code="syntax", at=name) from None


def _kind(value: object) -> str:
    return "empty" if value is None else f"a {type(value).__name__}"


def _toml(text: str, name: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise SpecError(f"not valid TOML: {problem}", code="syntax", at=name) from None
    # TOML dates have no meaning in a benchmark; their text is what the user wrote.
    return json.loads(json.dumps(document, default=str)), dict(_toml_lines(text))


_TABLE = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")


def _toml_lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Yield the line of each table and key; tomllib tells none, and errors must."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _toml_key(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_toml_key(key[1])), number


def _toml_key(text: str) -> KeyPath:
    parts = re.findall(r""""([^"]*)"|'([^']*)'|([\w-]+)""", text)
    return tuple(quoted or single or bare for quoted, single, bare in parts)


def _json(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as problem:
        raise SpecError(f"not valid JSON: {problem.msg}", code="syntax", at=f"{name}:{problem.lineno}") from None
    try:  # JSON is nearly a subset of YAML, whose reader knows the lines
        return document, _yaml(text, name)[1]
    except SpecError:
        return document, {}


def _yaml(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="safe", pure=True)
    try:
        node = reader.compose(text)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise SpecError(f"not valid YAML: {problem.problem}", code="syntax", at=name + line) from None
    except YAMLError as problem:
        raise SpecError(f"not valid YAML: {problem}", code="syntax", at=name) from None
    builder = _YamlTree(name)
    document = None if node is None else builder.value(node, ())
    if builder.problems:
        raise SpecError.of(builder.problems)
    return document, builder.lines


class _YamlTree:
    """Builds plain values out of YAML nodes and keeps the line of each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._nodes = 0

    def value(self, node: Any, path: KeyPath) -> Any:  # noqa: ANN401  (ruamel's nodes are untyped)
        """The plain value of a node."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SpecError(f"the file unfolds to more than {MAX_NODES} values", code="syntax", at=self.name)
        self.lines.setdefault(path, node.start_mark.line + 1)
        kind = type(node).__name__
        if kind == "MappingNode":
            return self._mapping(node, path)
        if kind == "SequenceNode":
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        return _scalar(str(node.tag), str(node.value))

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:  # noqa: ANN401
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if str(key_node.tag).endswith(":merge"):
                merged |= self._merged(value_node, path)
                continue
            line = key_node.start_mark.line + 1
            if key in own:
                first = self.lines[(*path, key)]
                self.problems.append(
                    Problem("duplicate-key", f"{dotted((*path, key))} is given twice, first on line {first}",
                            f"{self.name}:{line}", "keep one of the two")
                )  # fmt: skip
            self.lines[(*path, key)] = line
            own[key] = self.value(value_node, (*path, key))
        return merged | own

    def _merged(self, node: Any, path: KeyPath) -> dict[str, Any]:  # noqa: ANN401
        value = self.value(node, path)
        parts = value if isinstance(value, list) else [value]
        return {key: item for part in reversed(parts) if isinstance(part, dict) for key, item in part.items()}


_INT = re.compile(r"^[-+]?\d+$")


def _scalar(tag: str, text: str) -> JsonValue:
    """A scalar by YAML 1.2's core schema; what it does not know stays text (dates, 1:30)."""
    kind = tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        clean = text.replace("_", "")
        return int(clean, 10) if _INT.match(clean) else int(clean, 0)
    if kind == "float":
        clean = text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
        return float(clean)
    return text


def dotted(path: KeyPath) -> str:
    """A path as people write it: `alerts[0].metric`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
