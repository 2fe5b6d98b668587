"""Built-in models: same bytes each time, same answers as the originals, any batch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper  # noqa: E402

from assay.run.models import builtin_models  # noqa: E402
from assay.run.models.builtin import (  # noqa: E402
    _LIGHT,
    BUILTIN_NAMES,
    _folder,
    build,
    materialise,
    with_dynamic_batch,
)


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
        "from assay.run.models.builtin import *; import hashlib as h; print(h.sha256(build('shufflenet')).hexdigest())"
    )
    digests = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_materialised_once_and_mended(tmp_path):
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
