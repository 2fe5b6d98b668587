"""The header of a GGUF file: its settings, its architecture, its tensors and how they are quantised."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

from assay.hardware.models.formats import Tensor, UnreadableModelError, summed
from assay.hardware.source import Facts

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Longer texts than these are templates and vocabularies, which nobody asks for here.
_LONGEST_TEXT = 1024
_MOST_DIMENSIONS = 8
# Types of tensors, and of whole files, by the numbers that llama.cpp gives them.
_TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip
_PLAIN = ("F64", "F32", "F16", "BF16")


@dataclass(slots=True)
class _Reader:
    """Numbers and texts from a file, never further than its end."""

    file: BufferedReader
    left: int
    order: str = "<"
    width: str = "Q"
    """Of lengths and counts: version 1 of the format has shorter ones."""

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise UnreadableModelError("its header breaks off")
        found = self.file.read(count)
        if len(found) != count:
            raise UnreadableModelError("its header breaks off")
        self.left -= count
        return found

    def number(self, form: str) -> int:
        return int(struct.unpack(self.order + form, self.take(struct.calcsize(self.order + form)))[0])

    def skip(self, count: int) -> None:
        """Go on; a length that the file cannot hold is never asked for."""
        if count > self.left:
            raise UnreadableModelError("its header breaks off")
        self.file.seek(count, 1)
        self.left -= count

    def text(self) -> str:
        length = self.number(self.width)
        if length > _LONGEST_TEXT:
            self.skip(length)
            return ""
        return self.take(length).decode("utf-8", "replace")

    def count(self) -> int:
        """A number of entries that the rest of the file can hold: each takes at least a byte."""
        count = self.number(self.width)
        if count > self.left:
            raise UnreadableModelError("it claims more entries than it can hold")
        return count


def gguf(path: Path) -> Facts:
    """What the header of a GGUF file tells.

    Raises:
        UnreadableModelError: if it is no such header, or breaks off.
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        reader, tensors = _opened(file, path)
        settings = _settings(reader)
        found = summed(_tensor(reader) for _ in range(tensors))
    return _facts(settings, found)


def read_settings(path: Path, lists: Collection[str]) -> dict[str, Any]:
    """The settings in the header of a GGUF file, with the content of some of its lists; the others are None.

    Raises:
        UnreadableModelError: if it is no such header, or breaks off.
        UnicodeDecodeError: if a text of these lists is damaged.
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        return _settings(_opened(file, path)[0], lists)


def _opened(file: BufferedReader, path: Path) -> tuple[_Reader, int]:
    """A reader that stands before the settings, with the number of tensors."""
    reader = _Reader(file, path.stat().st_size)
    if reader.take(4) != _MAGIC:
        raise UnreadableModelError("it does not begin with GGUF")
    version = reader.number("I")
    if version > 0xFFFF:  # written the other way round
        reader.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if not 1 <= version <= 3:
        raise UnreadableModelError(f"version {version} is not known")
    reader.width = "I" if version == 1 else "Q"
    return reader, reader.count()


def _settings(reader: _Reader, lists: Collection[str] = ()) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for _ in range(reader.count()):
        name = reader.text()
        settings[name] = _value(reader, reader.number("I"), whole=name in lists)
    return settings


def _value(reader: _Reader, kind: int, *, whole: bool) -> Any:  # noqa: ANN401  (a number, a text or a list of them)
    """A setting; a list that is not wanted whole is skipped."""
    if kind == _STRING:
        return reader.text()
    if kind == _ARRAY:
        return _array(reader, whole=whole)
    if kind not in _SCALARS:
        raise UnreadableModelError(f"it holds a value of the unknown type {kind}")
    form = reader.order + _SCALARS[kind]
    return struct.unpack(form, reader.take(struct.calcsize(form)))[0]


def _array(reader: _Reader, *, whole: bool) -> list[Any] | None:
    inner, count = reader.number("I"), reader.number(reader.width)
    if inner == _STRING:
        if count > reader.left:
            raise UnreadableModelError("it claims more entries than it can hold")
        if whole:
            return [reader.take(reader.number(reader.width)).decode() for _ in range(count)]
        for _ in range(count):
            reader.skip(reader.number(reader.width))
        return None
    if inner not in _SCALARS:
        raise UnreadableModelError(f"it holds a list of the unknown type {inner}")
    size = count * struct.calcsize(reader.order + _SCALARS[inner])
    if whole:
        return list(struct.unpack(f"{reader.order}{count}{_SCALARS[inner]}", reader.take(size)))
    reader.skip(size)
    return None


def _tensor(reader: _Reader) -> Tensor:
    reader.text()
    dimensions = reader.number("I")
    if dimensions > _MOST_DIMENSIONS:
        raise UnreadableModelError(f"it holds a tensor of {dimensions} dimensions")
    sides = [reader.number(reader.width) for _ in range(dimensions)]
    kind = reader.number("I")
    reader.skip(8)  # where its numbers are
    return Tensor(_TENSOR_TYPES.get(kind, f"type {kind}"), prod(sides))


def _facts(settings: dict[str, Any], tensors: Facts) -> Facts:
    facts = dict(tensors)
    architecture = settings.get("general.architecture")
    if isinstance(architecture, str) and architecture:
        facts["architecture"] = architecture
        for fact, name in (("layers", "block_count"), ("context_tokens", "context_length")):
            if isinstance(value := settings.get(f"{architecture}.{name}"), int):
                facts[fact] = value
    if isinstance(title := settings.get("general.name"), str) and title:
        facts["name"] = title
    file_type, dtype = settings.get("general.file_type"), tensors.get("dtype")
    if isinstance(file_type, int) and file_type in _FILE_TYPES:
        facts["quantisation"] = _FILE_TYPES[file_type]
    elif isinstance(dtype, str) and dtype not in _PLAIN:
        facts["quantisation"] = dtype
    if facts.get("quantisation") in _PLAIN:
        del facts["quantisation"]
    return facts
