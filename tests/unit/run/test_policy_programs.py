"""What a job may do where it runs: decided by what would be loaded, not only by what the document says."""

import json

import pytest

from assay.errors import MeasureError
from assay.run.onnx_devices import OnnxPlacement
from assay.run.policy import JOB_ALLOW
from assay.run.targets.onnx.session import refuse_compiled
from assay.run.targets.torch.programs import open_program
from assay.run.targets.transformers.model import refuse_kernels
from assay.spec.target import ModelTarget


def test_a_torch_program_is_not_loaded_where_no_commands_are_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv(JOB_ALLOW, "")
    with pytest.raises(MeasureError, match="a PyTorch program") as caught:
        open_program(tmp_path / "m.pt", "TorchScript", None)
    assert caught.value.problem.code == "not-allowed"
    assert "--allow command" in caught.value.problem.try_


@pytest.mark.parametrize("word", ["attn_implementation", "experts_implementation", "_attn_implementation"])
def test_a_config_that_names_a_kernel_of_another_is_remote_code(tmp_path, word):
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {word: "somebody/kernel"}}))
    with pytest.raises(MeasureError, match="somebody/kernel") as caught:
        refuse_kernels(tmp_path, ModelTarget(model="m", runtime="transformers"))
    assert caught.value.problem.at == "target.remote_code"
    refuse_kernels(tmp_path, ModelTarget(model="m", runtime="transformers", remote_code=True))


def test_a_config_with_an_attention_of_the_library_is_plain(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"attn_implementation": "sdpa", "_name_or_path": "a/b"}))
    refuse_kernels(tmp_path, ModelTarget(model="m", runtime="transformers"))


def test_a_kernel_of_another_under_session_options_is_remote_code(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    target = ModelTarget(model="m", runtime="transformers", session_options={"attn_implementation": "a/b:fn"})
    with pytest.raises(MeasureError, match="a/b:fn"):
        refuse_kernels(tmp_path, target)


def test_an_onnx_file_with_a_compiled_engine_inside_is_a_program(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", embed_mode=1, ep_cache_context=b"engine")
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([node], "g", sides[:1], sides[1:])
    path = tmp_path / "engine.onnx"
    onnx.save(helper.make_model(graph), path)
    there = OnnxPlacement("tensorrt", "TensorrtExecutionProvider", ())
    refuse_compiled(path, there)  # a machine of one's own
    monkeypatch.setenv(JOB_ALLOW, "")
    with pytest.raises(MeasureError, match=r"engine\.onnx holds machine code") as caught:
        refuse_compiled(path, there)
    assert caught.value.problem.code == "not-allowed"
    refuse_compiled(path, OnnxPlacement("cpu", "CPUExecutionProvider", ()))  # loads none
    monkeypatch.setenv(JOB_ALLOW, "command")
    refuse_compiled(path, there)
