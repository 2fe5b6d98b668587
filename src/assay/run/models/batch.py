"""Gives a network of fixed batch 1 a dynamic batch dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

SYMBOL = "batch"
# The first format version in which a weight need not be listed as an input as well.
_IR_WEIGHTS_APART = 4


def with_dynamic_batch(model: ModelProto) -> ModelProto:
    """Rewrite a model in place so that its inputs and outputs begin with a symbolic batch.

    Weights leave the list of inputs; a reshape of activations to `[1, …]` becomes `[0, …]`, which keeps
    the first dimension as it is; recorded shapes of inner tensors are dropped.
    """
    graph = model.graph
    weights = {weight.name for weight in graph.initializer}
    inputs = [one for one in graph.input if one.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    del graph.value_info[:]
    for one in (*graph.input, *graph.output):
        _free_first_dimension(one)
    _free_reshapes(graph, _activations(graph))
    model.ir_version = max(model.ir_version, _IR_WEIGHTS_APART)
    return model


def _free_first_dimension(one: ValueInfoProto) -> None:
    first = one.type.tensor_type.shape.dim[0]
    if first.dim_value != 1:
        raise ValueError(f"{one.name} begins with {first.dim_value}, not with a batch of 1")
    first.dim_param = SYMBOL


def _activations(graph: GraphProto) -> set[str]:
    """The tensors that depend on an input; nodes of an ONNX graph are in order."""
    found = {one.name for one in graph.input}
    for node in graph.node:
        if found & set(node.input):
            found |= set(node.output)
    return found


def _free_reshapes(graph: GraphProto, activations: set[str]) -> None:
    from onnx import numpy_helper

    weights = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type != "Reshape" or node.input[0] not in activations:
            continue
        shape = numpy_helper.to_array(weights[node.input[1]]).copy()
        if shape[0] != 1:
            raise ValueError(f"{node.output[0]} is reshaped to {shape.tolist()}, which has no batch of 1")
        shape[0] = 0
        # Its own constant: another node may need the old one.
        name = f"{node.output[0]}/shape"
        graph.initializer.append(numpy_helper.from_array(shape, name))
        node.input[1] = name
    used = {name for node in graph.node for name in node.input}
    kept = [weight for weight in graph.initializer if weight.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
