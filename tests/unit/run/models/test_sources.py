"""From a name to a local file: paths, built-in names, and what is neither."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from assay.errors import MeasureError, UsageError
from assay.run.models import resolve
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
