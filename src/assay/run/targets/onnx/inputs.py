"""Feeds of a session, one value for every input of the model's signature, and its outputs, described."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run.models.graph import OnnxOutline, largest_index
from assay.run.tensors import values
from assay.run.tensors.dims import Dims, FixedShape, Shape, resolve_dims
from assay.run.tensors.dtypes import Array, ElementType, is_optional, tensor_type
from assay.run.tensors.values import Values
from assay.spec.benchmark import InputSpec, Workload

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


@dataclass(frozen=True, slots=True)
class OnnxInput:
    """One input as the model declares it."""

    element: ElementType
    shape: Shape | None
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Feeds:
    """Values for every input, and how they came about."""

    inputs: Mapping[str, OnnxInput]
    values: Mapping[str, Values]  # without optional inputs that are left out
    dims: Dims

    def facts(self) -> list[JsonValue]:
        """What was fed, input by input."""
        return [self._fact(name) for name in self.inputs]

    def _fact(self, name: str) -> JsonValue:
        element = self.inputs[name].element
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


def make_feeds(session: InferenceSession, workload: Workload, base: Path, outline: OnnxOutline | None) -> Feeds:
    """Make a value for every input of a session.

    Raises:
        MeasureError: for an input that ONNX Runtime's Python API cannot be fed.
        UsageError: when the workload does not fit the model.
    """
    shapeless = outline.shapeless if outline else frozenset()
    declared = {node.name: _declared(node.name, node.type, node.shape, shapeless) for node in session.get_inputs()}
    specs = workload.inputs
    values.check_inputs(specs, declared)
    inputs = {name: one for name, one in declared.items() if not one.optional or name in specs}
    own = {name: array for name in specs if (array := _own(name, specs[name], inputs[name], base)) is not None}
    given = {name: shape for name in specs if (shape := _given(name, specs[name], own)) is not None}
    shapes = {name: one.shape for name, one in inputs.items()}
    dims = resolve_dims(shapes, workload.batch, workload.dims, given)
    made = {
        name: Values(own[name], _source(name, specs[name]))
        if name in own
        else _made(name, one.element, dims.shapes[name], workload, outline)
        for name, one in inputs.items()
    }
    return Feeds(declared, made, dims)


def _declared(name: str, declared: str, shape: list[int | str | None], shapeless: frozenset[str]) -> OnnxInput:
    element = tensor_type(declared)
    if element is None:
        raise MeasureError(
            f"input {name!r} is {declared}, which cannot be fed through ONNX Runtime's Python API",
            code="input-type",
            at="target.model",
            try_="export the model with tensor inputs",
        )
    known = None if name in shapeless else tuple(shape)
    return OnnxInput(element, known, is_optional(declared))


def _own(name: str, spec: InputSpec, declared: OnnxInput, base: Path) -> Array | None:
    """The user's own array with a shape of its own: from a file or a list."""
    if spec.file is not None:
        return values.read_file(name, declared.element, spec.file, base)
    return values.listed(name, declared.element, spec.value) if isinstance(spec.value, list) else None


def _given(name: str, spec: InputSpec, own: Mapping[str, Array]) -> FixedShape | None:
    """The shape that the user's data or `shape` settles."""
    where = f"workload.inputs.{name}.shape"
    if name not in own:
        return FixedShape(spec.shape, where, not_batched=True) if spec.shape is not None else None
    if spec.shape is not None and spec.shape != own[name].shape:
        raise UsageError(
            f"{where} is {list(spec.shape)}, but {_source(name, spec)} has shape {list(own[name].shape)}",
            code="input-shape",
            at=where,
            try_="make both the same, or remove the shape",
        )
    return FixedShape(own[name].shape, _source(name, spec), not_batched=spec.shape is not None)


def _source(name: str, spec: InputSpec) -> str:
    return f"workload.inputs.{name}.{'file' if spec.file is not None else 'value'}"


def _made(
    name: str, element: ElementType, shape: tuple[int, ...], workload: Workload, outline: OnnxOutline | None
) -> Values:
    spec = workload.inputs.get(name, InputSpec())
    if spec.range is not None:
        return values.from_range(name, element, shape, workload.seed, spec.range)
    if spec.value is not None:
        return values.filled(name, element, shape, spec.value)
    rows = largest_index(outline, name) if outline and element.kind == "int" else None
    return values.generate(name, element, shape, workload.seed, rows)


def describe(names: Sequence[str], types: Sequence[str], results: Sequence[object]) -> list[JsonValue]:
    """Describe what a call gave, output by output."""
    return [
        {"name": name, "type": kind, **_describe_one(kind, result)}
        for name, kind, result in zip(names, types, results, strict=True)
    ]


def _describe_one(kind: str, result: Any) -> dict[str, JsonValue]:  # noqa: ANN401  (arrays, lists, OrtValues)
    element = tensor_type(kind)
    if result is None:
        return {"absent": "the optional output is empty"}
    if isinstance(result, np.ndarray) and element is not None:
        return {
            "dtype": element.numpy,
            "shape": list(result.shape),
            "sha256": values.digest(result, element),
        }
    if hasattr(result, "data_ptr"):
        return _describe_ort_value(kind, result)
    if isinstance(result, list | dict):
        return {"items": len(result)}
    return {"absent": f"a {type(result).__name__} is not described"}


def _describe_ort_value(kind: str, value: Any) -> dict[str, JsonValue]:  # noqa: ANN401  (an OrtValue)
    """Describe a tensor that numpy may not know, by its bytes."""
    if not value.is_tensor():
        return {"absent": "a sequence is not described"}
    element = tensor_type(kind)
    about: dict[str, JsonValue] = {"dtype": element.numpy if element else kind, "shape": list(value.shape())}
    if element is not None and element.plain:
        return {**about, "sha256": values.digest(value.numpy(), element)}
    if value.device_name().lower() != "cpu":
        return {**about, "sha256_absent": f"the output stayed on {value.device_name()}"}
    # Only bytes can be read of a type that numpy lacks.
    size = value.tensor_size_in_bytes()
    content = ctypes.string_at(value.data_ptr(), size) if size else b""
    return {**about, "sha256": hashlib.sha256(content).hexdigest()}
