"""Headers of model files (safetensors, GGUF, ONNX, OpenVINO, PyTorch, Hugging Face); nothing in them is ever run."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib import import_module
from io import BufferedReader
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
    for tensor in tensors:
        counts[tensor.dtype] += tensor.elements
    total = counts.total()
    if not total:
        return {}
    ordered = counts.most_common()
    facts: Facts = {"parameters": total, "dtype": ordered[0][0]}
    if len(ordered) > 1:
        facts["dtypes"] = dict(ordered)
    return facts


def safetensors(path: Path) -> list[Tensor]:
    """The tensors that the header of a safetensors file lists."""
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
    """What an ONNX file tells; its outer weights are not read."""
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
    facts |= {"opset": max(opset.version for opset in model.opset_import)} if model.opset_import else {}
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
    fixed = {tensor.name for tensor in graph.initializer}
    return any(node.op_type == "ConstantOfShape" and node.input[0] in fixed for node in graph.node)


def _weights(package: Any, initializers: Iterable[Any]) -> Iterable[Tensor]:  # noqa: ANN401  (of an optional package)
    """The tensors that hold weights; 64-bit whole numbers are shapes and indices."""
    for tensor in initializers:
        name = str(package.TensorProto.DataType.Name(tensor.data_type)).lower()
        if name not in ("int64", "string", "bool", "undefined"):
            yield Tensor({"float": "float32", "double": "float64"}.get(name, name), prod(tensor.dims))


def openvino(path: Path) -> Facts:
    """What an OpenVINO XML file tells."""
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
    """Whether an XML file begins as a model does."""
    try:
        with path.open("rb") as file:
            return _NET.search(file.read(4096)) is not None
    except OSError:
        return False


def torch_archive(path: Path) -> Facts:
    """Which kind of PyTorch file this is, by its first bytes and its list of contents; no pickle is ever loaded."""
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
    """What the `config.json` of a Hugging Face folder tells."""
    with (folder / "config.json").open("rb") as file:
        text = file.read(_LARGEST_TEXT)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UnreadableModelError("its config.json is no JSON") from problem
    if not isinstance(config, dict) or not {"model_type", "architectures"} & config.keys():
        raise UnreadableModelError("its config.json names no model")
    facts: Facts = {}
    classes = config.get("architectures")
    if isinstance(classes, list) and classes and isinstance(classes[0], str):
        facts["architecture"] = classes[0]
    elif isinstance(config.get("model_type"), str):
        facts["architecture"] = config["model_type"]
    if isinstance(dtype := config.get("torch_dtype") or config.get("dtype"), str):
        facts["dtype"] = dtype
    quantised = config.get("quantization_config")
    if isinstance(quantised, dict):
        facts["quantisation"] = _quantisation(quantised)
    return facts


def huggingface(folder: Path, weights: Iterable[Path]) -> Facts:
    """A Hugging Face folder: what its config tells, and what its safetensors hold, which weighs more."""
    facts = config(folder)
    try:
        tensors = [tensor for path in weights if path.suffix == ".safetensors" for tensor in safetensors(path)]
    except UnreadableModelError as problem:
        return facts | {"absent": {"parameters": str(problem)}}
    return facts | summed(tensors)


def _quantisation(section: dict[str, Any]) -> str:
    method = str(section.get("quant_method") or "unnamed")
    bits = section.get("bits") or section.get("num_bits")
    if bits is None and section.get("load_in_4bit"):
        bits = 4
    if bits is None and section.get("load_in_8bit"):
        bits = 8
    return f"{method}, {bits} bit" if isinstance(bits, int) else method


_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Longer texts than these are templates and vocabularies, which are not needed here.
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
        content = self.file.read(count) if count <= self.left else b""
        if len(content) != count:
            raise UnreadableModelError("its header breaks off")
        self.left -= count
        return content

    def number(self, form: str) -> int:
        return int(struct.unpack(self.order + form, self.take(struct.calcsize(self.order + form)))[0])

    def skip(self, count: int) -> None:
        """Skip bytes; a length that the file cannot hold is refused."""
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
    """What the header of a GGUF file tells."""
    with path.open("rb") as file:
        reader, tensors = _opened(file, path)
        settings = _settings(reader)
        totals = summed(_read_tensor(reader) for _ in range(tensors))
    return _gguf_facts(settings, totals)


def read_settings(path: Path, lists: Collection[str]) -> dict[str, Any]:
    """The settings in the header of a GGUF file, with the content of some of its lists; the others are None."""
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


def _read_tensor(reader: _Reader) -> Tensor:
    reader.text()
    dimensions = reader.number("I")
    if dimensions > _MOST_DIMENSIONS:
        raise UnreadableModelError(f"it holds a tensor of {dimensions} dimensions")
    sides = [reader.number(reader.width) for _ in range(dimensions)]
    kind = reader.number("I")
    reader.skip(8)  # where its numbers are
    return Tensor(_TENSOR_TYPES.get(kind, f"type {kind}"), prod(sides))


def _gguf_facts(settings: dict[str, Any], tensors: Facts) -> Facts:
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
