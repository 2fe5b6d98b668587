"""A changed file is a changed job: also the weights beside a model, never a file that only shares a name."""

import hashlib
import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from assay.plan.job import JobFile, digest_of
from assay.run.inputs import files_of, fingerprint_of, fingerprints
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


def with_weights(folder, model="m.onnx", location="m.data"):
    """A model of fixed bytes whose weights lie beside it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])
    weights = numpy_helper.from_array(np.ones((64, 64), dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [x], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    save(made, folder / model, save_as_external_data=True, location=location, size_threshold=0)


def digest(tmp_path, target, **sections):
    definition = Definition.model_validate_json(json.dumps({"target": target, **sections}))
    return digest_of(definition, fingerprints(definition, tmp_path))[:16]


def test_the_digests_of_jobs_with_files_are_stable(tmp_path):
    # Pinned on purpose: a change here makes every stored result a stranger to its own benchmark.
    with_weights(tmp_path)
    (tmp_path / "ids.npy").write_bytes(b"ids")
    (tmp_path / "train.py").write_bytes(b"print(1)\n")
    assert digest(tmp_path, {"model": "m.onnx"}) == "c85cfbc1e3b23182"
    assert digest(tmp_path, {"model": "m.onnx"}, workload={"inputs": {"x": {"file": "ids.npy"}}}) == "f10968f114a86aa5"
    assert digest(tmp_path, {"command": "python train.py --lr 1"}) == "0d1404b0dd4de596"
    assert digest(tmp_path, {"command": "python missing.py"}) == "b2f093ea6dbf1375"


def test_every_file_is_listed_with_those_beside_it(tmp_path):
    with_weights(tmp_path, location="data/w.bin")
    (tmp_path / "ids.npy").write_bytes(b"ids")
    definition = Definition.model_validate_json(
        json.dumps({"target": {"model": "m.onnx"}, "workload": {"inputs": {"x": {"file": "ids.npy"}}}})
    )
    found = files_of(definition, tmp_path)
    assert {text: [part.name for part in parts] for text, parts in found.items()} == {
        "ids.npy": ["ids.npy"],
        "m.onnx": ["m.onnx", "data/w.bin"],
    }
    model, weights = found["m.onnx"]
    assert weights.path == tmp_path / "data" / "w.bin"
    assert weights.size_bytes == 64 * 64 * 4
    assert model.sha256 == hashlib.sha256((tmp_path / "m.onnx").read_bytes()).hexdigest()


def test_a_server_without_the_files_comes_to_the_same_fingerprint(tmp_path):
    with_weights(tmp_path)
    definition = Definition.model_validate_json(json.dumps({"target": {"model": "m.onnx"}}))
    parts = [JobFile(one.name, one.sha256, one.size_bytes) for one in files_of(definition, tmp_path)["m.onnx"]]
    assert len(parts) == 2
    assert fingerprint_of(parts) == fingerprints(definition, tmp_path)["m.onnx"]
    assert fingerprint_of(parts[:1]) == parts[0].sha256


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ids.npy").write_bytes(b"ids")
    assert set(of(tmp_path, {"model": "m.onnx"}, workload={"inputs": {"x": {"file": "~/ids.npy"}}})) == {"~/ids.npy"}
    assert of(tmp_path, {"model": "~nobody-of-this-name/m.onnx"}) == {}
