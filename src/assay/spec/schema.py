"""The JSON Schema of the benchmark file, and the meaning of each key, read from the source on request."""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from assay.spec.benchmark import Benchmark
from assay.spec.section import Section

# The parser of Python 3.11 cannot be used by several threads: it raises SystemError now and then.
_describing = threading.Lock()


def describe_sections() -> None:
    """Give every key of every section that is loaded its description: the text below it in the source."""
    with _describing:
        _describe_sections()


@cache
def _describe_sections() -> None:
    sections = tuple(_below(Section))
    for section in sections:
        texts = {name: text for base in reversed(section.__mro__) for name, text in _texts_in(base).items()}
        for name, field in section.model_fields.items():
            field.description = field.description or texts.get(name)
    for section in sections:
        section.model_rebuild(force=True)


def _below(section: type[Section]) -> Iterator[type[Section]]:
    for below in section.__subclasses__():
        yield below
        yield from _below(below)


@cache
def _texts_in(kind: type) -> dict[str, str]:
    """Key → text, of those that a class itself defines."""
    if not issubclass(kind, Section):
        return {}
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    return {
        key.target.id: inspect.cleandoc(text.value.value)
        for key, text in pairwise(node.body if isinstance(node, ast.ClassDef) else ())
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def benchmark_schema() -> dict[str, Any]:
    """The JSON Schema of a benchmark file."""
    describe_sections()
    schema = Benchmark.model_json_schema()
    # The matrix may give any key a value, so nothing but the name is required in the file itself.
    schema["required"] = ["benchmark"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "assay.benchmark/1",
        **schema,
        "title": "assay benchmark file",
    }
