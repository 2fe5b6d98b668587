"""Values of model inputs: seeded random ones that make sense for the input, or the user's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import JsonValue

from assay.errors import AssayError, UsageError
from assay.run.tensors.dims import nearest
from assay.run.tensors.dtypes import Array, ElementType, as_bytes_array, onnx_package
from assay.spec.benchmark import InputSpec


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The values of one input, and where they came from."""

    array: Array
    origin: str


def generate(name: str, element: ElementType, shape: tuple[int, ...], seed: int, rows: int | None = None) -> Values:
    """Make seeded values for one input, by its type and name.

    Args:
        name: the input's name; `mask`, `position`, `segment` and `token_type` have customary values.
        seed: `workload.seed`; each input draws from its own stream, so adding one changes no other.
    """
    random = _stream(seed, name)
    if element.kind == "float":
        return Values(_normal(random, element, shape), f"standard normal, seed {seed}")
    if element.kind == "bool":
        return _booleans(random, name, shape, seed)
    if element.kind == "string":
        texts = [f"text-{number}" for number in range(int(np.prod(shape)))]
        return Values(np.array(texts, dtype=object).reshape(shape), "text-0, text-1, …")
    return _integers(random, name, element, shape, seed, rows)


def from_range(
    name: str, element: ElementType, shape: tuple[int, ...], seed: int, bounds: tuple[float, float]
) -> Values:
    """Uniform values between the bounds that the user gave."""
    low, high = bounds
    origin = f"uniform in [{low:g}, {high:g}), seed {seed}"
    where = f"workload.inputs.{name}.range"
    whole = element.kind == "int"
    if not (np.ceil(low) < np.ceil(high) if whole else low < high):
        raise UsageError(
            f"no {'integer' if whole else 'number'} lies in the range [{low:g}, {high:g})",
            code="input-value",
            at=where,
            try_="give low < high",
        )
    random = _stream(seed, name)
    if element.kind == "float":
        return Values(np.asarray(low + random.random(shape) * (high - low)).astype(element.dtype), origin)
    if element.kind == "int":
        drawn = np.asarray(random.integers(int(np.ceil(low)), int(np.ceil(high)), shape, dtype=np.int64))
        return Values(exact(drawn, name, element, where), origin)
    raise UsageError(
        f"input {name!r} is {element.numpy}; a range makes sense for numbers only",
        code="input-value",
        at=where,
        try_=f"give workload.inputs.{name}.value or .file",
    )


def filled(name: str, element: ElementType, shape: tuple[int, ...], value: JsonValue) -> Values:
    """The user's one value in every element."""
    array = listed(name, element, value)
    return Values(np.broadcast_to(array, shape).copy(), f"workload.inputs.{name}.value")


def listed(name: str, element: ElementType, value: JsonValue) -> Array:
    """The user's value or nested list as an array of the input's type."""
    where = f"workload.inputs.{name}.value"
    if element.kind == "string":
        return np.array(value, dtype=object)
    try:
        raw = np.array(value)
    except ValueError:
        raise UsageError(
            f"the value of input {name!r} is a list whose rows differ in length",
            code="input-value",
            at=where,
            try_="make all rows of a level equally long",
        ) from None
    return exact(raw, name, element, where)


def exact(raw: Array, name: str, element: ElementType, where: str) -> Array:
    """Convert numbers to the input's type; a value that the type cannot hold is an error, not rounded."""
    suits = raw.dtype.kind in ("b" if element.kind == "bool" else "iu" if element.kind == "int" else "iuf")
    # Floats may lose digits, as every float literal does; integers may not change at all.
    taken = raw.astype(element.dtype) if suits else raw
    if not suits or (element.kind == "int" and not np.array_equal(taken.astype(raw.dtype), raw)):
        raise UsageError(
            f"input {name!r} is {element.numpy} and cannot hold {_glimpse(raw)}",
            code="input-value",
            at=where,
            try_=f"give values that are valid {element.numpy}",
        )
    return np.ascontiguousarray(taken).reshape(raw.shape)


def read_file(name: str, element: ElementType, file: str, base: Path) -> Array:
    """Read an input from a `.npy`, `.npz` or `.pb` file."""
    path = base / Path(file).expanduser()
    where = f"workload.inputs.{name}.file"
    readers = {".npy": _read_npy, ".npz": _read_npz, ".pb": _read_pb}
    if path.suffix not in readers:
        raise UsageError(
            f"{file!r} is no input file: its ending must be one of {', '.join(readers)}",
            code="input-file",
            at=where,
            try_="save the array with numpy.save",
        )
    if not path.is_file():
        raise UsageError(f"{path} does not exist", code="input-file", at=where, try_="check the path")
    try:
        raw = readers[path.suffix](path, name)
    except AssayError:
        raise
    except Exception as problem:
        raise UsageError(
            f"{path} cannot be read: {problem}", code="input-file", at=where, try_="write the file again"
        ) from None
    return _as_declared(raw, name, element, path)


def digest(array: Array, element: ElementType) -> str:
    """SHA-256 of the values' bytes, in C order and in this machine's byte order."""
    if element.kind == "string":
        texts = [str(item).encode() for item in array.flat]
        return hashlib.sha256(b"".join(len(text).to_bytes(8, "little") + text for text in texts)).hexdigest()
    packed = array if element.plain else as_bytes_array(array, element)
    return hashlib.sha256(np.ascontiguousarray(packed).tobytes()).hexdigest()


def check_inputs(specs: Mapping[str, InputSpec], inputs: Mapping[str, object]) -> None:
    """Refuse own values for an input that the model does not have."""
    for name in specs:
        if name not in inputs:
            raise UsageError(
                f"the model has no input {name!r}",
                code="input-name",
                at=f"workload.inputs.{name}",
                try_=nearest(name, inputs),
            )


def _stream(seed: int, name: str) -> np.random.Generator:
    own = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    return np.random.default_rng([abs(seed), int(seed < 0), own])


def _normal(random: np.random.Generator, element: ElementType, shape: tuple[int, ...]) -> Array:
    drawn = random.standard_normal(shape, dtype=np.float64 if element.numpy == "float64" else np.float32)
    # This type has no sign; the negative half would become NaN.
    return np.asarray(np.abs(drawn) if element.onnx == "float8e8m0" else drawn).astype(element.dtype)


def _booleans(random: np.random.Generator, name: str, shape: tuple[int, ...], seed: int) -> Values:
    if "mask" in name.lower():
        return Values(np.ones(shape, bool), "true: a mask by its name")
    return Values(np.asarray(random.integers(0, 2, shape), bool), f"random, seed {seed}")


def _integers(
    random: np.random.Generator,
    name: str,
    element: ElementType,
    shape: tuple[int, ...],
    seed: int,
    rows: int | None,
) -> Values:
    lowered = name.lower()
    if "mask" in lowered:
        return Values(np.ones(shape, element.dtype), "ones: a mask by its name")
    if "token_type" in lowered or "segment" in lowered:
        return Values(np.zeros(shape, element.dtype), "zeros: one segment, by its name")
    top = min(rows or 2, _ceiling(element))
    if "position" in lowered and shape:
        counted = np.broadcast_to(np.arange(shape[-1]) % max(rows or shape[-1], 1), shape)
        return Values(counted.astype(element.dtype), "0, 1, 2, …: positions by its name")
    reason = f"the graph looks up a table of {rows} rows" if rows else "no table found in the graph"
    drawn = np.asarray(random.integers(0, top, shape, dtype=np.int64))
    return Values(drawn.astype(element.dtype), f"uniform in [0, {top}), seed {seed}: {reason}")


def _ceiling(element: ElementType) -> int:
    signed = not element.onnx.startswith("u")
    return 1 << min(element.bits - signed, 62)


def _read_npy(path: Path, _: str) -> Array:
    array: Array = np.load(path, allow_pickle=False)
    return array


def _read_npz(path: Path, name: str) -> Array:
    with np.load(path, allow_pickle=False) as entries:
        if name not in entries.files:
            raise UsageError(
                f"{path} has no entry {name!r}",
                code="input-file",
                at=f"workload.inputs.{name}.file",
                try_=nearest(name, entries.files),
            )
        array: Array = entries[name]
    return array


def _read_pb(path: Path, _: str) -> Array:
    onnx = onnx_package("a .pb file")
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    array: Array = onnx.numpy_helper.to_array(tensor)
    return array


def _as_declared(raw: Array, name: str, element: ElementType, path: Path) -> Array:
    """Check the file's type against the model's; nothing is converted silently."""
    wanted = element.dtype
    if element.kind == "string" and raw.dtype.kind in "OUST":
        texts = [item.decode() if isinstance(item, bytes) else str(item) for item in raw.flat]
        return np.array(texts, dtype=object).reshape(raw.shape)
    if raw.dtype == wanted:
        return np.ascontiguousarray(raw).reshape(raw.shape)
    # numpy saves types it does not know as plain bytes (`V2`); their meaning is the model's.
    if not element.plain and raw.dtype.kind == "V" and raw.dtype.itemsize == wanted.itemsize:
        return np.ascontiguousarray(raw).reshape(raw.shape).view(wanted)
    raise UsageError(
        f"input {name!r} is {element.numpy} in the model, but {path} holds {raw.dtype}",
        code="input-dtype",
        at=f"workload.inputs.{name}.file",
        try_=f"convert it: array.astype({element.numpy!r})",
    )


def _glimpse(raw: Array) -> str:
    values: Any = raw.reshape(-1)[:3].tolist()
    return f"{', '.join(repr(value) for value in values)}{', …' if raw.size > 3 else ''}"
