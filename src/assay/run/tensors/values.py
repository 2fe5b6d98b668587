"""Values of model inputs: seeded random ones that make sense for the input, or the user's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import AssayError, MeasureError, UsageError
from assay.run.tensors.dims import nearest
from assay.spec.benchmark import InputSpec

if TYPE_CHECKING:
    from onnxruntime import OrtValue


Kind = Literal["float", "int", "bool", "string"]
Array = NDArray[Any]

_TENSOR = re.compile(r"^(?P<optional>optional\()?tensor\((?P<element>\w+)\)\)?$")


@dataclass(frozen=True, slots=True)
class ElementType:
    onnx: str  # as ONNX Runtime writes it: `float8e4m3fn`
    code: int  # TensorProto.DataType
    numpy: str  # name of the dtype in numpy, or in ml_dtypes where numpy has none
    kind: Kind
    bits: int

    @property
    def plain(self) -> bool:
        """Whether numpy has this type itself, so that `session.run` takes and gives it."""
        return self.onnx in _PLAIN

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.plain:
            return np.dtype(object if self.kind == "string" else self.numpy)
        foreign: np.dtype[Any] = np.dtype(getattr(_ml_dtypes(self.onnx), self.numpy))
        return foreign


_PLAIN = {
    "float": ElementType("float", 1, "float32", "float", 32),
    "uint8": ElementType("uint8", 2, "uint8", "int", 8),
    "int8": ElementType("int8", 3, "int8", "int", 8),
    "uint16": ElementType("uint16", 4, "uint16", "int", 16),
    "int16": ElementType("int16", 5, "int16", "int", 16),
    "int32": ElementType("int32", 6, "int32", "int", 32),
    "int64": ElementType("int64", 7, "int64", "int", 64),
    "string": ElementType("string", 8, "string", "string", 0),
    "bool": ElementType("bool", 9, "bool", "bool", 8),
    "float16": ElementType("float16", 10, "float16", "float", 16),
    "double": ElementType("double", 11, "float64", "float", 64),
    "uint32": ElementType("uint32", 12, "uint32", "int", 32),
    "uint64": ElementType("uint64", 13, "uint64", "int", 64),
}
# numpy lacks these: ONNX Runtime takes their bytes, with the type given apart.
_BYTES_ONLY = {
    "bfloat16": ElementType("bfloat16", 16, "bfloat16", "float", 16),
    "float8e4m3fn": ElementType("float8e4m3fn", 17, "float8_e4m3fn", "float", 8),
    "float8e4m3fnuz": ElementType("float8e4m3fnuz", 18, "float8_e4m3fnuz", "float", 8),
    "float8e5m2": ElementType("float8e5m2", 19, "float8_e5m2", "float", 8),
    "float8e5m2fnuz": ElementType("float8e5m2fnuz", 20, "float8_e5m2fnuz", "float", 8),
    "uint4": ElementType("uint4", 21, "uint4", "int", 4),
    "int4": ElementType("int4", 22, "int4", "int", 4),
    "float4e2m1": ElementType("float4e2m1", 23, "float4_e2m1fn", "float", 4),
    "float8e8m0": ElementType("float8e8m0", 24, "float8_e8m0fnu", "float", 8),
    "uint2": ElementType("uint2", 25, "uint2", "int", 2),
    "int2": ElementType("int2", 26, "int2", "int", 2),
}
ELEMENT_TYPES = {**_PLAIN, **_BYTES_ONLY}


def tensor_type(declared: str) -> ElementType | None:
    """The element type of `tensor(float)` or `optional(tensor(float))`; None for anything else."""
    match = _TENSOR.match(declared)
    return ELEMENT_TYPES.get(match["element"]) if match else None


def is_optional(declared: str) -> bool:
    return declared.startswith("optional(")


def to_ort_value(array: Array, element: ElementType) -> OrtValue:
    """Wrap an array of any element type for `run_with_ort_values`; the array must outlive it."""
    from onnxruntime import OrtValue

    if element.kind == "string":
        return _string_value(array)
    if element.plain:
        return OrtValue.ortvalue_from_numpy(array)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(as_bytes_array(array, element), element.code)


def as_bytes_array(array: Array, element: ElementType) -> Array:
    """The array's bits in an unsigned type of numpy's own, in its own shape.

    Types below 8 bits are packed from the front, lowest bits first, as ONNX stores them; the tail of the
    buffer stays zero and is never read.
    """
    carrier = np.uint16 if element.bits == 16 else np.uint8
    codes: Array = np.ascontiguousarray(array).reshape(array.shape).view(carrier)
    if element.bits >= 8:
        return codes
    per_byte = 8 // element.bits
    flat = codes.reshape(-1) & np.uint8((1 << element.bits) - 1)
    filled = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    filled[: flat.size] = flat
    places = np.arange(per_byte, dtype=np.uint8) * np.uint8(element.bits)
    packed = np.bitwise_or.reduce(filled.reshape(-1, per_byte) << places, axis=1)
    buffer = np.zeros(flat.size, np.uint8)
    buffer[: packed.size] = packed
    return buffer.reshape(array.shape)


def _string_value(array: Array) -> OrtValue:
    """A string tensor as an OrtValue; the API makes none from numpy, so a model of one constant gives it."""
    import onnxruntime

    onnx = onnx_package("a string input beside types that numpy lacks")
    kind, helper = onnx.TensorProto.STRING, onnx.helper
    texts: list[Any] = [str(item).encode() for item in array.flat]
    tensor = helper.make_tensor("t", kind, array.shape, texts)
    node = helper.make_node("Constant", [], ["y"], value=tensor)
    output = helper.make_tensor_value_info("y", kind, array.shape)
    graph = helper.make_graph([node], "constant", [], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    value: OrtValue = session.run_with_ort_values(None, {})[0]
    return value


def onnx_package(purpose: str) -> Any:  # noqa: ANN401  (a module)
    """The `onnx` package, or an error that says what needs it."""
    try:
        import onnx
    except ImportError:
        raise _missing(purpose, "onnx") from None
    return onnx


def _ml_dtypes(element: str) -> Any:  # noqa: ANN401  (a module)
    try:
        import ml_dtypes
    except ImportError:
        raise _missing(f"a tensor of {element}", "ml_dtypes") from None
    return ml_dtypes


def _missing(purpose: str, package: str) -> MeasureError:
    message = f"{purpose} needs the package {package}, which is not installed"
    return MeasureError(message, code="runtime", try_="pip install 'assay-bench[onnx]'")


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
        message = f"no {'integer' if whole else 'number'} lies in the range [{low:g}, {high:g})"
        raise UsageError(message, code="input-value", at=where, try_="give low < high")
    random = _stream(seed, name)
    if element.kind == "float":
        return Values(np.asarray(low + random.random(shape) * (high - low)).astype(element.dtype), origin)
    if element.kind == "int":
        drawn = np.asarray(random.integers(int(np.ceil(low)), int(np.ceil(high)), shape, dtype=np.int64))
        return Values(exact(drawn, name, element, where), origin)
    message = f"input {name!r} is {element.numpy}; a range makes sense for numbers only"
    raise UsageError(message, code="input-value", at=where, try_=f"give workload.inputs.{name}.value or .file")


def filled(name: str, element: ElementType, shape: tuple[int, ...], value: JsonValue) -> Values:
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
        message = f"the value of input {name!r} is a list whose rows differ in length"
        raise UsageError(message, code="input-value", at=where, try_="make all rows of a level equally long") from None
    return exact(raw, name, element, where)


def exact(raw: Array, name: str, element: ElementType, where: str) -> Array:
    """Convert numbers to the input's type; a value that the type cannot hold is an error, not rounded."""
    suits = raw.dtype.kind in ("b" if element.kind == "bool" else "iu" if element.kind == "int" else "iuf")
    # Floats may lose digits, as every float literal does; integers may not change at all.
    taken = raw.astype(element.dtype) if suits else raw
    if not suits or (element.kind == "int" and not np.array_equal(taken.astype(raw.dtype), raw)):
        message = f"input {name!r} is {element.numpy} and cannot hold {_glimpse(raw)}"
        raise UsageError(message, code="input-value", at=where, try_=f"give values that are valid {element.numpy}")
    return np.ascontiguousarray(taken).reshape(raw.shape)


def read_file(name: str, element: ElementType, file: str, base: Path) -> Array:
    """Read an input from a `.npy`, `.npz` or `.pb` file."""
    path = base / Path(file).expanduser()
    where = f"workload.inputs.{name}.file"
    readers = {".npy": _read_npy, ".npz": _read_npz, ".pb": _read_pb}
    if path.suffix not in readers:
        message = f"{file!r} is no input file: its ending must be one of {', '.join(readers)}"
        raise UsageError(message, code="input-file", at=where, try_="save the array with numpy.save")
    if not path.is_file():
        raise UsageError(f"{path} does not exist", code="input-file", at=where, try_="check the path")
    try:
        raw = readers[path.suffix](path, name)
    except AssayError:
        raise
    except Exception as problem:
        message = f"{path} cannot be read: {problem}"
        raise UsageError(message, code="input-file", at=where, try_="write the file again") from None
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
            message = f"the model has no input {name!r}"
            raise UsageError(message, code="input-name", at=f"workload.inputs.{name}", try_=nearest(name, inputs))


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
            message = f"{path} has no entry {name!r}"
            try_ = nearest(name, entries.files)
            raise UsageError(message, code="input-file", at=f"workload.inputs.{name}.file", try_=try_)
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
    message = f"input {name!r} is {element.numpy} in the model, but {path} holds {raw.dtype}"
    try_ = f"convert it: array.astype({element.numpy!r})"
    raise UsageError(message, code="input-dtype", at=f"workload.inputs.{name}.file", try_=try_)


def _glimpse(raw: Array) -> str:
    values: Any = raw.reshape(-1)[:3].tolist()
    return f"{', '.join(repr(value) for value in values)}{', …' if raw.size > 3 else ''}"
