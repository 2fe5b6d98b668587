"""An ONNX model in our process, behind the seam that the load loop drives."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.contract import Order
from assay.run.models.graph import OnnxOutline, largest_index, outline_or_none
from assay.run.onnx_devices import place, preload, runtime
from assay.run.records import DeviceProof
from assay.run.targets import model_target, not_ready
from assay.run.targets.onnx.session import (
    Assignment,
    elsewhere,
    open_session,
    profiled,
    prove,
    read_back,
    recorded,
    refuse_compiled,
    session_options,
)
from assay.run.tensors import values
from assay.run.tensors.dims import resolve_dims
from assay.run.tensors.feeds import Feeds, ModelInput, make_feeds
from assay.run.tensors.values import is_optional, tensor_type, to_ort_value
from assay.spec.benchmark import Workload

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class OnnxModel:
    """Any ONNX model, fed by its own signature.

    Making one imports the runtime and checks that the asked provider exists; `load` makes the session;
    `call` makes the inputs. So each is timed apart.
    """

    def __init__(self, order: Order) -> None:
        idle = ("use", "dtype", "remote_code")
        target, self._path = model_target(order, "the ONNX Runtime target needs a model file", idle)
        self.items_per_call = 1  # known once the inputs are made
        self._order, self._target = order, target
        self._placement = place(target.device, target.provider_options)
        refuse_compiled(self._path, self._placement)
        preload(target.device)
        self._options = session_options(target, self._placement)
        self._session: InferenceSession | None = None
        self._feeds: Feeds | None = None
        self._outline: OnnxOutline | None = None
        self._assignment: Assignment | None = None
        self.dims: dict[str, JsonValue] = {}  # kept after close, for an error that blames them
        self._threads_before = self._threads_after = psutil.Process().num_threads()

    def load(self) -> None:
        """Make the session, on the asked provider or not at all."""
        self._session = open_session(self._path, self._options, self._placement)

    def call(self) -> Callable[[], object]:
        """One inference with inputs made once; no code of assay runs between the caller and the runtime."""
        session = self._opened()
        self._threads_after = psutil.Process().num_threads()
        self._outline = outline_or_none(self._path)
        workload = self._order.job.definition.workload
        self._feeds = _session_feeds(session, workload, Path(self._order.job.base), self._outline)
        self.dims = self._feeds.dim_facts()
        self.items_per_call = self._feeds.items
        return self._bound(session, self._feeds)

    def proof(self) -> DeviceProof:
        options = self._opened().get_provider_options().get(self._placement.provider, {})
        nodes = len(self._outline.nodes) if self._outline else 0
        return prove(self._placement, self._assigned(), options, nodes)

    def facts(self) -> Mapping[str, JsonValue]:
        session, feeds = self._opened(), self._fed()
        assignment = self._assigned()
        nodes: dict[str, JsonValue] = {**assignment.nodes}
        ops: dict[str, JsonValue] = {
            provider: {**counts} for provider, counts in elsewhere(self._placement, assignment).items()
        }
        return {
            "runtime": "onnxruntime",
            "runtime_version": runtime().__version__,
            "provider": self._placement.provider,
            "providers": list(session.get_providers()),
            "nodes": nodes,
            "nodes_evidence": assignment.evidence,
            "ops_elsewhere": ops,
            **read_back(session, self._target, self._placement),
            "threads_started": self._threads_after - self._threads_before,
            "model": self._model_facts(session),
            "dims": self.dims,
            "inputs": feeds.facts(),
            "outputs": self._output_facts(session, feeds),
            "call": "session.run" if self._plain(session, feeds) else "session.run_with_ort_values",
        }

    def close(self) -> None:
        self._session = self._feeds = None

    def _bound(self, session: InferenceSession, feeds: Feeds) -> Callable[[], object]:
        """A call without arguments: plain `session.run`, unless a type is foreign to numpy."""
        arrays = {name: fed.array for name, fed in feeds.values.items()}
        if self._plain(session, feeds):
            return functools.partial(session.run, None, arrays)
        bound = {name: to_ort_value(array, feeds.elements[name]) for name, array in arrays.items()}
        return functools.partial(session.run_with_ort_values, None, bound)

    def _plain(self, session: InferenceSession, feeds: Feeds) -> bool:
        inputs = all(feeds.elements[name].plain for name in feeds.values)
        types = [tensor_type(node.type) for node in session.get_outputs()]
        # A sequence of unknown type is left to session.run, which gives a list.
        return inputs and all(element is None or element.plain for element in types)

    def _assigned(self) -> Assignment:
        if self._assignment is None:
            self._assignment = recorded(self._opened()) or self._profiled()
        return self._assignment

    def _profiled(self) -> Assignment:
        return profiled(
            session_options(self._target, self._placement),
            Path(self._order.scratch),
            lambda options: open_session(self._path, options, self._placement),
            lambda session: self._bound(session, self._fed())(),
        )

    def _model_facts(self, session: InferenceSession) -> dict[str, JsonValue]:
        outline = self._outline
        meta = session.get_modelmeta()
        opsets: dict[str, JsonValue] = (
            {domain or "ai.onnx": v for domain, v in outline.opsets.items()} if outline else {}
        )
        return {
            "file": self._path.name,
            "sha256": self._order.model_sha256,
            "size_bytes": self._path.stat().st_size,
            "producer": (outline.producer if outline else "") or meta.producer_name,
            "graph": meta.graph_name,
            "opset": opsets.get("ai.onnx"),
            "opsets": opsets,
            "ir_version": outline.ir_version if outline else None,
            "nodes": len(outline.nodes) if outline else None,
            "external_files": list(outline.external) if outline else [],
        }

    def _output_facts(self, session: InferenceSession, feeds: Feeds) -> list[JsonValue]:
        results: Any = self._bound(session, feeds)()
        nodes = session.get_outputs()
        return describe([node.name for node in nodes], [node.type for node in nodes], results)

    def _opened(self) -> InferenceSession:
        return self._session or not_ready("the model is not loaded", "call load() first")

    def _fed(self) -> Feeds:
        return self._feeds or not_ready("the inputs are not made", "call call() first")


def is_runtime_error(problem: BaseException) -> bool:
    return type(problem).__module__.startswith("onnxruntime")


def _session_feeds(session: InferenceSession, workload: Workload, base: Path, outline: OnnxOutline | None) -> Feeds:
    """Make a value for every input of a session."""
    shapeless = outline.shapeless if outline else frozenset()
    inputs = {node.name: _declared(node.name, node.type, node.shape, shapeless) for node in session.get_inputs()}

    def rows(name: str) -> int | None:
        return largest_index(outline, name) if outline and inputs[name].element.kind == "int" else None

    return make_feeds(
        inputs, workload, base, lambda shapes, given: resolve_dims(shapes, workload.batch, workload.dims, given), rows
    )


def _declared(name: str, declared: str, shape: list[int | str | None], shapeless: frozenset[str]) -> ModelInput:
    element = tensor_type(declared)
    if element is None:
        message = f"input {name!r} is {declared}, which cannot be fed through ONNX Runtime's Python API"
        raise MeasureError(message, code="input-type", at="target.model", try_="export the model with tensor inputs")
    return ModelInput(element, None if name in shapeless else tuple(shape), is_optional(declared))


def describe(names: Sequence[str], types: Sequence[str], results: Sequence[object]) -> list[JsonValue]:
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
