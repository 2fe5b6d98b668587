"""One part of a JSON document that is kept as text, read by the database: the rest of it never leaves there."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.sql.functions import GenericFunction


class json_part(GenericFunction[str]):  # noqa: N801  (a function of SQL)
    """The value of a key of the outermost mapping, as JSON text; null where there is none."""

    inherit_cache = True
    type = Text()


@compiles(json_part, "sqlite")
def _of_sqlite(element: FunctionElement[Any], compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    document, key = _arguments(element, compiler, how)
    return f"json_extract({document}, '$.' || {key})"


@compiles(json_part, "postgresql")
def _of_postgresql(element: FunctionElement[Any], compiler: SQLCompiler, **how: Any) -> str:  # noqa: ANN401
    document, key = _arguments(element, compiler, how)
    return f"CAST(CAST({document} AS json) -> {key} AS text)"


def _arguments(element: FunctionElement[Any], compiler: SQLCompiler, how: dict[str, Any]) -> tuple[str, str]:
    clauses: list[ColumnElement[Any]] = list(element.clauses)
    document, key = (compiler.process(one, **how) for one in clauses)
    return document, key
