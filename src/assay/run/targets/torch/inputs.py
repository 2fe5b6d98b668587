"""Inputs of a program: by its own signature where it has one, by the file's where it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import JsonValue

from assay.errors import UsageError
from assay.run.tensors import values
from assay.run.tensors.dims import Dims, DimSize, FixedShape, Shape, batch_keys, resolve_dims
from assay.run.tensors.dtypes import ELEMENT_TYPES, Array, ElementType
from assay.run.tensors.values import Values
from assay.spec.benchmark import InputSpec, Workload

if TYPE_CHECKING:
    from torch import Tensor

_ELEMENTS = {element.numpy: element for element in ELEMENT_TYPES.values() if element.kind != "string"}
_EXAMPLE = "the example that the program was exported with"


@dataclass(frozen=True, slots=True)
class TorchInput:
    """One tensor that a program takes."""

    element: ElementType
    shape: Shape
    example: tuple[int, ...] | None = None
    """Shape that it was exported with."""
    rows: int | None = None
    """Rows of the table that it looks up."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes that a program takes in one dynamic dimension."""

    low: int
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class TorchFeeds:
    """Values for every input, on the host, and how they came about."""

    values: Mapping[str, Values]
    elements: Mapping[str, ElementType]
    dims: Mapping[str, DimSize]
    items: int

    def tensor(self, name: str, device: str) -> Tensor:
        import torch

        array, element = self.values[name].array, self.elements[name]
        if element.plain:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)
        # numpy lacks this type; every value of it is exact in 32 bits.
        return torch.from_numpy(array.astype(np.float32)).to(device, getattr(torch, element.numpy))

    def facts(self) -> list[JsonValue]:
        return [
            {
                "name": name,
                "dtype": self.elements[name].numpy,
                "shape": list(fed.array.shape),
                "sha256": values.digest(fed.array, self.elements[name]),
                "values": fed.origin,
            }
            for name, fed in self.values.items()
        ]


def element_of(dtype: Any, name: str) -> ElementType:  # noqa: ANN401  (a torch.dtype)
    """The element type of a tensor.

    Raises:
        UsageError: for a type that no value can be made for.
    """
    word = str(dtype).removeprefix("torch.")
    if word not in _ELEMENTS:
        raise UsageError(
            f"input {name!r} is {word}, which cannot be made here",
            code="input-type",
            at="target.model",
            try_=f"export the program with one of {', '.join(_ELEMENTS)}",
        )
    return _ELEMENTS[word]


def by_signature(
    declared: Mapping[str, TorchInput], bounds: Mapping[str, Bounds], workload: Workload, base: Path
) -> TorchFeeds:
    """Make values for a program that knows its inputs.

    Raises:
        UsageError: when the workload does not fit the program.
    """
    specs = workload.inputs
    values.check_inputs(specs, declared)
    own = {
        name: array
        for name, spec in specs.items()
        if (array := _own(name, spec, declared[name].element, base)) is not None
    }
    given = {name: shape for name, spec in specs.items() if (shape := _given(name, spec, own)) is not None}
    dims = _sized(declared, bounds, workload, given)
    _check_bounds(dims.sizes, bounds)
    made = {
        name: Values(own[name], _source(name, specs[name]))
        if name in own
        else _made(name, one, dims.shapes[name], workload)
        for name, one in declared.items()
    }
    return TorchFeeds(made, {name: one.element for name, one in declared.items()}, dims.sizes, dims.items)


def by_file(names: Sequence[str], workload: Workload, base: Path) -> TorchFeeds:
    """Make values for a program that says how its inputs are called, and no more.

    A shape may hold -1, which stands for `workload.batch`.

    Raises:
        UsageError: when the file does not say enough.
    """
    specs, batch = workload.inputs, workload.batch or 1
    values.check_inputs(specs, dict.fromkeys(names))
    if workload.dims:
        raise UsageError(
            "a TorchScript program names no dimensions",
            code="dims",
            at="workload.dims",
            try_="give whole shapes under workload.inputs",
        )
    made, elements, batched = {}, {}, False
    for name in names:
        spec = specs.get(name)
        if spec is None or (spec.shape is None and spec.file is None and not isinstance(spec.value, list)):
            raise UsageError(
                f"TorchScript says nothing about the shape of its input {name!r}",
                code="input-shape",
                at=f"workload.inputs.{name}",
                try_="give its shape, for example {shape: [-1, 3, 224, 224]}, or a .npy file",
            )
        shape = None if spec.shape is None else tuple(batch if size == -1 else size for size in spec.shape)
        elements[name], made[name] = _from_spec(name, spec, shape, workload.seed, base)
        batched = batched or -1 in (spec.shape or ()) or made[name].array.shape[:1] == (batch,)
    if workload.batch is not None and not batched:
        raise UsageError(
            f"workload.batch is {batch}, but no input has such a first dimension",
            code="batch",
            at="workload.batch",
            try_="write -1 in the shape where the batch belongs",
        )
    return TorchFeeds(made, elements, {"batch": DimSize(batch, "workload.batch")} if workload.batch else {}, batch)


def _sized(
    declared: Mapping[str, TorchInput],
    bounds: Mapping[str, Bounds],
    workload: Workload,
    given: Mapping[str, FixedShape],
) -> Dims:
    shapes: dict[str, Shape | None] = {name: one.shape for name, one in declared.items()}
    batches = batch_keys(shapes, workload.dims)
    settled = {dim for name in given for dim in declared[name].shape}
    defaults = {
        dim: one.example[axis]
        for one in declared.values()
        if one.example is not None
        for axis, dim in enumerate(one.shape)
        if isinstance(dim, str) and dim in bounds and dim not in batches | settled | set(workload.dims)
    }
    # A program may be made for two items or more; the smallest batch that it takes is the nearest to one.
    least = max((bounds[key].low for key in batches - settled if key in bounds), default=1)
    batch = workload.batch if workload.batch is not None or least <= 1 else least
    dims = resolve_dims(shapes, batch, {**workload.dims, **defaults}, given)
    origins = {**dict.fromkeys(defaults, _EXAMPLE)}
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


def _own(name: str, spec: InputSpec, element: ElementType, base: Path) -> Array | None:
    """The user's own array with a shape of its own: from a file or a list."""
    if spec.file is not None:
        return values.read_file(name, element, spec.file, base)
    return values.listed(name, element, spec.value) if isinstance(spec.value, list) else None


def _given(name: str, spec: InputSpec, own: Mapping[str, Array]) -> FixedShape | None:
    where = f"workload.inputs.{name}.shape"
    if name in own:
        if spec.shape is not None and spec.shape != own[name].shape:
            raise UsageError(
                f"{where} is {list(spec.shape)}, but {_source(name, spec)} has {list(own[name].shape)}",
                code="input-shape",
                at=where,
                try_="make both the same, or remove the shape",
            )
        return FixedShape(own[name].shape, _source(name, spec), not_batched=spec.shape is not None)
    return FixedShape(spec.shape, where, not_batched=True) if spec.shape is not None else None


def _source(name: str, spec: InputSpec) -> str:
    return f"workload.inputs.{name}.{'file' if spec.file is not None else 'value'}"


def _made(name: str, one: TorchInput, shape: tuple[int, ...], workload: Workload) -> Values:
    spec = workload.inputs.get(name, InputSpec())
    if spec.range is not None:
        return values.from_range(name, one.element, shape, workload.seed, spec.range)
    if spec.value is not None:
        return values.filled(name, one.element, shape, spec.value)
    return values.generate(name, one.element, shape, workload.seed, one.rows)


def _from_spec(
    name: str, spec: InputSpec, shape: tuple[int, ...] | None, seed: int, base: Path
) -> tuple[ElementType, Values]:
    """Values by the user's word alone; their type is that of the file, or of the value as it is written."""
    if spec.file is not None:
        array = _read(name, spec.file, base)
        element = element_of(array.dtype, name)
        return element, _shaped(name, Values(array, _source(name, spec)), shape)
    element = _ELEMENTS[_type_of(spec.value)]
    if isinstance(spec.value, list):
        return element, _shaped(name, Values(values.listed(name, element, spec.value), _source(name, spec)), shape)
    makers: list[tuple[bool, Callable[[tuple[int, ...]], Values]]] = [
        (spec.value is not None, lambda size: values.filled(name, element, size, spec.value)),
        (spec.range is not None, lambda size: values.from_range(name, element, size, seed, spec.range or (0, 1))),
        (True, lambda size: values.generate(name, element, size, seed)),
    ]
    make = next(make for fits, make in makers if fits)
    return element, make(shape or ())


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
        raise UsageError(
            f"{path} cannot be read: {problem}", code="input-file", at=where, try_="save the array with numpy.save"
        ) from None
    return array


def _shaped(name: str, made: Values, shape: tuple[int, ...] | None) -> Values:
    if shape is not None and shape != made.array.shape:
        where = f"workload.inputs.{name}.shape"
        raise UsageError(
            f"{where} is {list(shape)}, but {made.origin} has {list(made.array.shape)}",
            code="input-shape",
            at=where,
            try_="make both the same, or remove the shape",
        )
    return made
