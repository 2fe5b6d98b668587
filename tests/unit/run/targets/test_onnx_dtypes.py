"""Every element type: fed with known values, read back as what was fed."""

from __future__ import annotations

import hashlib

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto as T

from assay.errors import MeasureError
from assay.run.targets.onnx import OnnxModel
from assay.run.tensors.values import ELEMENT_TYPES, as_bytes_array, tensor_type

IDENTITY = [
    "float", "double", "float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "string",
]  # fmt: skip
# ONNX Runtime 1.31 has no Identity for these, but a Cast.
CAST = ["int4", "uint4", "int2", "uint2", "float8e8m0"]
# It has no operator at all for this one; a graph without operators shows that it can be fed.
PASSED_THROUGH = ["float4e2m1"]


def test_the_lists_cover_every_type():
    assert set(IDENTITY + CAST + PASSED_THROUGH) == set(ELEMENT_TYPES)
    named = {T.DataType.Name(element.code).lower(): name for name, element in ELEMENT_TYPES.items()}
    assert named == {name: name for name in ELEMENT_TYPES}


@pytest.mark.parametrize("name", IDENTITY)
def test_identity(name, save, ran):
    element = ELEMENT_TYPES[name]
    path = save(
        [("Identity", ["x"], ["y"], {})], [("x", element.code, ["batch", 3])], [("y", element.code, ["batch", 3])]
    )
    result, proof, facts = ran(path, {"batch": 2})
    fed, got = facts["inputs"][0], facts["outputs"][0]
    assert (fed["dtype"], fed["shape"]) == (element.numpy, [2, 3])
    assert (got["dtype"], got["shape"], got["sha256"]) == (fed["dtype"], fed["shape"], fed["sha256"])
    assert facts["call"] == ("session.run" if element.plain else "session.run_with_ort_values")
    assert proof.honoured
    assert len(result) == 1


@pytest.mark.parametrize("name", [*CAST, *(name for name in IDENTITY if name != "string")])
def test_cast_reads_the_values_that_were_meant(name, save, ran):
    element = ELEMENT_TYPES[name]
    path = save([("Cast", ["x"], ["y"], {"to": T.FLOAT})], [("x", element.code, ["batch", 3])], [("y", T.FLOAT, None)])
    value = True if element.kind == "bool" else 1
    result, _, _ = ran(path, {"batch": 3, "inputs": {"x": {"value": value}}})
    assert np.array_equal(np.asarray(_numpy(result[0])), np.ones((3, 3), np.float32))


@pytest.mark.parametrize(("name", "values"), [("int4", [[-8, 7, 3], [0, -1, 2]]), ("int2", [[-2, 1, 0], [-1, 1, 1]])])
def test_packed_types_keep_their_order(name, values, save, ran):
    path = save(
        [("Cast", ["x"], ["y"], {"to": T.FLOAT})],
        [("x", ELEMENT_TYPES[name].code, ["batch", 3])],
        [("y", T.FLOAT, None)],
    )
    result, _, _ = ran(path, {"batch": 2, "inputs": {"x": {"value": values}}})
    assert _numpy(result[0]).tolist() == values


@pytest.mark.parametrize("name", PASSED_THROUGH)
def test_type_without_operators_can_be_fed(name, save, ran):
    element = ELEMENT_TYPES[name]
    path = save([], [("x", element.code, ["batch", 4])], [("x", element.code, ["batch", 4])])
    result, _, facts = ran(path, {"batch": 2})
    assert result[0].tensor_size_in_bytes() == 4
    assert facts["outputs"][0]["dtype"] == "float4_e2m1fn"


@pytest.mark.parametrize("code", [T.COMPLEX64, T.COMPLEX128])
def test_complex_is_refused_by_the_runtime_and_we_say_so(code, save, order):
    """ONNX Runtime registers no complex tensors, so the model cannot even be loaded."""
    path = save([("Identity", ["x"], ["y"], {})], [("x", code, [2])], [("y", code, [2])])
    with pytest.raises(MeasureError) as caught:
        OnnxModel(order(path)).load()
    assert caught.value.problem.code == "model"
    assert "complex" in caught.value.problem.message


def test_foreign_outputs_beside_strings(save, ran):
    """`session.run` cannot convert bfloat16, and strings cannot become OrtValues from numpy."""
    path = save(
        [("Identity", ["x"], ["y"], {}), ("Identity", ["s"], ["t"], {})],
        [("x", T.BFLOAT16, ["n"]), ("s", T.STRING, ["n"])],
        [("y", T.BFLOAT16, ["n"]), ("t", T.STRING, ["n"])],
    )
    result, _, facts = ran(path, {"batch": 2})
    assert result[1].numpy().tolist() == ["text-0", "text-1"]
    assert facts["outputs"][0]["sha256"] == facts["inputs"][0]["sha256"]
    assert facts["outputs"][1]["sha256"] == facts["inputs"][1]["sha256"]


def test_bfloat16_output_of_a_float_model(save, ran):
    path = save([("Cast", ["x"], ["y"], {"to": T.BFLOAT16})], [("x", T.FLOAT, [1, 2])], [("y", T.BFLOAT16, [1, 2])])
    _, _, facts = ran(path, {"inputs": {"x": {"value": [[1.0, 2.5]]}}})
    expected = np.array([1.0, 2.5], ml_dtypes.bfloat16).tobytes()
    assert facts["outputs"][0]["sha256"] == hashlib.sha256(expected).hexdigest()


def test_packing_odd_counts_and_scalars():
    four = ELEMENT_TYPES["uint4"]
    packed = as_bytes_array(np.array([1, 2, 3], ml_dtypes.uint4), four)
    assert packed.tolist() == [0x21, 0x03, 0]
    assert as_bytes_array(np.array(5, ml_dtypes.uint4), four).shape == ()
    assert as_bytes_array(np.zeros((0, 3), ml_dtypes.uint4), four).shape == (0, 3)


def test_declared_types():
    assert tensor_type("tensor(float)").numpy == "float32"
    assert tensor_type("optional(tensor(int64))").numpy == "int64"
    assert tensor_type("seq(tensor(float))") is None
    assert tensor_type("sparse_tensor(float)") is None
    assert tensor_type("map(int64,tensor(float))") is None


def _numpy(result):
    return result if isinstance(result, np.ndarray) else result.numpy()
