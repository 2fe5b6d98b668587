"""Without the optional packages: an error that says what to install."""

from __future__ import annotations

import sys

import pytest

from assay.errors import MeasureError
from assay.run.models.sources import build, builtin_models
from assay.run.targets.onnx import OnnxModel, available_devices
from assay.run.tensors.values import ELEMENT_TYPES, read_file


@pytest.fixture
def without(monkeypatch):
    return lambda package: monkeypatch.setitem(sys.modules, package, None)


def told_to_install(call):
    with pytest.raises(MeasureError) as caught:
        call()
    return "assay-bench[onnx]" in caught.value.problem.try_


def test_onnxruntime(without, order, tmp_path):
    without("onnxruntime")
    assert told_to_install(lambda: OnnxModel(order(tmp_path / "x.onnx")))
    assert available_devices() == {}


def test_onnx(without, tmp_path):
    (tmp_path / "x.pb").write_bytes(b"")
    without("onnx")
    assert told_to_install(lambda: read_file("x", ELEMENT_TYPES["float"], "x.pb", tmp_path))


def test_onnx_for_built_in_models(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert builtin_models() == ()
    assert told_to_install(lambda: build("squeezenet"))


def test_ml_dtypes(without):
    without("ml_dtypes")
    assert told_to_install(lambda: ELEMENT_TYPES["bfloat16"].dtype)
