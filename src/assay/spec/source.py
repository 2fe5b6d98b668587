"""A benchmark file as text: its tree of plain values, and the line of every key in it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from assay.errors import Problem, SpecError
from assay.spec.limits import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NODES,
    KeyPath,
    bounded,
    check_text,
    check_tree,
    cut,
    dotted,
    read_text,
    too_deep,
    too_long,
    too_many,
)

__all__ = ["MAX_NODES", "KeyPath", "SourceDocument", "dotted", "from_mapping", "parse", "parse_any", "read"]


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """What a file says, before anything is checked."""

    name: str
    document: dict[str, JsonValue]
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a person should know about how it was read, such as from which tool it was imported."""
    typed: Mapping[KeyPath, str] = field(default_factory=dict)
    """Key → the option of the command line that set it."""

    def at(self, path: KeyPath) -> str:
        """Where a key stands, as `file:line` or the option that set it; else where the nearest key around it does."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.typed:
                return self.typed[path[:end]]
            if path[:end] in self.lines:
                return f"{self.name}:{self.lines[path[:end]]}"
        return self.name


def read(path: Path) -> SourceDocument:
    """Read a YAML, TOML or JSON file."""
    return parse(read_text(path), path.suffix.lower(), str(path))


def parse(text: str, suffix: str, name: str) -> SourceDocument:
    """Parse the text of a benchmark file; the suffix tells the format.

    Raises:
        SpecError: if it is not such a text, or beyond the bounds of `limits`.
    """
    document, lines = parse_any(text, suffix, name)
    if not isinstance(document, dict):
        raise SpecError(
            f"a benchmark file is a mapping of keys, this is {_kind(document)}",
            code="syntax",
            at=name,
            try_="start from `assay init`",
        )
    return SourceDocument(name, document, lines)


def parse_any(text: str, suffix: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    """The plain values of a text, which need not be a mapping, and the line of each.

    Raises:
        SpecError: if it is not such a text, or beyond the bounds of `limits`.
    """
    check_text(text, name)
    return _READERS.get(suffix, _yaml)(text, name)


def from_mapping(document: Mapping[str, Any], name: str = "benchmark") -> SourceDocument:
    """Wrap a mapping that a program built; it has no lines.

    Raises:
        SpecError: if it is no plain data, or beyond the bounds of `limits`.
    """
    check_tree(document, name)
    try:
        return SourceDocument(name, json.loads(json.dumps(document, allow_nan=False)))
    except (TypeError, ValueError) as problem:
        raise SpecError(f"the benchmark is not plain data: {problem}", code="syntax", at=name) from None


def _kind(value: object) -> str:
    names = {"NoneType": "empty", "str": "text", "list": "a list", "bool": "true or false"}
    return names.get(type(value).__name__, "a number")


def _toml(text: str, name: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    _refuse_long_tokens(text, name)
    try:
        document = tomllib.loads(text)
    except ValueError as problem:  # also for a number of thousands of digits
        raise SpecError(f"not valid TOML: {cut(str(problem))}", code="syntax", at=name) from None
    except RecursionError:
        raise too_deep(name) from None
    check_tree(document, name, lambda path: SourceDocument(name, {}, dict(_toml_lines(text))).at(path))
    # TOML dates have no meaning in a benchmark; their text is what the user wrote.
    return json.loads(json.dumps(document, default=str)), dict(_toml_lines(text))


_TOML_TOKEN = re.compile(
    r'''(?P<text>"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|'{3}(?:[^']|'(?!''))*+'{3,5}|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')'''
    r"""|(?P<comment>\#[^\n]*+)|(?P<bare>[A-Za-z0-9_-]++)|(?P<dot>\.)|(?P<space>[ \t]++)|(?P<open>["'])|(?P<other>.)""",
    re.DOTALL,
)


def _refuse_long_tokens(text: str, name: str) -> None:
    """Refuse what must not be parsed: a dotted key of very many parts takes memory that grows with their square."""
    dots = 0
    for token in _TOML_TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            if dots > MAX_DEPTH:
                line = text.count("\n", 0, token.start()) + 1
                raise SpecError(
                    f"a key has more than {MAX_DEPTH} parts",
                    code="too-deep",
                    at=f"{name}:{line}",
                    try_="write it flatter",
                )
        elif kind == "bare" and len(token[0]) > MAX_DIGITS and token[0].strip("+-_0123456789") == "":
            line = text.count("\n", 0, token.start()) + 1
            raise SpecError(
                f"a whole number of {len(token[0]):,} characters; at most {MAX_DIGITS} digits are read",
                code="value",
                at=f"{name}:{line}",
            )
        elif kind == "open":  # a text that is never closed, which is for the parser to say
            return
        elif kind in ("other", "comment"):
            dots = 0


_TABLE = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?$")
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
        document = json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as problem:
        raise SpecError(f"not valid JSON: {problem.msg}", code="syntax", at=f"{name}:{problem.lineno}") from None
    except ValueError as problem:
        raise SpecError(f"not valid JSON: {problem}", code="syntax", at=name) from None
    except RecursionError:
        raise too_deep(name) from None
    check_tree(document, name, lambda path: SourceDocument(name, {}, _json_lines(text, name)).at(path))
    return document, _json_lines(text, name)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},]|[^\s\[\]{},:"]++')


def _json_lines(text: str, name: str) -> dict[KeyPath, int]:
    """The line of each value of a JSON text that is valid, and of each key."""
    lines: dict[KeyPath, int] = {}
    twice: list[Problem] = []
    path: list[Any] = []  # the key or index of each open section; None before its next key
    line, position = 1, 0
    for token in _JSON_TOKEN.finditer(text):
        line, position = line + text.count("\n", position, token.start()), token.start()
        word = token[0]
        if word in "}]":
            path.pop()
        elif word == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif path and path[-1] is None:
            path[-1] = json.loads(word)
            if (key := tuple(path)) in lines:
                twice.append(_given_twice(key, lines[key], f"{name}:{line}"))
            lines[key] = line
        else:
            lines.setdefault(tuple(path), line)
            path += [None] if word == "{" else [0] if word == "[" else []
    if twice:
        raise SpecError.of(bounded(twice))
    return lines


def _given_twice(path: KeyPath, first: int, at: str) -> Problem:
    return Problem("duplicate-key", f"{dotted(path)} is given twice, first on line {first}", at, "keep one of the two")


def _yaml(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import MaxDepthExceededError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="safe", pure=True)
    reader.max_depth, reader.Composer = MAX_DEPTH + 1, _counting_composer()  # a scalar is a level there
    try:
        node = reader.compose(text)
    except MaxDepthExceededError as problem:
        raise too_deep(f"{name}:{problem.problem_mark.line + 1}") from None
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise SpecError(f"not valid YAML: {cut(str(problem.problem))}", code="syntax", at=name + line) from None
    except YAMLError as problem:
        raise SpecError(f"not valid YAML: {cut(str(problem))}", code="syntax", at=name) from None
    except _TooManyError:
        raise too_many(name) from None
    except _OF_THE_READER as problem:
        raise SpecError(f"not valid YAML: {cut(str(problem).partition(';')[0])}", code="syntax", at=name) from None
    builder = _YamlTree(name)
    document = None if node is None else builder.value(node, ())
    if builder.problems:
        raise SpecError.of(bounded(builder.problems))
    check_tree(document, name, SourceDocument(name, {}, builder.lines).at)
    return document, builder.lines


# What the YAML reader raises for texts that its authors did not think of: `%YAML 1.999…`, `"\UFFFFFFFF"`.
_OF_THE_READER = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, AssertionError, RecursionError)


class _TooManyError(Exception):
    """A YAML text has more values than are read."""


@cache
def _counting_composer() -> type[Any]:
    """A composer that stops at too many values: composing one takes as long as reading hundreds of characters."""
    from ruamel.yaml.composer import Composer

    class Counting(Composer):
        def __init__(self, loader: Any = None) -> None:  # noqa: ANN401
            super().__init__(loader)
            self.warn_double_anchors = False  # YAML allows them
            self.nodes = 0

        def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise _TooManyError
            return super().compose_node(parent, index)

    return Counting


class _YamlTree:
    """Builds plain values out of YAML nodes and keeps the line of each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._characters = 0
        self._open: set[int] = set()

    def value(self, node: Any, path: KeyPath) -> Any:  # noqa: ANN401  (ruamel's nodes are untyped)
        line = node.start_mark.line + 1
        self._count()
        self.lines.setdefault(path, line)
        kind = type(node).__name__
        if kind == "ScalarNode":
            return self._scalar(node, path)
        if id(node) in self._open:
            raise SpecError(
                f"{dotted(path)} is an alias of a section that it is part of",
                code="syntax",
                at=f"{self.name}:{line}",
                try_="write the section out",
            )
        if len(self._open) > MAX_DEPTH:
            raise too_deep(f"{self.name}:{line}")
        self._open.add(id(node))
        content: Any
        if kind == "MappingNode":
            content = self._mapping(node, path)
        else:
            content = [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        self._open.discard(id(node))
        return content

    def _scalar(self, node: Any, path: KeyPath) -> JsonValue:  # noqa: ANN401
        text = str(node.value)
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise too_long(self.name)
        try:
            return _scalar(str(node.tag), text)
        except ValueError as problem:
            kind = str(node.tag).rpartition(":")[2]
            message = (
                f"{dotted(path)} is {cut(repr(text), 80)}, which cannot be read as {kind}: {cut(str(problem), 200)}"
            )
            raise SpecError(message, code="value", at=f"{self.name}:{self.lines[path]}") from None

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise too_many(self.name)

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:  # noqa: ANN401
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            self._count()
            line = key_node.start_mark.line + 1
            if type(key_node).__name__ != "ScalarNode":
                raise SpecError(
                    f"a key of {dotted(path) or 'the file'} is a section or a list; a key is text",
                    code="syntax",
                    at=f"{self.name}:{line}",
                    try_="put it in quotes",
                )
            if str(key_node.tag).endswith(":merge"):
                merged |= self._merged(value_node, path)
                continue
            key = str(key_node.value)
            if key in own:
                first = self.lines[(*path, key)]
                self.problems.append(_given_twice((*path, key), first, f"{self.name}:{line}"))
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
        return _integer(clean, 10 if _INT.match(clean) else 0)
    if kind == "float":
        clean = text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
        return float(clean)
    return text


def _integer(text: str, base: int = 10) -> int:
    if len(text) > MAX_DIGITS + 1:
        raise ValueError(f"a whole number of {len(text):,} characters; at most {MAX_DIGITS} digits are read")
    return int(text, base)


_READERS = {".toml": _toml, ".json": _json}
