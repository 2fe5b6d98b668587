"""Proof of device, decided from known assignments."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from assay.run.onnx_devices import PROVIDERS, OnnxPlacement
from assay.run.targets.onnx.session import Assignment, elsewhere, parse_profile, prove

CPU, CUDA, TRT, COREML = (PROVIDERS[device] for device in ("cpu", "cuda", "tensorrt", "coreml"))


def proof(device, nodes, *, options=None, fused=False, graph_nodes=0):
    ops = {provider: Counter({"Conv": count}) for provider, count in nodes.items()}
    placement = OnnxPlacement(device, PROVIDERS[device.partition(":")[0]], ())
    return prove(placement, Assignment(ops, "test", fused), options or {}, graph_nodes)


@pytest.mark.parametrize(
    ("device", "nodes", "used"),
    [
        ("cpu", {CPU: 5}, "cpu"),
        ("cpu", {}, "cpu"),
        ("cuda", {CUDA: 90, CPU: 5}, "cuda"),
        ("cuda", {CPU: 95}, "cpu"),
        ("cuda", {CUDA: 2, CPU: 90}, "cpu"),
        ("cuda", {}, "cpu"),
        ("tensorrt", {TRT: 90, CUDA: 3, CPU: 1}, "tensorrt"),
        ("tensorrt", {CUDA: 90, CPU: 1}, "cuda"),
        ("coreml-ane", {COREML: 9, CPU: 1}, "coreml-ane"),
        ("coreml-gpu", {CPU: 10}, "cpu"),
    ],
)
def test_the_device_that_ran_most_nodes_is_the_used_one(device, nodes, used):
    found = proof(device, nodes)
    assert found.used == used
    assert found.honoured == (device == used)
    assert found.nodes == nodes


def test_another_device_number_is_not_honoured():
    assert proof("cuda:1", {CUDA: 9}, options={"device_id": "1"}).honoured
    other = proof("cuda:1", {CUDA: 9}, options={"device_id": "0"})
    assert other.used == "cuda:0"
    assert not other.honoured


def test_compiled_parts_of_a_profile_are_weighed_against_the_graph():
    """TensorRT shows one node for hundreds; two CPU nodes beside it are no majority."""
    assert proof("tensorrt", {TRT: 1, CPU: 2}, fused=True, graph_nodes=300).honoured
    assert not proof("tensorrt", {TRT: 1, CPU: 200}, fused=True, graph_nodes=300).honoured


def test_core_ml_says_what_it_does_not_know():
    assert "Core ML itself chooses" in proof("coreml-ane", {COREML: 9}).evidence


def test_operators_elsewhere_are_named():
    ops = {CUDA: Counter({"Conv": 3}), CPU: Counter({"Shape": 2, "Gather": 1})}
    assert elsewhere(OnnxPlacement("cuda", CUDA, ()), Assignment(ops, "")) == {CPU: {"Gather": 1, "Shape": 2}}


def test_profile_counts_nodes_only():
    events = [
        {"cat": "Session", "name": "model_run", "args": {}},
        {"cat": "Node", "name": "a_kernel_time", "args": {"provider": CUDA, "op_name": "Conv"}},
        {"cat": "Node", "name": "a_fence_before", "args": {"op_name": "Conv"}},
        {"cat": "Node", "name": "b_kernel_time", "args": {"provider": CPU, "op_name": "Shape"}},
    ]
    assert parse_profile(json.dumps(events)) == {CUDA: Counter(Conv=1), CPU: Counter(Shape=1)}
