"""A set of tensors in numbers, and the header of a safetensors file, which is such a set."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

from pydantic import JsonValue

Facts = dict[str, JsonValue]

# The format allows no longer header.
_LONGEST_HEADER = 100_000_000
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3",
    "F8_E5M2": "float8_e5m2", "F4": "float4", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip


class NotReadable(ValueError):  # noqa: N818  (told as a reason, never raised to a user)
    """A file whose header says something else than its name, or breaks off."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor by its type and how many numbers it holds."""

    dtype: str
    elements: int


def summed(tensors: Iterable[Tensor]) -> Facts:
    """How many parameters there are, and of which type: the one that most of them have, and the share of each."""
    counts: Counter[str] = Counter()
    for one in tensors:
        counts[one.dtype] += one.elements
    total = counts.total()
    if not total:
        return {}
    ordered = counts.most_common()
    facts: Facts = {"parameters": total, "dtype": ordered[0][0]}
    if len(ordered) > 1:
        facts["dtypes"] = dict(ordered)
    return facts


def safetensors(path: Path) -> list[Tensor]:
    """The tensors that the header of a safetensors file lists.

    Raises:
        NotReadable: if it is no such header.
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or not 2 <= length <= min(_LONGEST_HEADER, size - 8):
            raise NotReadable("its header has no possible length")
        text = file.read(length)
    try:
        header = json.loads(text)
        return [_tensor(entry) for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as problem:
        raise NotReadable("its header is no table of tensors") from problem


def _tensor(entry: dict[str, object]) -> Tensor:
    dtype, shape = str(entry["dtype"]), entry["shape"]
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
        raise TypeError("no shape")
    return Tensor(_NAMES.get(dtype, dtype.lower()), prod(shape))
