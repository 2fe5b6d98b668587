"""Element types: ONNX's names, their numpy counterparts, and how each one is handed to ONNX Runtime."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from assay.errors import MeasureError

if TYPE_CHECKING:
    from onnxruntime import OrtValue

Kind = Literal["float", "int", "bool", "string"]
Array = NDArray[Any]

_TENSOR = re.compile(r"^(?P<optional>optional\()?tensor\((?P<element>\w+)\)\)?$")


@dataclass(frozen=True, slots=True)
class ElementType:
    """One ONNX element type."""

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
        """The numpy dtype that holds the values."""
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
    """Whether an input may be left out."""
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
    return MeasureError(
        f"{purpose} needs the package {package}, which is not installed",
        code="runtime",
        try_="pip install 'assay-bench[onnx]'",
    )
