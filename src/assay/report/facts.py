"""Nested facts, such as an environment or a definition, as flat lines or as an indented text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO

from pydantic import JsonValue
from ruamel.yaml import YAML

from assay.report.wording import one_line
from assay.units import show_bytes


def flat(facts: Mapping[str, JsonValue], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as (dotted path, text) pairs, in order; what is empty is left out."""
    pairs: list[tuple[str, str]] = []
    for key, value in facts.items():
        path = one_line(f"{prefix}{key}")
        if isinstance(value, Mapping):
            pairs += flat(value, f"{path}.")
        elif value not in (None, "", [], ()):
            pairs.append((path, fact(path, value)))
    return pairs


def fact(path: str, value: JsonValue) -> str:
    """One fact as text; a number of bytes also says how much that is."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return _number(path, value)
    if isinstance(value, list | tuple) and all(not isinstance(item, dict | list) for item in value):
        return one_line(", ".join(map(str, value)))
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _number(path: str, value: float) -> str:
    if path.endswith("_bytes") and value >= 2**10:
        return f"{show_bytes(value)} ({value:,} B)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def indented(facts: Mapping[str, JsonValue]) -> str:
    """Nested facts as a YAML text, the way a benchmark file is written."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 100
    writer.allow_unicode = True
    text = StringIO()
    writer.dump(_plain(facts), text)
    return text.getvalue().rstrip("\n")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
