"""The outline of a model file, against what the onnx package reads."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from assay.run.models.graph import _model, largest_index, outline_or_none, read_outline  # noqa: E402
from assay.run.models.sources import _folder  # noqa: E402


@pytest.mark.parametrize("path", sorted(_folder().glob("*.onnx")), ids=lambda path: path.stem)
def test_reads_what_onnx_reads(path):
    outline, model = read_outline(path), onnx.load(str(path))
    assert outline.ir_version == model.ir_version
    assert outline.opsets == {one.domain: one.version for one in model.opset_import}
    assert [(node.op_type, node.inputs, node.outputs) for node in outline.nodes] == [
        (node.op_type, tuple(node.input), tuple(node.output)) for node in model.graph.node
    ]
    assert {one.name: tuple(one.dims) for one in model.graph.initializer}.items() <= outline.constants.items()
    assert outline.external == ()


def graph_model(nodes, weights, tmp_path):
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT32, ["b", "s"]),
            helper.make_tensor_value_info("free", 1, None),
        ],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph), str(path))
    return read_outline(path)


def test_table_is_found_through_casts_and_quantised_weights(tmp_path):
    outline = graph_model(
        [
            helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
            helper.make_node("DequantizeLinear", ["q", "scale"], ["table"]),
            helper.make_node("Gather", ["table", "wide"], ["y"], axis=0),
        ],
        {"q": np.zeros((77, 3), np.int8), "scale": np.array(1.0, np.float32)},
        tmp_path,
    )
    assert largest_index(outline, "ids") == 77
    assert largest_index(outline, "free") is None
    assert outline.shapeless == {"free"}


def test_smallest_of_several_tables_and_constants_count(tmp_path):
    table = numpy_helper.from_array(np.zeros((5, 2), np.float32), "t")
    outline = graph_model(
        [
            helper.make_node("Constant", [], ["small"], value=table),
            helper.make_node("Gather", ["big", "ids"], ["a"], axis=-1),
            helper.make_node("Gather", ["small", "ids"], ["y"]),
        ],
        {"big": np.zeros((2, 9), np.float32)},
        tmp_path,
    )
    assert largest_index(outline, "ids") == 5


def test_external_files_of_subgraphs_are_found(tmp_path):
    tensor = numpy_helper.from_array(np.zeros((2,), np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="deep.bin")
    inner = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["r"])], "then", [], [helper.make_tensor_value_info("r", 1, [2])], [tensor]
    )
    outline = graph_model([helper.make_node("If", ["free"], ["y"], then_branch=inner, else_branch=inner)], {}, tmp_path)
    assert outline.external == ("deep.bin",)


def test_other_files_have_no_outline(tmp_path):
    path = tmp_path / "x"
    for content in (b"", b"plain text, not a model", b"PK\x03\x04 zip", bytes(1000)):
        path.write_bytes(content)
        assert outline_or_none(path) is None
    assert outline_or_none(tmp_path / "none") is None


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 3900), st.binary(min_size=1, max_size=4))
def test_no_bytes_break_the_reader(noise, at, patch):
    """Damaged files give ValueError and nothing else."""
    whole = (_folder() / "light_bvlc_alexnet.onnx").read_bytes()
    for content in (noise, whole[:at], whole[:at] + patch + whole[at + len(patch) :]):
        with contextlib.suppress(ValueError, LookupError):
            _model(content)
