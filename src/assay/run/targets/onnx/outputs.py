"""Outputs of one call, described: name, type, shape and digest."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import JsonValue

from assay.run.tensors import values
from assay.run.tensors.dtypes import tensor_type


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
