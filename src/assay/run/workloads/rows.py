"""Items from a user's own JSONL file; every error names its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.files import read_bounded

T = TypeVar("T")

_LARGEST = 2**30  # the rows are held in memory
_SYSTEM_ROLES = frozenset({"system", "developer"})
_OWN_KEYS = frozenset({"id", "prompt", "text", "messages", "turns", "system", "reference", "output_tokens"})
_SOURCES = ("prompt", "text", "messages", "turns")
_LIST_HINT = (
    'a JSON list is not read: write one object on each line, such as {"prompt": "…"} or {"messages": […]}; '
    "`jq -c '.[]'` turns a list into lines"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file, checked."""

    line: int
    id: str
    turns: tuple[str, ...]
    system: str | None
    reference: str | None
    output_tokens: int | None
    data: Mapping[str, JsonValue]
    answers: int  # recorded answers between the turns, which the server's own replace


def read_rows(name: str, base: Path) -> tuple[Row, ...]:
    """Read a JSONL file."""
    path = Path(name).expanduser()
    path = path if path.is_absolute() else base / path
    try:
        lines = read_bounded(path, _LARGEST).split(b"\n")
    except OSError as problem:
        message = f"{path} cannot be read: {problem.strerror or problem}"
        try_ = "a relative path starts from the folder of the benchmark file"
        raise MeasureError(message, code="workload-file", at="workload.file", try_=try_) from None
    rows = tuple(_row(_Line(path.name, number), raw) for number, raw in enumerate(lines, start=1) if raw.strip())
    if not rows:
        message = f"{path} holds no line to ask"
        raise MeasureError(message, code="workload-file", at="workload.file", try_="put one JSON object on each line")
    first_lines: dict[str, int] = {}
    for row in rows:
        if (first := first_lines.setdefault(row.id, row.line)) != row.line:
            why = f"has the id {row.id!r} of line {first}"
            raise _Line(path.name, row.line).wrong(why, "give each line an id of its own")
    return rows


def pick(items: Sequence[T], count: int | None, seed: int, what: str) -> list[T]:
    """All items in their order, or some of them, chosen by the seed; fewer are always among more."""
    if count is None:
        return list(items)
    if count > len(items):
        message = f"workload.items is {count}, and there are only {len(items)} {what}"
        try_ = "leave it out to use all of them; they are repeated when more requests are sent"
        raise MeasureError(message, code="too-few-items", at="workload.items", try_=try_)
    return [items[int(number)] for number in np.random.default_rng([seed, 10]).permutation(len(items))[:count]]


def in_template(template: str | None) -> Callable[[str], str]:
    """Puts a text into the user's template."""
    if template is None:
        return str
    if "{text}" not in template:
        message = f"workload.prompt is {template[:60]!r}, which has no {{text}} where the prompt of each item belongs"
        raise MeasureError(message, code="prompt-template", at="workload.prompt", try_="write {text} where it belongs")
    # Not str.format: templates hold braces of their own, such as those of JSON.
    return lambda text: template.replace("{text}", text)


@dataclass(frozen=True, slots=True)
class _Line:
    """Where in which file, for errors."""

    file: str
    number: int

    def wrong(self, why: str, hint: str = "") -> MeasureError:
        message = f"line {self.number} {why}"
        try_ = hint or 'each line is like {"prompt": "…"}, {"messages": […]} or {"turns": […]}'
        return MeasureError(message, code="workload-file", at=f"{self.file}:{self.number}", try_=try_)


def _row(line: _Line, raw: bytes) -> Row:
    hint = _LIST_HINT if raw.lstrip().startswith(b"[") else ""
    try:
        given = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise line.wrong("is not UTF-8 text", "save the file as UTF-8") from None
    except (ValueError, RecursionError) as problem:  # ValueError: also a number of thousands of digits
        raise line.wrong(f"is not JSON: {problem}", hint) from None
    if not isinstance(given, dict):
        raise line.wrong(f"is {_kind(given)} and not an object", hint)
    sources = [key for key in _SOURCES if key in given]
    if len(sources) != 1:
        raise line.wrong(f"has {' and '.join(sources) or 'none of ' + ', '.join(_SOURCES)}; exactly one is needed")
    asked = _conversation(line, sources[0], given[sources[0]])
    system, reference = _text(line, given, "system"), _text(line, given, "reference")
    if system is not None and asked.system is not None:
        raise line.wrong("has a system text twice: as a key and among its messages")
    return Row(
        line.number,
        _name(line, given.get("id")),
        asked.turns,
        asked.system if system is None else system,
        asked.reference if reference is None else reference,
        _count(line, given.get("output_tokens")),
        {key: value for key, value in given.items() if key not in _OWN_KEYS},
        asked.answers,
    )


@dataclass(frozen=True, slots=True)
class _Conversation:
    turns: tuple[str, ...]
    system: str | None = None
    reference: str | None = None
    answers: int = 0


def _conversation(line: _Line, key: str, value: JsonValue) -> _Conversation:
    if key == "messages":
        return _from_messages(line, value)
    texts = value if key == "turns" else [value]
    if not isinstance(texts, list) or not texts:
        raise line.wrong(f"has {_kind(texts)} for {key}; a list of texts is needed")
    turns = tuple(text for text in texts if isinstance(text, str) and text.strip())
    if len(turns) < len(texts):
        raise line.wrong(f"has an empty text or no text at all in {key}")
    return _Conversation(turns)


def _from_messages(line: _Line, value: JsonValue) -> _Conversation:
    """Turns of the user, what was set beforehand, and the recorded last answer as reference."""
    if not isinstance(value, list) or not value:
        raise line.wrong(f"has {_kind(value)} for messages; a list of messages is needed")
    system: list[str] = []
    turns: list[str] = []
    last_answer: str | None = None
    answers = 0
    for message in value:
        role = message.get("role") if isinstance(message, dict) else None
        text = _content(line, message.get("content") if isinstance(message, dict) else None)
        if role in _SYSTEM_ROLES and not turns:
            system.append(text)
        elif role == "user":
            turns.append(text)
            answers += last_answer is not None
            last_answer = None
        elif role == "assistant" and turns:
            last_answer = text
        else:
            raise line.wrong(f"has a message with the role {role!r} at a place where it cannot be asked")
    if not turns:
        raise line.wrong("has no message of the user")
    return _Conversation(tuple(turns), "\n\n".join(system) or None, last_answer, answers)


def _content(line: _Line, content: JsonValue) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        texts = [text for text in parts if isinstance(text, str)]
        content = "".join(texts) if len(texts) == len(content) else None
    if not isinstance(content, str) or not content.strip():
        raise line.wrong("has a message whose content is empty or not text")
    return content


def _text(line: _Line, given: Mapping[str, JsonValue], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise line.wrong(f"has {_kind(value)} for {key}; a text is needed")
    return value


def _name(line: _Line, value: JsonValue) -> str:
    if value is None:
        return f"line-{line.number}"
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise line.wrong(f"has {_kind(value)} for id; a text or a whole number is needed")
    return str(value)


def _count(line: _Line, value: JsonValue) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise line.wrong(f"has output_tokens {value!r}; a whole number from 1 up is needed")
    return value


def _kind(value: JsonValue) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number") if value != [] else "an empty list"
