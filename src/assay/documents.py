"""Records to JSON and back: the one codec for every document that crosses a border."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from assay.errors import UsageError

T = TypeVar("T")


@cache
def _adapter(record: Any) -> TypeAdapter[Any]:  # noqa: ANN401  (cache needs a hashable, a type variable is none to mypy)
    return TypeAdapter(record)


def adapter(record: type[T]) -> TypeAdapter[T]:
    """The codec of a record type, built once."""
    codec: TypeAdapter[T] = _adapter(record)  # type: ignore[arg-type]
    return codec


def to_json(record: object, *, indent: int | None = None) -> str:
    """Write a record as JSON; NaN and infinities become null, as JSON has no word for them."""
    return adapter(type(record)).dump_json(record, indent=indent).decode()


def to_plain(record: object) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    """Turn a record into plain dictionaries, lists and scalars."""
    return adapter(type(record)).dump_python(record, mode="json")


def from_json(record: type[T], text: str | bytes, *, source: str) -> T:
    """Read a record from JSON.

    Raises:
        UsageError: if the text is not such a document, with every place where it differs.
    """
    try:
        return adapter(record).validate_json(text)
    except ValidationError as invalid:
        places = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}" for e in invalid.errors()[:5])
        raise UsageError(
            f"not a {record.__name__} document: {places}",
            code="document",
            at=source,
            try_="pass a file written by assay of this version",
        ) from None
