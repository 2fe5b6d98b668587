"""Inputs of a program: by its own signature where it has one, by the file's where it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import JsonValue

from assay.errors import UsageError
from assay.run.tensors import values
from assay.run.tensors.dims import Dims, DimSize, FixedShape, Shape, batch_keys, resolve_dims
from assay.run.tensors.feeds import Feeds, ModelInput, make_feeds, make_values, own_values
from assay.run.tensors.values import ELEMENT_TYPES, Array, ElementType, Values
from assay.spec.benchmark import InputSpec, Workload

if TYPE_CHECKING:
    from torch import Tensor


_ELEMENTS = {element.numpy: element for element in ELEMENT_TYPES.values() if element.kind != "string"}
_EXAMPLE = "the example that the program was exported with"


@dataclass(frozen=True, slots=True)
class TorchInput(ModelInput):
    example: tuple[int, ...] | None = None
    """Shape that it was exported with."""
    rows: int | None = None
    """Rows of the table that it looks up."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes that a program takes in one dynamic dimension."""

    low: int
    high: int | None


def tensor_of(feeds: Feeds, name: str, device: str) -> Tensor:
    import torch

    array, element = feeds.values[name].array, feeds.elements[name]
    if element.plain:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)
    # numpy lacks this type; every value of it is exact in 32 bits.
    return torch.from_numpy(array.astype(np.float32)).to(device, getattr(torch, element.numpy))


def element_of(dtype: Any, name: str) -> ElementType:  # noqa: ANN401  (a torch.dtype)
    word = str(dtype).removeprefix("torch.")
    if word not in _ELEMENTS:
        message = f"input {name!r} is {word}, which cannot be made here"
        try_ = f"export the program with one of {', '.join(_ELEMENTS)}"
        raise UsageError(message, code="input-type", at="target.model", try_=try_)
    return _ELEMENTS[word]


def by_signature(
    declared: Mapping[str, TorchInput], bounds: Mapping[str, Bounds], workload: Workload, base: Path
) -> Feeds:
    """Make values for a program that knows its inputs."""

    def sized(shapes: Mapping[str, Shape | None], given: Mapping[str, FixedShape]) -> Dims:
        dims = _sized(declared, shapes, bounds, workload, given)
        _check_bounds(dims.sizes, bounds)
        return dims

    return make_feeds(declared, workload, base, sized, lambda name: declared[name].rows)


def by_file(names: Sequence[str], workload: Workload, base: Path) -> Feeds:
    """Make values for a program that says how its inputs are called, and no more.

    A shape may hold -1, which stands for `workload.batch`.
    """
    specs, batch = workload.inputs, workload.batch or 1
    values.check_inputs(specs, dict.fromkeys(names))
    if workload.dims:
        message = "a TorchScript program names no dimensions"
        raise UsageError(message, code="dims", at="workload.dims", try_="give whole shapes under workload.inputs")
    made, elements, batched = {}, {}, False
    for name in names:
        spec = specs.get(name)
        if spec is None or (spec.shape is None and spec.file is None and not isinstance(spec.value, list)):
            message = f"TorchScript says nothing about the shape of its input {name!r}"
            try_ = "give its shape, for example {shape: [-1, 3, 224, 224]}, or a .npy file"
            raise UsageError(message, code="input-shape", at=f"workload.inputs.{name}", try_=try_)
        shape = None if spec.shape is None else tuple(batch if size == -1 else size for size in spec.shape)
        elements[name], made[name] = _from_spec(name, spec, shape, workload.seed, base)
        batched = batched or -1 in (spec.shape or ()) or made[name].array.shape[:1] == (batch,)
    if workload.batch is not None and not batched:
        message = f"workload.batch is {batch}, but no input has such a first dimension"
        try_ = "write -1 in the shape where the batch belongs"
        raise UsageError(message, code="batch", at="workload.batch", try_=try_)
    return Feeds(elements, made, {"batch": DimSize(batch, "workload.batch")} if workload.batch else {}, batch)


def _sized(
    declared: Mapping[str, TorchInput],
    shapes: Mapping[str, Shape | None],
    bounds: Mapping[str, Bounds],
    workload: Workload,
    given: Mapping[str, FixedShape],
) -> Dims:
    batches = batch_keys(shapes, workload.dims)
    settled = {dim for name in given for dim in declared[name].shape or ()}
    defaults = {
        dim: spec.example[axis]
        for spec in declared.values()
        if spec.example is not None
        for axis, dim in enumerate(spec.shape or ())
        if isinstance(dim, str) and dim in bounds and dim not in batches | settled | set(workload.dims)
    }
    # A program may be made for two items or more; the smallest batch that it takes is the nearest to one.
    least = max((bounds[key].low for key in batches - settled if key in bounds), default=1)
    batch = workload.batch if workload.batch is not None or least <= 1 else least
    dims = resolve_dims(shapes, batch, {**workload.dims, **defaults}, given)
    origins = dict.fromkeys(defaults, _EXAMPLE)
    if batch != workload.batch:
        origins |= dict.fromkeys(batches, "the smallest that the program takes")
    sizes = {key: DimSize(size.value, origins.get(key, size.origin)) for key, size in dims.sizes.items()}
    return Dims(dims.shapes, sizes, dims.items)


def _check_bounds(sizes: Mapping[str, DimSize], bounds: Mapping[str, Bounds]) -> None:
    for key, size in sizes.items():
        allowed = bounds.get(key)
        if allowed is None or (allowed.low <= size.value and (allowed.high is None or size.value <= allowed.high)):
            continue
        upper = f" to {allowed.high}" if allowed.high is not None else " or more"
        raise UsageError(
            f"dimension {key} is {size.value} by {size.origin}, but the program was exported for {allowed.low}{upper}",
            code="dims",
            at=size.origin if size.origin.startswith("workload") else f"workload.dims.{key}",
            try_="choose a size that it takes, or export it with other bounds",
        )


def _from_spec(
    name: str, spec: InputSpec, shape: tuple[int, ...] | None, seed: int, base: Path
) -> tuple[ElementType, Values]:
    """Values by the user's word alone; their type is that of the file, or of the value as it is written."""
    if spec.file is not None:
        array = _read(name, spec.file, base)
        return element_of(array.dtype, name), own_values(name, spec, array, shape)
    element = _ELEMENTS[_type_of(spec.value)]
    if isinstance(spec.value, list):
        return element, own_values(name, spec, values.listed(name, element, spec.value), shape)
    return element, make_values(name, element, shape or (), spec, seed)


def _type_of(value: JsonValue) -> str:
    """The type of a value as it is written: 1 is a whole number, 1.0 is not; random values are floats."""
    kind: str = np.array(value).dtype.kind if value is not None else "f"
    return {"b": "bool", "i": "int64"}.get(kind, "float32")


def _read(name: str, file: str, base: Path) -> Array:
    path = base / Path(file).expanduser()
    where = f"workload.inputs.{name}.file"
    try:
        loaded = np.load(path, allow_pickle=False)
        array: Array = loaded[name] if path.suffix == ".npz" else loaded
    except (OSError, ValueError, KeyError) as problem:
        message = f"{path} cannot be read: {problem}"
        raise UsageError(message, code="input-file", at=where, try_="save the array with numpy.save") from None
    return array
