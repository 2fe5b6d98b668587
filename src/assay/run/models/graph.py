"""The outline of an ONNX file: opsets, nodes, shapes and external files, read without its weights.

The `onnx` package would parse every weight into memory. This reader runs inside the measured process, where
that would raise the memory peak that is being measured, so it walks the protobuf fields over a memory map
and skips tensor contents.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

from assay.errors import MeasureError

Buffer = bytes | mmap.mmap
Span = tuple[int, int]  # where a length-delimited field begins and ends

_MAX_DEPTH = 32  # subgraphs inside subgraphs; real models stay below 5


@dataclass(frozen=True, slots=True)
class Node:
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axis: int = 0


@dataclass(frozen=True, slots=True)
class OnnxOutline:
    """What a model file says about itself, without its weights."""

    ir_version: int = 0
    producer: str = ""
    opsets: Mapping[str, int] = field(default_factory=dict)  # domain → version
    nodes: tuple[Node, ...] = ()
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # weight → its shape
    shapeless: frozenset[str] = frozenset()  # tensor inputs that do not even give a rank
    external: tuple[str, ...] = ()  # files beside the model that hold weights, sorted


def read_outline(path: Path) -> OnnxOutline:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise ValueError("the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _model(content)
            except (LookupError, UnicodeDecodeError) as problem:
                raise ValueError(f"not an ONNX model: {problem}") from None


def outline_or_none(path: Path) -> OnnxOutline | None:
    """Read the outline, or nothing where the file has another format, such as `.ort`."""
    try:
        return read_outline(path)
    except (ValueError, OSError):
        return None


def largest_index(outline: OnnxOutline, name: str) -> int | None:
    sizes: list[int] = []
    seen, waiting = {name}, [name]
    while waiting:
        tensor = waiting.pop()
        for node in outline.nodes:
            if tensor not in node.inputs:
                continue
            rows = _rows(outline, node, tensor)
            if rows is not None:
                sizes.append(rows)
            fresh = _carries_on(node, tensor) - seen
            seen |= fresh
            waiting.extend(fresh)
    return min(sizes, default=None)


# Operators whose first output holds the same numbers as their first input.
_SAME_VALUES = frozenset({"Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"})
_SAME_ROWS = frozenset({"Cast", "Identity", "DequantizeLinear"})


def _carries_on(node: Node, tensor: str) -> set[str]:
    follows = node.op_type in _SAME_VALUES and node.inputs[0] == tensor
    return set(node.outputs) if follows else set()


def _rows(outline: OnnxOutline, node: Node, tensor: str) -> int | None:
    if node.op_type == "Gather" and len(node.inputs) > 1 and node.inputs[1] == tensor:
        table, axis = node.inputs[0], node.axis
    elif node.op_type == "EmbedLayerNormalization" and len(node.inputs) > 2 and node.inputs[0] == tensor:
        table, axis = node.inputs[2], 0
    else:
        return None
    shape = outline.constants.get(_origin(outline, table))
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


def _origin(outline: OnnxOutline, tensor: str) -> str:
    """The weight behind a tensor, through operators that keep its rows."""
    maker = {name: node for node in outline.nodes if node.op_type in _SAME_ROWS for name in node.outputs}
    for _ in range(_MAX_DEPTH):
        if tensor not in maker or tensor in outline.constants:
            break
        tensor = maker[tensor].inputs[0]
    return tensor


# The walk over the protobuf. Field numbers are those of onnx.proto.


def _model(content: Buffer) -> OnnxOutline:
    fields = _grouped(content, (0, len(content)))
    if 7 not in fields:
        raise ValueError("not an ONNX model: it has no graph")
    producer = " ".join(_text(content, fields[number][0]) for number in (2, 3) if number in fields)
    graph = _grouped(content, _span(fields[7][0]))
    constants, external = _tensors(content, graph.get(5, ()))
    nodes = []
    for value in graph.get(1, ()):
        node, made, files = _node(content, _span(value), _MAX_DEPTH)
        nodes.append(node)
        constants.update(made)
        external |= files
    shapeless = {_text(content, name) for name in _shapeless(content, graph.get(11, ()))}
    return OnnxOutline(
        ir_version=_integer(fields.get(1, (0,))[0]),
        producer=producer.strip(),
        opsets=dict(_opset(content, _span(value)) for value in fields.get(8, ())),
        nodes=tuple(nodes),
        constants=constants,
        shapeless=frozenset(shapeless),
        external=tuple(sorted(external)),
    )


def _opset(content: Buffer, span: Span) -> tuple[str, int]:
    fields = _grouped(content, span)
    return _text(content, fields[1][0]) if 1 in fields else "", _integer(fields.get(2, (0,))[0])


def _node(content: Buffer, span: Span, depth: int) -> tuple[Node, dict[str, tuple[int, ...]], set[str]]:
    """A node, the constants it makes, and the external files that its subgraphs use."""
    fields = _grouped(content, span)
    outputs = tuple(_text(content, value) for value in fields.get(2, ()))
    axis, made, external = 0, dict[str, tuple[int, ...]](), set[str]()
    for value in fields.get(5, ()):
        attribute = _grouped(content, _span(value))
        if 3 in attribute and _text(content, attribute[1][0]) == "axis":
            axis = _signed(_integer(attribute[3][0]))
        held, files = _tensors(content, attribute.get(5, ()))
        made.update({output: shape for output in outputs for shape in held.values()})
        external |= files
        for graph in (*attribute.get(6, ()), *attribute.get(11, ())):
            external |= _external_of_graph(content, _span(graph), depth - 1)
    op_type = _text(content, fields[4][0]) if 4 in fields else ""
    inputs = tuple(_text(content, value) for value in fields.get(1, ()))
    # A tensor attribute is the node's value only for Constant; elsewhere it is a fill value or similar.
    return Node(op_type, inputs, outputs, axis), made if op_type == "Constant" else {}, external


def _external_of_graph(content: Buffer, span: Span, depth: int) -> set[str]:
    if depth <= 0:
        raise ValueError("subgraphs are nested too deeply")
    graph = _grouped(content, span)
    _, external = _tensors(content, graph.get(5, ()))
    for value in graph.get(1, ()):
        external |= _node(content, _span(value), depth)[2]
    return external


def _tensors(content: Buffer, values: Sequence[int | Span]) -> tuple[dict[str, tuple[int, ...]], set[str]]:
    """Shapes by name, and the external files that hold the contents."""
    shapes, external = dict[str, tuple[int, ...]](), set[str]()
    for value in values:
        fields = _grouped(content, _span(value))
        name = _text(content, fields[8][0]) if 8 in fields else ""
        shapes[name] = tuple(_dims(content, fields.get(1, ())))
        for entry in fields.get(13, ()):
            pair = _grouped(content, _span(entry))
            if _text(content, pair[1][0]) == "location" and 2 in pair:
                external.add(_text(content, pair[2][0]))
    return shapes, external


def _dims(content: Buffer, values: Sequence[int | Span]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int):
            yield _signed(value)
            continue
        at, end = value  # packed: several numbers in one field
        while at < end:
            number, at = _varint(content, at)
            yield _signed(number)


def _shapeless(content: Buffer, inputs: Sequence[int | Span]) -> Iterator[Span]:
    for value in inputs:
        info = _grouped(content, _span(value))
        kind = _grouped(content, _span(info[2][0])) if 2 in info else {}
        if 1 in info and 1 in kind and 2 not in _grouped(content, _span(kind[1][0])):
            yield _span(info[1][0])


def _grouped(content: Buffer, span: Span) -> dict[int, list[int | Span]]:
    """The fields of one message by number; contents of length-delimited fields stay where they are."""
    fields: dict[int, list[int | Span]] = {}
    at, end = span
    while at < end:
        key, at = _varint(content, at)
        value, at = _value(content, at, key & 7)
        if at > end:
            raise ValueError("not an ONNX model: a field reaches past the end of its message")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _value(content: Buffer, at: int, wire: int) -> tuple[int | Span, int]:
    if wire == 0:
        return _varint(content, at)
    if wire == 2:
        size, at = _varint(content, at)
        return (at, at + size), at + size
    if wire in (1, 5):
        size = 8 if wire == 1 else 4
        return (at, at + size), at + size
    raise ValueError(f"not an ONNX model: unknown wire type {wire}")


def _varint(content: Buffer, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("not an ONNX model: a number is too long")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _integer(value: int | Span) -> int:
    if not isinstance(value, int):
        raise ValueError("not an ONNX model: a number was expected")  # noqa: TRY004  (one error for bad files)
    return value


def _span(value: int | Span) -> Span:
    if isinstance(value, int):
        raise ValueError("not an ONNX model: a message was expected")  # noqa: TRY004  (one error for bad files)
    return value


def _text(content: Buffer, value: int | Span) -> str:
    start, end = _span(value)
    return content[start:end].decode("utf-8")


OUTSIDE = "model-outside"
_BLOBS = "blobs"


def external_files(model: Path) -> tuple[str, ...]:
    """Names of the files that hold weights of an ONNX file; empty for another format."""
    outline = outline_or_none(model)
    names = outline.external if outline else ()
    for name in names:
        refuse_outside(model.name, name, model.parent, also=model.resolve().parent)
    return names


def refuse_outside(model: str, name: str, folder: Path, *, also: Path | None = None) -> None:
    """Refuse a file that does not lie in the folder of its model; only links are followed, no file is opened.

    A model may be a stranger's. A name such as `../.ssh/id_rsa`, or a link beside the model, would have another file
    of the user hashed and sent to a server.
    """
    windows = PureWindowsPath(name)
    parts = (*PurePosixPath(name).parts, *windows.parts)
    if not name or name.startswith(("/", "\\")) or windows.drive or ".." in parts or "\0" in name:
        raise _refused(model, name, f"outside its own folder {folder}")
    really = (folder / name).resolve()
    if not any(really.is_relative_to(root) for root in (folder.resolve(), *((also,) if also else ()))):
        raise _refused(model, name, f"which is a link to {really}, outside its own folder {folder}")


def refuse_links_out(folder: Path, names: Iterable[str]) -> None:
    """Refuse files of a model folder that are links out of it.

    In the cache of the Hugging Face hub a model is a folder of links to blobs two folders up; those are its own.
    """
    blobs = folder.resolve().parent.parent / _BLOBS
    own = blobs if folder.resolve().parent.name == "snapshots" and not blobs.is_symlink() else None
    for name in names:
        refuse_outside(str(folder), name, folder, also=own)


def _refused(model: str, name: str, where: str) -> MeasureError:
    message = f"{model} names {name!r}, {where}; nothing of it was read"
    try_ = "put the file itself into the folder of the model, if you trust the model"
    return MeasureError(message, code=OUTSIDE, at="target.model", try_=try_)
