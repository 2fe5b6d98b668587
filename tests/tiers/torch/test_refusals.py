"""What a language model may not do here: pickles, code beside the weights, keys without effect, other devices."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from assay.errors import AssayError
from assay.run.models import resolve
from assay.run.torch_devices import TorchPlacement, available_devices, installed, prove
from assay.spec.target import ModelTarget


@pytest.fixture
def copy(llama, tmp_path):
    """A copy of the model that a test may spoil."""
    return shutil.copytree(llama, tmp_path / "copy")


def refusal(measured, *arguments, **more):
    with pytest.raises(AssayError) as caught:
        measured(*arguments, **more)
    return caught.value.problem


def test_code_beside_the_weights_does_not_run_unless_asked(measured, copy, tmp_path):
    mark = tmp_path / "mark"
    (copy / "own.py").write_text(
        f"open({str(mark)!r}, 'w')\nfrom transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    config = json.loads((copy / "config.json").read_text())
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": auto}))
    problem = refusal(measured, copy, {"output_tokens": 2})
    assert (problem.code, problem.at) == ("model", "target.remote_code")
    assert not mark.exists()


def test_a_folder_without_tokenizer(measured, copy):
    for file in copy.glob("*token*"):
        file.unlink()
    assert "token" in refusal(measured, copy, {"output_tokens": 2}).message


@pytest.mark.parametrize("dtype", ["int4", "float7"])
def test_a_number_type_that_is_none(measured, llama, dtype):
    problem = refusal(measured, llama, dtype=dtype)
    assert problem.at == "target.dtype"
    assert "bfloat16" in problem.try_


def test_a_device_that_is_not_here(measured, llama):
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    problem = refusal(measured, llama, device="cuda")
    assert (problem.code, problem.at) == ("device", "target.device")


def test_a_prompt_that_does_not_fit_is_found_before_the_load(measured, llama):
    problem = refusal(measured, llama, {"output_tokens": 20_000})
    assert "more than the 16384 that the model can hold" in problem.message


def test_broken_weights(measured, copy):
    (copy / "model.safetensors").write_bytes(b"nothing")
    problem = refusal(measured, copy, {"output_tokens": 2})
    assert problem.code == "model"
    assert "cannot be loaded" in problem.message


def test_a_file_is_no_folder(measured, llama):
    assert refusal(measured, llama / "model.safetensors").code == "model"


@pytest.mark.parametrize(
    ("more", "at"),
    [
        ({"optimization": "basic"}, "target.optimization"),
        ({"provider_options": {"a": "b"}}, "target.provider_options"),
        ({"session_options": {"compile": "yes"}}, "target.session_options.compile"),
        ({"load": {"scenario": "multi-stream"}}, "load"),
    ],
)
def test_keys_that_would_do_nothing_are_refused(measured, llama, more, at):
    assert refusal(measured, llama, **more).at == at


def test_an_encoder_and_decoder_is_refused(measured, tokenizer, tmp_path):
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=2, vocab_size=512)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    assert "an encoder and a decoder" in refusal(measured, tmp_path / "t5").message


def test_a_model_that_says_it_is_another_has_no_memory_to_step(measured, tokenizer, tmp_path):
    from transformers import BertConfig, BertLMHeadModel

    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=512,
        is_decoder=False,
    )
    BertLMHeadModel(config).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    assert "step by step" in refusal(measured, tmp_path / "bert", {"output_tokens": 2}).message


def test_one_tensor_elsewhere_is_no_proof():
    here, there = torch.ones(1), torch.ones(1, device="meta")
    asked = TorchPlacement("cpu", "cpu")
    assert prove(asked, [here, here], [here], "now").honoured
    for weights, outputs in (([here, there], [here]), ([here], [there])):
        proof = prove(asked, weights, outputs, "now")
        assert not proof.honoured
        assert proof.used == "meta"
    assert not prove(asked, [], [], "now").honoured
    assert not prove(TorchPlacement("cuda", "cuda:0"), [here], [here], "now").honoured


def test_what_this_machine_offers_is_reported_without_importing_pytorch():
    assert installed("torch") == torch.__version__
    devices = available_devices()
    assert devices["cpu"] == f"torch {torch.__version__}"
    assert ("cuda" in devices) == torch.cuda.is_available()


def test_a_hub_name_in_the_local_cache(llama, tmp_path, monkeypatch):
    import huggingface_hub

    cache = tmp_path / "hub"
    snapshot = cache / "models--some--model" / "snapshots" / ("a" * 40)
    shutil.copytree(llama, snapshot)
    (cache / "models--some--model" / "refs").mkdir()
    (cache / "models--some--model" / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    target = ModelTarget(model="some/model", runtime="transformers")
    found = resolve(target, tmp_path, cache=tmp_path)
    assert found.path == snapshot
    assert found.source == f"hub:some/model@{'a' * 40}"
    assert "local cache" in found.note


def test_a_hub_name_that_is_not_here_and_may_not_be_fetched(tmp_path):
    with pytest.raises(AssayError) as caught:
        resolve(ModelTarget(model="some/other", runtime="transformers"), tmp_path, cache=tmp_path)
    assert caught.value.problem.code == "model"
    assert "some/other" in caught.value.problem.message
