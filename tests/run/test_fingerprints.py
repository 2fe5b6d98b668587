"""A changed file is a changed job: also the weights beside a model, never a file that only shares a name."""

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from assay.run.fingerprints import fingerprints
from assay.spec.benchmark import Definition


def of(tmp_path, target, **sections):
    return fingerprints(Definition.model_validate_json(json.dumps({"target": target, **sections})), tmp_path)


def test_weights_beside_a_model_count(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])
    weights = numpy_helper.from_array(np.ones((64, 64), dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [x], [weights])
    model = helper.make_model(graph)
    save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    before = of(tmp_path, {"model": "m.onnx"})
    (tmp_path / "m.data").write_bytes(b"\1" * (64 * 64 * 4))
    after = of(tmp_path, {"model": "m.onnx"})
    assert set(before) == set(after) == {"m.onnx"}
    assert before != after


def test_a_built_in_name_and_a_url_are_no_files(tmp_path):
    (tmp_path / "squeezenet").write_text("something else")
    assert of(tmp_path, {"model": "squeezenet"}) == {}
    assert of(tmp_path, {"model": "https://example.org/m.onnx"}) == {}
    assert of(tmp_path, {"model": "missing.onnx"}) == {}


def test_scripts_and_input_files_count(tmp_path):
    (tmp_path / "train.py").write_text("1")
    (tmp_path / "ids.npy").write_text("2")
    assert set(of(tmp_path, {"command": "python train.py --lr 1"})) == {"train.py"}
    inputs = {"inputs": {"x": {"file": "ids.npy"}}}
    assert set(of(tmp_path, {"model": "m.onnx"}, workload=inputs)) == {"ids.npy"}
