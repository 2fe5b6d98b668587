"""Sizes of a model's dynamic dimensions: from the workload, from the user's own data, or by default.

A dimension is known by its symbol (`sequence_length`), or by `input.axis` (`pixels.2`) where the model gives
it no name. One symbol has one size across all inputs. Defaults go by name:

    past…                                  0    an empty cache
    seq, sequence, length, len, token, …   128
    height, width, h, w, image, …          224
    channel, channels, c                   3
    anything else                          1

Height and width of an unnamed image (4 dimensions, 1 or 3 or 4 channels) are 224 as well.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.errors import UsageError

Dim = int | str | None  # fixed, named, or dynamic without a name
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class DimSize:
    """The size of one dynamic dimension, and where it came from."""

    value: int
    origin: str


@dataclass(frozen=True, slots=True)
class FixedShape:
    """A shape that the user fixed for one input."""

    shape: tuple[int, ...]
    origin: str  # such as `workload.inputs.ids.file`
    not_batched: bool = False  # the user wrote the shape itself and so says what its first dimension is


@dataclass(frozen=True, slots=True)
class Dims:
    """Every input's shape, and how each dynamic dimension got its size."""

    shapes: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, DimSize]
    items: int = 1  # items in one call: the batch, or 1 where the model names none


def resolve_dims(
    inputs: Mapping[str, Shape | None],
    batch: int | None,
    named: Mapping[str, int],
    given: Mapping[str, FixedShape] | None = None,
) -> Dims:
    """Give every input a shape.

    Args:
        inputs: declared shape by input; None where the model does not even give a rank.
        batch: `workload.batch`; where it is left out, a dynamic batch is 1 and a fixed one stays.
    """
    given = given or {}
    _check_names(inputs, named)
    sizes = {key: DimSize(value, f"workload.dims.{key}") for key, value in named.items()}
    batches = batch_keys(inputs, named)
    if batch is not None:
        for key in batches:
            _settle(sizes, key, DimSize(batch, "workload.batch"))
        _check_batch(inputs, batch, batches, given)
    for name, own in given.items():
        _bind(sizes, name, inputs[name], own)
    for key in batches:
        sizes.setdefault(key, DimSize(1, "default"))
    shapes = {name: _fill(name, shape, sizes, given.get(name)) for name, shape in inputs.items()}
    items = batch if batch is not None else next((sizes[key].value for key in sorted(batches)), 1)
    return Dims(shapes, {key: sizes[key] for key in _keys(inputs) if key in sizes}, items)


def batch_keys(inputs: Mapping[str, Shape | None], named: Mapping[str, int]) -> set[str]:
    """The dimensions that hold the batch: named so, or first and of no other meaning."""
    keys = {key for key in _keys(inputs) if _like_batch(key)}
    firsts = {(name, shape[0]) for name, shape in inputs.items() if shape}
    unnamed = {f"{name}.0" for name, dim in firsts if dim is None}
    # With an explicit batch symbol in the model, another first symbol means something else.
    others = {dim for _, dim in firsts if isinstance(dim, str) and _default(dim) is None} if not keys else set()
    return keys | {key for key in unnamed | others if key not in named and not _is_expression(key)}


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint that names the nearest valid name and lists all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return hint + (f"valid names: {', '.join(names)}" if names else "the model has none")


def _check_names(inputs: Mapping[str, Shape | None], named: Mapping[str, int]) -> None:
    keys = set(_keys(inputs))
    keys |= {part for key in keys if _is_expression(key) for part in _parts(key)}
    for key in named:
        if key not in keys:
            message = f"the model has no dynamic dimension {key!r}"
            raise UsageError(message, code="dims", at=f"workload.dims.{key}", try_=nearest(key, keys))


def _keys(inputs: Mapping[str, Shape | None]) -> list[str]:
    keys = {
        _key(name, axis, dim): None
        for name, shape in inputs.items()
        for axis, dim in enumerate(shape or ())
        if not isinstance(dim, int)
    }
    return list(keys)


def _key(name: str, axis: int, dim: Dim) -> str:
    return dim if isinstance(dim, str) else f"{name}.{axis}"


def _settle(sizes: dict[str, DimSize], key: str, size: DimSize) -> None:
    """Set a size once; a second, different one is a contradiction."""
    previous = sizes.setdefault(key, size)
    if previous.value != size.value:
        raise UsageError(
            f"dimension {key!r} is {previous.value} by {previous.origin} but {size.value} by {size.origin}",
            code="dims",
            at=size.origin,
            try_=f"make both the same, or remove one; the batch is set by workload.batch: {size.value}"
            if "batch" in previous.origin
            else "make both the same, or remove one",
        )


def _bind(sizes: dict[str, DimSize], name: str, shape: Shape | None, own: FixedShape) -> None:
    """Take the sizes of dynamic dimensions from the shape that the user gave for one input."""
    fits = shape is None or (
        len(shape) == len(own.shape)
        and all(not isinstance(dim, int) or dim == size for dim, size in zip(shape, own.shape, strict=True))
    )
    if not fits or any(size < 0 for size in own.shape):
        message = (
            f"input {name!r} has shape {show_shape(shape)} in the model, but {own.origin} gives {show_shape(own.shape)}"
        )
        raise UsageError(message, code="input-shape", at=own.origin, try_="give a shape that fits the model's")
    for axis, (dim, size) in enumerate(zip(shape or (), own.shape, strict=False)):
        if not isinstance(dim, int):
            _settle(sizes, _key(name, axis, dim), DimSize(size, own.origin))


def _check_batch(
    inputs: Mapping[str, Shape | None], batch: int, batches: set[str], given: Mapping[str, FixedShape]
) -> None:
    """Refuse a batch that the model cannot take: the items per call would be wrong."""
    if batches:
        return
    firsts = {name: shape[0] for name, shape in inputs.items() if shape and len(shape) > 1}
    if batch in firsts.values():
        return
    declared = {name: dim for name, dim in firsts.items() if name not in given or not given[name].not_batched}
    if len(set(declared.values())) == 1 and isinstance(size := next(iter(declared.values())), int):
        raise _fixed_batch(next(iter(declared)), size, batch)
    if batch != 1:
        message = f"workload.batch is {batch}, but no input of the model has a batch dimension"
        try_ = "remove workload.batch; dynamic dimensions are set by workload.dims"
        raise UsageError(message, code="batch", at="workload.batch", try_=try_)


def _fixed_batch(name: str, size: int, batch: int) -> UsageError:
    message = f"workload.batch is {batch}, but the model's first dimension is fixed at {size} (input {name!r})"
    try_ = (
        f"set workload.batch: {size}, or export the model with a dynamic batch; where the first dimension "
        f"is no batch, set workload.inputs.{name}.shape to the model's own shape"
    )
    return UsageError(message, code="batch", at="workload.batch", try_=try_)


def _fill(name: str, shape: Shape | None, sizes: dict[str, DimSize], own: FixedShape | None) -> tuple[int, ...]:
    if own is not None:
        return own.shape
    if shape is None:
        message = f"the model gives no shape for input {name!r}, not even its rank"
        try_ = f"set workload.inputs.{name}.shape, for example [1, 3]"
        raise UsageError(message, code="input-shape", at=f"workload.inputs.{name}", try_=try_)
    return tuple(
        dim if isinstance(dim, int) else _size(_key(name, axis, dim), sizes, _image_axis(shape, axis))
        for axis, dim in enumerate(shape)
    )


def _size(key: str, sizes: dict[str, DimSize], image_axis: bool) -> int:
    if key not in sizes:
        sizes[key] = _computed(key, sizes) or _by_default(key, image_axis)
    return sizes[key].value


def _by_default(key: str, image_axis: bool) -> DimSize:
    if image_axis:
        return DimSize(224, "default for an image")
    default = _default(key)
    return DimSize(1, "default") if default is None else DimSize(default, "default for such a name")


def _image_axis(shape: Shape, axis: int) -> bool:
    """Whether an unnamed dimension is the height or width of an image."""
    if len(shape) != 4 or shape[axis] is not None:
        return False
    return (shape[1] in (1, 3, 4) and axis in (2, 3)) or (shape[3] in (1, 3, 4) and axis in (1, 2))


_DEFAULTS: tuple[tuple[set[str], int], ...] = (
    ({"past", "cache"}, 0),
    ({"seq", "sequence", "seqlen", "length", "len", "token", "tokens", "text", "context", "time", "frames"}, 128),
    ({"height", "width", "h", "w", "image", "img"}, 224),
    ({"channel", "channels", "c"}, 3),
)


def _words(key: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key)
    return [word for word in re.split(r"[^a-z]+", spaced.lower()) if word]


def _like_batch(key: str) -> bool:
    words = _words(key)
    alone = words in (["n"], ["b"], ["bs"])
    return not _is_expression(key) and "." not in key and (alone or bool({"batch", "batchsize"} & set(words)))


def _default(key: str) -> int | None:
    if "." in key:
        return None
    words = set(_words(key))
    return next((size for names, size in _DEFAULTS if words & names), None)


# Exporters write sums into dimension names: `past_sequence_length + sequence_length`.

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def _is_expression(key: str) -> bool:
    return isinstance(_parsed(key), ast.BinOp)


def _parts(key: str) -> set[str]:
    tree = _parsed(key)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set()


def _parsed(key: str) -> ast.expr | None:
    try:
        return ast.parse(key.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _computed(key: str, sizes: dict[str, DimSize]) -> DimSize | None:
    if not _is_expression(key):
        return None
    tree = _parsed(key)
    try:
        value = _evaluate(tree, sizes)
    except (KeyError, ZeroDivisionError):
        return None
    return DimSize(value, f"computed: {key}") if value >= 0 else None


def _evaluate(tree: ast.AST | None, sizes: dict[str, DimSize]) -> int:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return _size(tree.id, sizes, image_axis=False)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
        left, right = _evaluate(tree.left, sizes), _evaluate(tree.right, sizes)
        return _OPERATIONS[type(tree.op)](left, right)
    raise KeyError("not a sum of dimensions")


def show_shape(shape: Sequence[Dim] | None) -> str:
    """Write a shape as people do: `[batch, 3, ?]`."""
    if shape is None:
        return "[…]"
    return f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
