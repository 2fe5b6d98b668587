"""The ONNX target as a whole: signature, device, settings, errors."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

from assay.errors import MeasureError, UsageError
from assay.run.targets.onnx import OnnxModel, available_devices


@pytest.fixture
def bert(save):
    """Three inputs, int64 and float16, with dynamic shapes and a table of 50 rows."""
    return save(
        [
            ("Cast", ["ids"], ["wide"], {"to": T.INT64}),
            ("Gather", ["table", "wide"], ["rows"], {}),
            ("Mul", ["rows", "scale"], ["scaled"], {}),
            ("Cast", ["attention_mask"], ["mask"], {"to": T.FLOAT16}),
            ("Unsqueeze", ["mask", "last"], ["mask3"], {}),
            ("Mul", ["scaled", "mask3"], ["y"], {}),
        ],
        [
            ("ids", T.INT64, ["batch", "sequence"]),
            ("attention_mask", T.INT64, ["batch", "sequence"]),
            ("scale", T.FLOAT16, ["batch", "sequence", 4]),
        ],
        [("y", T.FLOAT16, ["batch", "sequence", 4]), ("scaled", T.FLOAT16, ["batch", "sequence", 4])],
        {"table": np.random.default_rng(1).random((50, 4)).astype(np.float16), "last": np.array([2])},
    )


@pytest.fixture
def square(save):
    """One float input of dynamic batch."""
    return save(
        [("MatMul", ["x", "w"], ["h"], {}), ("Relu", ["h"], ["y"], {})],
        [("x", T.FLOAT, ["N", 8])],
        [("y", T.FLOAT, ["N", 8])],
        {"w": np.eye(8, dtype=np.float32)},
        opset=20,
    )


def test_several_inputs_of_several_types_are_fed_by_the_signature(bert, ran):
    result, proof, facts = ran(bert, {"batch": 3, "dims": {"sequence": 7}})
    assert [array.shape for array in result] == [(3, 7, 4), (3, 7, 4)]
    assert [array.dtype for array in result] == [np.float16, np.float16]
    assert [(one["name"], one["dtype"], one["shape"]) for one in facts["inputs"]] == [
        ("ids", "int64", [3, 7]),
        ("attention_mask", "int64", [3, 7]),
        ("scale", "float16", [3, 7, 4]),
    ]
    assert "table of 50 rows" in facts["inputs"][0]["values"]
    assert "mask" in facts["inputs"][1]["values"]
    assert facts["dims"] == {
        "batch": {"size": 3, "from": "workload.batch"},
        "sequence": {"size": 7, "from": "workload.dims.sequence"},
    }
    assert proof.honoured
    assert proof.used == "cpu"
    assert sum(proof.nodes.values()) > 0
    assert json.dumps(facts)  # facts are JSON


def test_defaults_are_taken_by_name_and_recorded(bert, ran):
    _, _, facts = ran(bert)
    assert facts["dims"]["sequence"] == {"size": 128, "from": "default for such a name"}


def test_same_seed_same_inputs_and_outputs(bert, ran):
    def digests(seed):
        facts = ran(bert, {"seed": seed})[2]
        return [one["sha256"] for one in facts["inputs"] + facts["outputs"]]

    assert digests(1) == digests(1)
    assert digests(1) != digests(2)


def test_output_digest_is_of_the_output_bytes(square, ran):
    import hashlib

    result, _, facts = ran(square, {"batch": 2})
    assert facts["outputs"][0]["sha256"] == hashlib.sha256(result[0].tobytes()).hexdigest()


def test_settings_are_set_and_read_back(square, ran):
    _, _, facts = ran(
        square,
        threads=2,
        inter_threads=3,
        execution="parallel",
        optimization="basic",
        session_options={"session.intra_op.allow_spinning": "0", "enable_mem_pattern": "false"},
    )
    assert facts["threads"] == 2
    assert facts["inter_threads"] == 3
    assert facts["execution"] == "parallel"
    assert facts["optimization"] == "basic"
    assert facts["session_options"] == {"session.intra_op.allow_spinning": "0", "enable_mem_pattern": "False"}
    assert facts["threads_started"] >= 1
    assert facts["runtime_version"].count(".") == 2
    assert facts["model"]["sha256"] == "ab" * 32
    assert facts["model"]["opset"] == 20
    assert facts["model"]["producer"] == "assay-tests"
    assert facts["model"]["size_bytes"] == square.stat().st_size


def test_runtime_decides_threads_when_not_given(square, ran):
    assert ran(square)[2]["threads"] is None


def test_one_thread_starts_none(square, ran):
    assert ran(square, threads=1)[2]["threads_started"] == 0


def test_plain_models_are_called_without_anything_between(square, order):
    model = OnnxModel(order(square))
    model.load()
    call = model.call()
    assert isinstance(call, functools.partial)
    assert call.func == model._session.run
    assert model.items_per_call == 1


def test_load_makes_no_inference_and_inputs_come_after(square, order, monkeypatch):
    import onnxruntime

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", lambda *_: pytest.fail("load ran the model"))
    OnnxModel(order(square)).load()


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "tensorrt", "directml", "openvino", "coreml-gpu", "GPU (ONNX)"])
def test_device_that_is_not_here_fails_before_anything(square, order, device):
    if device.partition(":")[0] in available_devices():
        pytest.skip("this machine has it")
    with pytest.raises(MeasureError) as caught:
        OnnxModel(order(square, device=device))
    problem = caught.value.problem
    assert problem.code == "device"
    assert "CPUExecutionProvider" in problem.message
    assert "pip install" in problem.try_


def test_available_devices_names_the_cpu():
    assert available_devices()["cpu"] == "CPUExecutionProvider"


def test_provider_that_does_not_start_fails(square, order, monkeypatch):
    """ONNX Runtime drops a provider whose libraries are missing, with a log line only."""
    import onnxruntime

    listed = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: listed)
    model = OnnxModel(order(square, device="cuda"))
    with pytest.raises(MeasureError) as caught, pytest.warns(UserWarning, match="not in available"):
        model.load()
    assert caught.value.problem.code == "device"


def test_option_that_the_provider_ignores_is_refused(square, order):
    model = OnnxModel(order(square, provider_options={"arena": "1"}))
    with pytest.raises(UsageError, match="arena"):
        model.load()


def test_unknown_session_option_names_the_nearest(square, order):
    with pytest.raises(UsageError, match="enable_mem_pattern"):
        OnnxModel(order(square, session_options={"enable_mem_patern": "0"}))


def test_corrupt_model_says_why_in_one_line(tmp_path, order):
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"\x08\x07garbage" * 30)
    with pytest.raises(MeasureError) as caught:
        OnnxModel(order(path)).load()
    assert caught.value.problem.code == "model"
    assert "Protobuf parsing failed" in caught.value.problem.message
    assert "\n" not in caught.value.problem.message


@pytest.mark.parametrize("cut", [0, 10, 60])
def test_truncated_model_is_an_error(square, order, cut):
    square.write_bytes(square.read_bytes()[:cut])
    with pytest.raises(MeasureError) as caught:
        OnnxModel(order(square)).load()
    assert caught.value.problem.code == "model"


def test_missing_model_file(tmp_path, order):
    with pytest.raises(MeasureError, match="does not exist"):
        OnnxModel(order(tmp_path / "none.onnx")).load()


@pytest.fixture
def external(save):
    weights = {"w": np.arange(64, dtype=np.float32).reshape(8, 8)}
    return save(
        [("MatMul", ["x", "w"], ["y"], {})],
        [("x", T.FLOAT, ["batch", 8])],
        [("y", T.FLOAT, ["batch", 8])],
        weights,
        opset=20,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )


def test_external_weights_are_loaded(external, ran):
    result, _, facts = ran(external, {"batch": 2, "inputs": {"x": {"value": 1.0}}})
    assert np.array_equal(result[0][0], np.arange(64, dtype=np.float32).reshape(8, 8).sum(0))
    assert facts["model"]["external_files"] == ["weights.bin"]


def test_missing_external_file_is_named(external, order):
    (external.parent / "weights.bin").unlink()
    with pytest.raises(MeasureError) as caught:
        OnnxModel(order(external)).load()
    assert caught.value.problem.code == "model"
    assert "weights.bin" in caught.value.problem.message


def test_optional_input_is_left_out_or_fed(save, ran):
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(T.FLOAT, [2]))
    path = save(
        [("OptionalHasElement", ["x"], ["y"], {})], [helper.make_value_info("x", kind)], [("y", T.BOOL, [])], opset=20
    )
    result, _, facts = ran(path)
    assert not result[0]
    assert "left out" in facts["inputs"][0]["values"]
    assert ran(path, {"inputs": {"x": {"value": [1.0, 2.0]}}})[0][0]


def test_sequence_input_is_refused_by_name(save, order):
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.FLOAT, [2]))
    path = save(
        [("SequenceLength", ["many"], ["y"], {})],
        [helper.make_value_info("many", kind)],
        [("y", T.INT64, [])],
        opset=20,
    )
    model = OnnxModel(order(path))
    model.load()
    with pytest.raises(MeasureError, match=r"'many' is seq\(tensor\(float\)\)"):
        model.call()


def test_sequence_output_is_counted(save, ran):
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.FLOAT, [None]))
    path = save(
        [("SequenceConstruct", ["x", "x"], ["many"], {})],
        [("x", T.FLOAT, [2])],
        [helper.make_value_info("many", kind)],
        opset=20,
    )
    assert ran(path)[2]["outputs"][0]["items"] == 2


def test_input_without_rank_needs_a_shape(save, order, ran):
    path = save([("Identity", ["x"], ["y"], {})], [("x", T.FLOAT, None)], [("y", T.FLOAT, None)], opset=20)
    model = OnnxModel(order(path))
    model.load()
    with pytest.raises(UsageError, match="no shape for input 'x'"):
        model.call()
    assert ran(path, {"inputs": {"x": {"shape": [2, 5]}}})[0][0].shape == (2, 5)


def test_scalar_input_and_model_without_inputs(save, ran):
    scalar = save([("Neg", ["x"], ["y"], {})], [("x", T.FLOAT, [])], [("y", T.FLOAT, [])], opset=20)
    assert ran(scalar)[0][0].shape == ()
    constant = save([("Constant", [], ["y"], {"value_float": 2.0})], [], [("y", T.FLOAT, [])], opset=20, name="c.onnx")
    result, proof, _ = ran(constant)
    assert result[0] == 2.0
    assert proof.honoured


def test_own_values_from_files(bert, ran, tmp_path):
    from onnx import numpy_helper

    ids = np.arange(10).reshape(2, 5)
    mask = np.zeros((2, 5), np.int64)
    scale = np.full((2, 5, 4), 2, np.float16)
    np.save(tmp_path / "ids.npy", ids)
    np.savez(tmp_path / "all.npz", attention_mask=mask)
    (tmp_path / "scale.pb").write_bytes(numpy_helper.from_array(scale).SerializeToString())
    files = {"ids": {"file": "ids.npy"}, "attention_mask": {"file": "all.npz"}, "scale": {"file": "scale.pb"}}
    result, _, facts = ran(bert, {"batch": 2, "inputs": files})
    assert not result[0].any()
    assert result[1].shape == (2, 5, 4)
    assert facts["dims"]["sequence"] == {"size": 5, "from": "workload.inputs.ids.file"}
    assert facts["inputs"][0]["values"] == "workload.inputs.ids.file"


def test_failing_call_names_the_dimensions(save, order):
    """Shapes that the graph refuses come back as our error, with the sizes that were chosen."""
    from assay.run.targets.onnx import measure

    path = save(
        [("MatMul", ["a", "b"], ["y"], {})],
        [("a", T.FLOAT, ["rows", "inner"]), ("b", T.FLOAT, ["depth", "cols"])],
        [("y", T.FLOAT, None)],
        opset=20,
    )
    with pytest.raises(MeasureError) as caught:
        measure(order(path, {"dims": {"inner": 3, "depth": 4}}), Silent(), None)
    assert caught.value.problem.code == "model"
    assert "inner" in caught.value.problem.message


class Silent:
    """A stage that tells nobody."""

    def phase(self, name):
        import contextlib

        return contextlib.nullcontext()

    def progress(self, share, note=""):
        pass


def test_measure_goes_through_all_phases(square, order):
    from assay.run.contract import Rules
    from assay.run.targets.onnx import measure

    asked = order(square, {"batch": 2})
    found = measure(asked, Silent(), Rules(steady=lambda _: True, enough=lambda *_: True))
    assert found.device is not None
    assert found.device.honoured
    assert found.metrics["load_ms"] > 0
    assert found.facts["dims"]["N"] == {"size": 2, "from": "workload.batch"}
    assert any(one.metric == "latency_ms" and one.phase == "measure" for one in found.samples)


def test_proof_by_profile_agrees_and_leaves_no_file(square, order):
    model = OnnxModel(order(square))
    model.load()
    model.call()
    assignment = model._profiled()
    assert set(assignment.nodes) == {"CPUExecutionProvider"}
    assert not list(Path(model._order.scratch).iterdir())


@pytest.mark.live
def test_call_costs_no_more_than_a_bare_loop(square, order):
    """The unit of work is `session.run` itself; interleaved medians must agree."""
    import onnxruntime

    model = OnnxModel(order(square, threads=1))
    model.load()
    ours = model.call()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(square), options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)}

    def bare():
        return session.run(None, feeds)

    times = {ours: [], bare: []}
    for _ in range(60):
        for call in times:
            start = time.perf_counter_ns()
            for _ in range(200):
                call()
            times[call].append(time.perf_counter_ns() - start)
    assert min(times[ours]) <= 1.05 * min(times[bare])
