"""Values for every input that a model declares: the user's own where the file gives some, else made for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay.errors import UsageError
from assay.run.tensors import values
from assay.run.tensors.dims import Dims, DimSize, FixedShape, Shape
from assay.run.tensors.values import Array, ElementType, Values
from assay.spec.benchmark import InputSpec, Workload


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One tensor that a model takes, as it declares it."""

    element: ElementType
    shape: Shape | None
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Feeds:
    """Values for every input, on the host, and how they came about."""

    elements: Mapping[str, ElementType]
    values: Mapping[str, Values]  # without optional inputs that are left out
    dims: Mapping[str, DimSize]
    items: int = 1

    def facts(self) -> list[JsonValue]:
        return [self._fact(name, element) for name, element in self.elements.items()]

    def _fact(self, name: str, element: ElementType) -> JsonValue:
        if name not in self.values:
            return {"name": name, "dtype": element.numpy, "values": "left out: the input is optional"}
        fed = self.values[name]
        return {
            "name": name,
            "dtype": element.numpy,
            "shape": list(fed.array.shape),
            "sha256": values.digest(fed.array, element),
            "values": fed.origin,
        }

    def dim_facts(self) -> dict[str, JsonValue]:
        return {name: {"size": size.value, "from": size.origin} for name, size in self.dims.items()}


def make_feeds(
    inputs: Mapping[str, ModelInput],
    workload: Workload,
    base: Path,
    sized: Callable[[Mapping[str, Shape | None], Mapping[str, FixedShape]], Dims],
    rows: Callable[[str], int | None],
) -> Feeds:
    """Make a value for every input of a model.

    Args:
        sized: gives every input a shape, from what the model declares and what the user's data settles.
        rows: rows of the table that an input looks up; its values stay below.
    """
    specs, seed = workload.inputs, workload.seed
    values.check_inputs(specs, inputs)
    taken = {name: declared for name, declared in inputs.items() if not declared.optional or name in specs}
    own: dict[str, Values] = {}
    given: dict[str, FixedShape] = {}
    for name, spec in specs.items():
        array = _own_array(name, inputs[name].element, spec, base)
        if array is not None:
            own[name] = own_values(name, spec, array)
            given[name] = FixedShape(array.shape, own[name].origin, not_batched=spec.shape is not None)
        elif spec.shape is not None:
            given[name] = FixedShape(spec.shape, f"workload.inputs.{name}.shape", not_batched=True)
    dims = sized({name: declared.shape for name, declared in taken.items()}, given)
    made = {
        name: own.get(name)
        or make_values(name, declared.element, dims.shapes[name], specs.get(name, InputSpec()), seed, rows(name))
        for name, declared in taken.items()
    }
    return Feeds({name: declared.element for name, declared in inputs.items()}, made, dims.sizes, dims.items)


def make_values(
    name: str, element: ElementType, shape: tuple[int, ...], spec: InputSpec, seed: int, rows: int | None = None
) -> Values:
    """Values of a shape as the file asks for them, else by the input's type and name."""
    if spec.range is not None:
        return values.from_range(name, element, shape, seed, spec.range)
    if spec.value is not None:
        return values.filled(name, element, shape, spec.value)
    return values.generate(name, element, shape, seed, rows)


def own_values(name: str, spec: InputSpec, array: Array, shape: tuple[int, ...] | None = None) -> Values:
    """The user's own array.

    Args:
        shape: the shape that the file gives beside it, where that is not the spec's own.
    """
    origin = f"workload.inputs.{name}.{'file' if spec.file is not None else 'value'}"
    shape = spec.shape if shape is None else shape
    if shape is not None and shape != array.shape:
        where = f"workload.inputs.{name}.shape"
        message = f"{where} is {list(shape)}, but {origin} has shape {list(array.shape)}"
        raise UsageError(message, code="input-shape", at=where, try_="make both the same, or remove the shape")
    return Values(array, origin)


def _own_array(name: str, element: ElementType, spec: InputSpec, base: Path) -> Array | None:
    """The user's own array with a shape of its own: from a file or a list."""
    if spec.file is not None:
        return values.read_file(name, element, spec.file, base)
    return values.listed(name, element, spec.value) if isinstance(spec.value, list) else None
