"""From a name to a local file: paths, built-in names, and what is neither."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from assay.errors import MeasureError, UsageError
from assay.run.models import builtin_models, resolve
from assay.run.models.sources import _LIGHT, BUILTIN_NAMES, _folder, build, materialise, with_dynamic_batch
from assay.spec.target import ModelTarget


@pytest.fixture
def found(tmp_path):
    def run(model, **target):
        return resolve(ModelTarget(model=model, **target), tmp_path, cache=tmp_path / "cache")

    return run


def test_path_relative_to_the_benchmark_file(tiny, found):
    path = tiny()
    local = found("tiny.onnx")
    assert local.path == path
    assert local.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == local.file_sha256
    assert local.size_bytes == path.stat().st_size
    assert local.source == str(path)
    assert found(str(path)).sha256 == local.sha256


def test_own_files_are_never_touched(tiny, found):
    path = tiny()
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    with pytest.raises(MeasureError, match=r"target\.sha256 is 0000"):
        found("tiny.onnx", sha256="0" * 64)
    found("tiny.onnx")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_external_weights_are_part_of_the_digest(tiny, found):
    path = tiny(save_as_external_data=True, location="w.bin", size_threshold=0)
    weights = path.parent / "w.bin"
    local = found("tiny.onnx", sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    lines = "".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in (path, weights))
    assert local.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert local.external == ("w.bin",)
    assert local.size_bytes == path.stat().st_size + weights.stat().st_size
    assert found("tiny.onnx", sha256=local.sha256) == local  # the digest that a result shows is accepted too
    weights.write_bytes(weights.read_bytes()[::-1])
    assert found("tiny.onnx").sha256 != local.sha256


def test_missing_external_weights_are_named(tiny, found):
    path = tiny(save_as_external_data=True, location="w.bin", size_threshold=0)
    (path.parent / "w.bin").unlink()
    with pytest.raises(MeasureError, match=r"keeps weights in w\.bin"):
        found("tiny.onnx")


def test_weights_beside_a_link(tiny, found, tmp_path):
    """Hugging Face's cache holds links to blobs; what belongs together lies beside the link."""
    path = tiny(save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "blobs").mkdir()
    blob = path.rename(tmp_path / "blobs" / "abc")
    path.symlink_to(blob)
    assert found("tiny.onnx").path == path


@pytest.fixture
def secret(tmp_path, opened_files):
    """A file of the user that is none of the model's; it must never be opened."""
    path = tmp_path / "secret" / "id_rsa"
    path.parent.mkdir()
    path.write_bytes(b"a key")
    opened_files.clear()
    yield path
    assert str(path) not in opened_files


def naming(folder, location):
    """A model whose weights are said to lie in some file."""
    from onnx import TensorProto, helper, save

    folder.mkdir(exist_ok=True)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [x], [tensor])
    save(helper.make_model(graph), folder / "m.onnx")


@pytest.mark.parametrize("location", ["../secret/id_rsa", "{secret}", "sub/../../secret/id_rsa"])
def test_weights_outside_the_folder_are_refused_before_they_are_read(tmp_path, found, secret, location):
    naming(tmp_path / "model", location.format(secret=secret))
    with pytest.raises(MeasureError, match="outside its own folder") as caught:
        found("model/m.onnx")
    assert (caught.value.problem.code, caught.value.problem.at) == ("model-outside", "target.model")


@pytest.mark.parametrize("link", ["w.bin", "sub"])
def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path, found, secret, link):
    naming(tmp_path / "model", "w.bin" if link == "w.bin" else "sub/id_rsa")
    (tmp_path / "model" / link).symlink_to(secret if link == "w.bin" else secret.parent)
    with pytest.raises(MeasureError, match="is a link to"):
        found("model/m.onnx")


def test_the_fingerprint_of_a_plan_opens_nothing_outside_the_folder(tmp_path, secret):
    from assay.run.inputs import fingerprints
    from assay.spec.benchmark import Definition

    naming(tmp_path / "model", "../secret/id_rsa")
    with pytest.raises(MeasureError, match="outside its own folder"):
        fingerprints(Definition.model_validate({"target": {"model": "model/m.onnx"}}), tmp_path)


def test_weights_that_are_links_beside_a_linked_model_are_found(tiny, found, tmp_path):
    """In Hugging Face's cache the model and its weights are links into one folder of blobs."""
    path = tiny(save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "blobs").mkdir()
    for name in ("tiny.onnx", "w.bin"):
        blob = (tmp_path / name).rename(tmp_path / "blobs" / name.replace(".", ""))
        (tmp_path / name).symlink_to(blob)
    assert found("tiny.onnx").path == path


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tinny.onnx", "did you mean tiny.onnx?"),
        ("squeezenett", "built-in model squeezenet"),
        ("nowhere/x.onnx", "does not exist either"),
        ("zzz", "in that folder: tiny.onnx"),
    ],
)
def test_missing_path_hints_at_the_nearest(tiny, found, name, hint):
    tiny()
    with pytest.raises(MeasureError) as caught:
        found(name)
    assert caught.value.problem.code == "model"
    assert hint in caught.value.problem.try_


def test_a_missing_file_is_called_so_and_a_common_ending_makes_no_names_alike(found, tmp_path):
    (tmp_path / "junk.onnx").write_bytes(b"x")
    with pytest.raises(MeasureError, match=r"the model file .*/gone.onnx does not exist") as caught:
        found("gone.onnx")
    assert caught.value.problem.try_.startswith("in that folder: junk.onnx")


def test_an_empty_file_is_no_model(found, tmp_path):
    (tmp_path / "empty.onnx").touch()
    with pytest.raises(MeasureError, match=r"the model file .*/empty.onnx is empty"):
        found("empty.onnx")


def test_folder_is_no_model(tiny, found, tmp_path):
    tiny()
    with pytest.raises(MeasureError) as caught:
        found(str(tmp_path))
    assert "tiny.onnx" in caught.value.problem.try_


@pytest.mark.parametrize("url", ["file:///etc/passwd", "s3://bucket/model.onnx", "ftp://host/x"])
def test_other_schemes_are_refused(found, url):
    with pytest.raises(UsageError, match="is not supported"):
        found(url)


def test_built_in_name(found, tmp_path):
    pytest.importorskip("onnx")
    local = found("squeezenet")
    assert local.source == "builtin:squeezenet"
    assert Path(tmp_path / "cache") in local.path.parents


onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(content: bytes):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def original(name: str) -> bytes:
    return (_folder() / f"light_{_LIGHT[name][0]}.onnx").read_bytes()


def images(count: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((count, 3, 224, 224)).astype(np.float32)


def run(made, array):
    return made.run(None, {made.get_inputs()[0].name: array})


def opened_up(content: bytes, every: int) -> bytes:
    """The model with some inner activations as outputs: the light weights make the last one constant."""
    model = onnx.load_from_string(content)
    graph = model.graph
    reached, inner = {one.name for one in graph.input}, []
    for node in graph.node:
        if reached & set(node.input):
            reached |= set(node.output)
            inner.append(node.output[0])
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in inner[::every])
    return model.SerializeToString()


def test_listing():
    models = {one.name: one for one in builtin_models()}
    assert set(models) == set(BUILTIN_NAMES)
    assert models["squeezenet"].nodes == 66
    assert models["squeezenet"].batch == "dynamic"
    assert all(one.file_bytes > 0 and one.title for one in models.values())


@pytest.mark.parametrize("name", BUILTIN_NAMES)
def test_batch_one_answers_like_the_original_and_its_reference(name):
    image = images(1)
    ours = run(session(build(name)), image)[0]
    theirs = run(session(original(name)), image)[0]
    assert np.allclose(ours, theirs, rtol=1e-5)
    tensor = onnx.TensorProto()
    tensor.ParseFromString((_folder() / f"light_{_LIGHT[name][0]}_output_0.pb").read_bytes())
    # The weights are constant, so the shipped answer hardly depends on the picture.
    assert np.allclose(ours, numpy_helper.to_array(tensor), rtol=1e-2)


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50"])
def test_rows_of_a_batch_equal_single_calls(name):
    made = session(opened_up(build(name), every=7))
    batch = images(8)
    whole = run(made, batch)
    for row in range(8):
        single = run(made, batch[row : row + 1])
        assert all(np.allclose(part[row], one[0], rtol=1e-3) for part, one in zip(whole, single, strict=True))
    assert any(not np.allclose(part[0], part[1], rtol=1e-3) for part in whole)  # the rows do differ


@pytest.mark.parametrize("name", [name for name in BUILTIN_NAMES if name not in ("vgg19", "squeezenet")])
def test_every_network_takes_another_batch(name):
    made = session(build(name))
    assert [one.shape[0] for one in (*made.get_inputs(), *made.get_outputs())] == ["batch", "batch"]
    assert run(made, images(2))[0].shape[0] == 2


def test_same_bytes_in_every_process():
    code = (
        "from assay.run.models.sources import *; import hashlib as h; print(h.sha256(build('shufflenet')).hexdigest())"
    )
    digests = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_materialised_once_and_repaired(tmp_path):
    path = materialise("squeezenet", tmp_path)
    stamp = path.stat().st_mtime_ns
    assert materialise("squeezenet", tmp_path).stat().st_mtime_ns == stamp
    path.write_bytes(b"damaged")
    assert materialise("squeezenet", tmp_path).read_bytes() == build("squeezenet")
    assert [one.name for one in path.parent.iterdir()] == ["squeezenet.onnx"]


def test_model_of_another_shape_is_refused():
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [4, 2])],
        [helper.make_tensor_value_info("y", 1, [4, 2])],
    )
    with pytest.raises(ValueError, match="not with a batch of 1"):
        with_dynamic_batch(helper.make_model(graph))
