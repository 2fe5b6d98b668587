"""An ONNX model in our process, behind the seam that the load loop drives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run.contract import Order
from assay.run.models.graph import OnnxOutline, outline_or_none
from assay.run.onnx_devices import place, preload, runtime
from assay.run.records import DeviceProof
from assay.run.targets.keys import refuse_idle
from assay.run.targets.onnx.inputs import Feeds, describe, make_feeds
from assay.run.targets.onnx.session import (
    Assignment,
    call_error,
    elsewhere,
    open_session,
    profiled,
    prove,
    read_back,
    recorded,
    refuse_compiled,
    session_options,
)
from assay.run.tensors.dtypes import tensor_type, to_ort_value
from assay.spec.target import ModelTarget

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class OnnxModel:
    """Any ONNX model, fed by its own signature.

    Making one imports the runtime and checks that the asked provider exists; `load` makes the session;
    `call` makes the inputs. So each is timed apart.
    """

    def __init__(self, order: Order) -> None:
        target = order.job.definition.target
        if not isinstance(target, ModelTarget) or order.model is None:
            raise UsageError("the ONNX Runtime target needs a model file", code="target", at="target.model")
        refuse_idle(target, ("use", "dtype", "remote_code"))
        self.items_per_call = 1  # known once the inputs are made
        self._order, self._target = order, target
        self._path = Path(order.model)
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
        """One inference with inputs made once; nothing of ours stands between the caller and the runtime."""
        session = self._opened()
        self._threads_after = psutil.Process().num_threads()
        self._outline = outline_or_none(self._path)
        workload = self._order.job.definition.workload
        self._feeds = make_feeds(session, workload, Path(self._order.job.base), self._outline)
        self.dims = _dim_facts(self._feeds)
        self.items_per_call = self._feeds.dims.items
        return self._bound(session, self._feeds)

    def proof(self) -> DeviceProof:
        """Which provider ran the nodes, read back from the runtime."""
        options = self._opened().get_provider_options().get(self._placement.provider, {})
        nodes = len(self._outline.nodes) if self._outline else 0
        return prove(self._placement, self._assigned(), options, nodes)

    def facts(self) -> Mapping[str, JsonValue]:
        """What was really used, read back from the session."""
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
        """Free the session and its inputs."""
        self._session = self._feeds = None

    def _bound(self, session: InferenceSession, feeds: Feeds) -> Callable[[], object]:
        """A call without arguments: plain `session.run`, unless a type is foreign to numpy."""
        arrays = {name: fed.array for name, fed in feeds.values.items()}
        if self._plain(session, feeds):
            return functools.partial(session.run, None, arrays)
        bound = {name: to_ort_value(array, feeds.inputs[name].element) for name, array in arrays.items()}
        return functools.partial(session.run_with_ort_values, None, bound)

    def _plain(self, session: InferenceSession, feeds: Feeds) -> bool:
        inputs = all(feeds.inputs[name].element.plain for name in feeds.values)
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
        """Describe the outputs of one more call, made after the measured window."""
        results: Any = self._bound(session, feeds)()
        nodes = session.get_outputs()
        return describe([node.name for node in nodes], [node.type for node in nodes], results)

    def _opened(self) -> InferenceSession:
        if self._session is None:
            raise MeasureError("the model is not loaded", code="target", at="target.model", try_="call load() first")
        return self._session

    def _fed(self) -> Feeds:
        if self._feeds is None:
            raise MeasureError("the inputs are not made", code="target", at="target.model", try_="call call() first")
        return self._feeds


def _dim_facts(feeds: Feeds) -> dict[str, JsonValue]:
    return {name: {"size": size.value, "from": size.origin} for name, size in feeds.dims.sizes.items()}


def is_runtime_error(problem: BaseException) -> bool:
    """Whether an exception came out of ONNX Runtime."""
    return type(problem).__module__.startswith("onnxruntime")


__all__ = ["OnnxModel", "call_error", "is_runtime_error"]
