"""Records to JSON and back: the one codec for every document that crosses a border."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    try:
        return adapter(record).validate_json(text)
    except ValidationError as invalid:
        places = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'document'}: {validation_words(e)}" for e in invalid.errors()[:5]
        )
        raise UsageError(
            f"not a {record.__name__} document: {places}",
            code="document",
            at=source,
            try_="pass a file written by assay of this version",
        ) from None


_NEEDED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "string": "text",
    "bool": "true or false",
    "dict": "a mapping of keys",
    "model": "a mapping of keys",
    "dataclass": "a mapping of keys",
    "tuple": "a list",
    "list": "a list",
    "path": "a path",
}
_TYPE_OF_VALUE = re.compile(r"(?:type|parsing|from_float|number|attributes_type|exact_type|parsing_size)")
_PHRASES = (
    (re.compile(r"^Input should be greater than or equal to (.+)$"), r"it must be \1 or more"),
    (re.compile(r"^Input should be less than or equal to (.+)$"), r"it must be \1 or less"),
    (re.compile(r"^Input should be (greater|less) than (.+)$"), r"it must be \1 than \2"),
    (re.compile(r"^Input should be (?:a valid )?"), "it must be "),
    (re.compile(r"^(?:\w+) should (have|match) "), r"it must \1 "),
    (re.compile(r"^it must have at least 1 item after validation, not 0$"), "at least one is needed"),
    (re.compile(r"^it must have (.+?) after validation, not .+$"), r"it must have \1"),
    (re.compile(r"^Field required$"), "it is missing"),
    (re.compile(r"^Extra inputs are not permitted$"), "it is not known"),
)


def needed_type(error: Mapping[str, Any]) -> str | None:
    """What kind of value a validation error asks for, where its value is of another kind."""
    kind, _, rest = str(error["type"]).partition("_")
    return _NEEDED.get(kind) if _TYPE_OF_VALUE.fullmatch(rest) else None


def validation_words(error: Mapping[str, Any]) -> str:
    """What one validation error says, in plain words and without the value."""
    needed = needed_type(error)
    if needed is not None:
        return f"{needed} is needed"
    message = str(error["msg"]).removeprefix("Value error, ")
    for pattern, words in _PHRASES:
        message = pattern.sub(words, message)
    return message[:1].lower() + message[1:]
