"""Models made on the spot, and orders for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.plan.job import Job
from assay.run.contract import Order
from assay.spec.benchmark import Definition


@pytest.fixture
def save(tmp_path):
    """Write a graph as an ONNX file: nodes, inputs and outputs as (name, type, shape), weights as arrays."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    def write(nodes, inputs, outputs, weights=None, *, opset=25, name="model.onnx", **how) -> Path:
        graph = helper.make_graph(
            [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes],
            "test",
            [one if hasattr(one, "type") else helper.make_tensor_value_info(*one) for one in inputs],
            [one if hasattr(one, "type") else helper.make_tensor_value_info(*one) for one in outputs],
            [numpy_helper.from_array(array, key) for key, array in (weights or {}).items()],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=13 if opset > 24 else 10,
            producer_name="assay-tests",
        )
        path = tmp_path / name
        onnx.save(model, str(path), **how)
        return path

    return write


@pytest.fixture
def order(tmp_path):
    """Make the order for a model file."""

    def make(path, workload=None, **target) -> Order:
        definition = Definition.model_validate(
            {"target": {"model": str(path), **target}, "workload": workload or {}}, strict=False
        )
        job = Job("test", "digest", 0, definition, base=str(tmp_path))
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        return Order(job, 1, str(scratch), str(path), "ab" * 32)

    return make


@pytest.fixture
def ran(order):
    """Load a model, call it once, and give back its result, proof and facts."""
    from assay.run.targets.onnx import OnnxModel

    def run(path, workload=None, **target):
        model = OnnxModel(order(path, workload, **target))
        model.load()
        result = model.call()()
        proof, facts = model.proof(), dict(model.facts())
        model.close()
        return result, proof, facts

    return run
