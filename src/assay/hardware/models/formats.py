"""Model formats that describe themselves in text, in protobuf or in an archive; and tensors in numbers."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

from assay.hardware.source import Facts

# The format allows no longer header.
_LONGEST_HEADER = 100_000_000
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3",
    "F8_E5M2": "float8_e5m2", "F4": "float4", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip


class UnreadableModelError(ValueError):
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
        UnreadableModelError: if it is no such header.
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or not 2 <= length <= min(_LONGEST_HEADER, size - 8):
            raise UnreadableModelError("its header has no possible length")
        text = file.read(length)
    try:
        header = json.loads(text)
        return [_tensor(entry) for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as problem:
        raise UnreadableModelError("its header is no table of tensors") from problem


def _tensor(entry: dict[str, object]) -> Tensor:
    dtype, shape = str(entry["dtype"]), entry["shape"]
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
        raise TypeError("no shape")
    return Tensor(_NAMES.get(dtype, dtype.lower()), prod(shape))


# Weights of larger models stand outside of the ONNX file; one beyond this is not worth the memory.
LARGEST_ONNX = 512 * 2**20
_LARGEST_TEXT = 64 * 2**20
_QUANTISED = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
    "MatMulInteger", "MatMulNBits", "GatherBlockQuantized",
)  # fmt: skip
_NET = re.compile(rb'<net\s[^>]*?name="([^"]*)"[^>]*?version="(\d+)"')
_CONSTANT = re.compile(rb'<data\s[^>]*?element_type="(\w+)"[^>]*?shape="([\d,\s]*)"[^>]*?size="\d+"')
_OPENVINO = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "i4": "int4", "u4": "uint4", "nf4": "nf4", "boolean": "bool",
}  # fmt: skip


def onnx(path: Path, load: Callable[[str], Any] = import_module) -> Facts:
    """What an ONNX file tells; its outer weights are not read.

    Raises:
        UnreadableModelError: without the onnx package, for a file too large for memory, or a damaged one.
    """
    if path.stat().st_size > LARGEST_ONNX:
        raise UnreadableModelError(
            f"it is larger than {LARGEST_ONNX // 2**20} MiB, and the format has no header of its own"
        )
    try:
        package = load("onnx")
    except ImportError:
        raise UnreadableModelError("the onnx package is not installed") from None
    try:
        model = package.load(path, load_external_data=False)
    except OSError:
        raise
    except Exception as problem:
        raise UnreadableModelError(f"it is no ONNX model ({type(problem).__name__})") from problem
    if not model.graph.node:
        raise UnreadableModelError("it is no ONNX model: it has no nodes")
    facts = summed(_weights(package, _tensors(model.graph)))
    if _makes_weights(model.graph):
        facts = {"absent": {"parameters": "some of its weights are made by its nodes", "dtype": "likewise"}}
    facts |= {"nodes": len(model.graph.node)}
    facts |= {"opset": max(one.version for one in model.opset_import)} if model.opset_import else {}
    if producer := f"{model.producer_name} {model.producer_version}".strip():
        facts["producer"] = producer
    used = sorted({node.op_type for node in model.graph.node} & {*_QUANTISED})
    if used:
        facts["quantisation"] = f"by {', '.join(used)}"
    return facts


def _tensors(graph: Any) -> Iterable[Any]:  # noqa: ANN401  (of an optional package)
    """The tensors that a graph holds: beside its nodes, or in nodes that do nothing but hold one."""
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant":
            yield from (attribute.t for attribute in node.attribute if attribute.name == "value")


def _makes_weights(graph: Any) -> bool:  # noqa: ANN401  (of an optional package)
    """Whether nodes fill tensors of a fixed size, as in models that are published without their weights."""
    fixed = {one.name for one in graph.initializer}
    return any(node.op_type == "ConstantOfShape" and node.input[0] in fixed for node in graph.node)


def _weights(package: Any, initializers: Iterable[Any]) -> Iterable[Tensor]:  # noqa: ANN401  (of an optional package)
    """The tensors that hold weights; 64-bit whole numbers are shapes and indices."""
    for one in initializers:
        name = str(package.TensorProto.DataType.Name(one.data_type)).lower()
        if name not in ("int64", "string", "bool", "undefined"):
            yield Tensor({"float": "float32", "double": "float64"}.get(name, name), prod(one.dims))


def openvino(path: Path) -> Facts:
    """What an OpenVINO XML file tells.

    Raises:
        UnreadableModelError: if it is another XML file.
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(_LARGEST_TEXT)
    if (net := _NET.search(text, 0, 4096)) is None:
        raise UnreadableModelError("it is no OpenVINO model")
    facts = summed(
        Tensor(_OPENVINO.get(kind.decode(), kind.decode()), prod(int(side) for side in re.findall(rb"\d+", shape)))
        for kind, shape in (match.groups() for match in _CONSTANT.finditer(text))
        if kind not in (b"i64", b"i32", b"boolean")
    )
    facts["name"] = net[1].decode("utf-8", "replace")
    if facts.get("dtype") in ("int8", "uint8", "int4", "uint4", "nf4"):
        facts["quantisation"] = facts["dtype"]
    return facts


def is_openvino(path: Path) -> bool:
    """Whether an XML file begins as a model does; other XML files are nobody's business."""
    try:
        with path.open("rb") as file:
            return _NET.search(file.read(4096)) is not None
    except OSError:
        return False


def torch_archive(path: Path) -> Facts:
    """Which kind of PyTorch file this is, by its first bytes and its list of contents; no pickle is ever loaded.

    Raises:
        UnreadableModelError: for what PyTorch does not write.
        OSError: if it cannot be read.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(2)[:1] != b"\x80":
                raise UnreadableModelError("it is neither an archive nor a pickle")
        return {"kind": "a pickle of the old format"}
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as problem:
        raise UnreadableModelError("its list of contents is damaged") from problem
    if any("/code/" in name for name in names):
        return {"kind": "TorchScript"}
    if any(name.endswith(("/archive_format", "archive_version", "serialized_exported_program.json")) for name in names):
        return {"kind": "an exported program"}
    return {"kind": "a pickle with tensors"} if any(name.endswith("data.pkl") for name in names) else {}


def config(folder: Path) -> Facts:
    """What the `config.json` of a Hugging Face folder tells.

    Raises:
        UnreadableModelError: if it is no such file.
        OSError: if it cannot be read.
    """
    with (folder / "config.json").open("rb") as file:
        text = file.read(_LARGEST_TEXT)
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UnreadableModelError("its config.json is no JSON") from problem
    if not isinstance(told, dict) or not {"model_type", "architectures"} & told.keys():
        raise UnreadableModelError("its config.json names no model")
    facts: Facts = {}
    classes = told.get("architectures")
    if isinstance(classes, list) and classes and isinstance(classes[0], str):
        facts["architecture"] = classes[0]
    elif isinstance(told.get("model_type"), str):
        facts["architecture"] = told["model_type"]
    if isinstance(dtype := told.get("torch_dtype") or told.get("dtype"), str):
        facts["dtype"] = dtype
    quantised = told.get("quantization_config")
    if isinstance(quantised, dict):
        facts["quantisation"] = _quantisation(quantised)
    return facts


def huggingface(folder: Path, weights: Iterable[Path]) -> Facts:
    """A Hugging Face folder: what its config tells, and what its safetensors hold, which weighs more.

    Raises:
        UnreadableModelError: if its config is no such file.
        OSError: if a file cannot be read.
    """
    facts = config(folder)
    try:
        tensors = [tensor for path in weights if path.suffix == ".safetensors" for tensor in safetensors(path)]
    except UnreadableModelError as problem:
        return facts | {"absent": {"parameters": str(problem)}}
    return facts | summed(tensors)


def _quantisation(told: dict[str, Any]) -> str:
    method = str(told.get("quant_method") or "unnamed")
    bits = told.get("bits") or told.get("num_bits")
    if bits is None and told.get("load_in_4bit"):
        bits = 4
    if bits is None and told.get("load_in_8bit"):
        bits = 8
    return f"{method}, {bits} bit" if isinstance(bits, int) else method
