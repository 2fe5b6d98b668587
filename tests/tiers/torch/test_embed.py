"""Embedding: the vectors are those of a plain computation, pooled as the folder says."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from tests.tiers.torch.conftest import samples

from assay.errors import AssayError
from assay.run.targets.transformers.embed import Pooling, read_pooling

TEXTS = ["the quick brown fox", "ten", "a user reads what it says", "seven wizards mix jolts"]


@pytest.fixture(scope="session")
def bert(tmp_path_factory, tokenizer):
    from transformers import BertConfig, BertModel

    torch.manual_seed(5)
    folder = tmp_path_factory.mktemp("models") / "bert"
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=512,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    return "texts.jsonl"


def plain(folder, tokenizer, texts, pool):
    """One text at a time, no filling: what a batch must come to as well."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return torch.stack([pool(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]) for text in texts])


def test_the_default_is_the_mean_normalised(measured, bert, tokenizer, texts):
    result, phases = measured(bert, {"file": texts, "batch": 2}, use="embed", threads=1)
    assert phases == ["load", "first", "warmup", "measure", "score", "cleanup"]
    facts = result.facts
    assert facts["pooling"]["modes"] == ["mean_tokens"]
    assert facts["pooling"]["normalised"] is True
    assert facts["output_of_first_item"]["shape"] == [2, 32]
    assert result.device.honoured
    latency = samples(result, "latency_ms").value
    assert len(latency) == 4
    assert result.metrics["throughput_per_s"] == pytest.approx(4 * 2 / (latency.sum() / 1e3), rel=0.3)
    counts = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
    assert result.metrics["input_tokens"] == sum(counts) / 4
    assert result.metrics["input_tokens_per_s"] > 0


def test_vectors_equal_a_plain_computation(bert, tokenizer):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(bert).eval()
    tokenizer.pad_token = tokenizer.eos_token
    fed = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert fed["attention_mask"].min() == 0, "texts of one length prove nothing about filling"
    with torch.inference_mode():
        hidden = model(**fed).last_hidden_state
    pools = {
        ("mean_tokens",): lambda rows: rows.mean(0),
        ("cls_token",): lambda rows: rows[0],
        ("lasttoken",): lambda rows: rows[-1],
        ("max_tokens",): lambda rows: rows.max(0).values,
        ("mean_sqrt_len_tokens",): lambda rows: rows.sum(0) / len(rows) ** 0.5,
        ("cls_token", "mean_tokens"): lambda rows: torch.cat([rows[0], rows.mean(0)]),
    }
    for modes, pool in pools.items():
        ours = Pooling(modes, normalised=False)(hidden, fed["attention_mask"])
        assert torch.allclose(ours, plain(bert, tokenizer, TEXTS, pool), atol=1e-5), modes
    lengths = Pooling()(hidden, fed["attention_mask"]).norm(dim=-1)
    assert torch.allclose(lengths, torch.ones(4), atol=1e-6)


def test_the_digest_is_that_of_the_vectors(measured, bert, tokenizer, texts):
    result, _ = measured(bert, {"file": texts}, use="embed", threads=1)
    wanted = plain(bert, tokenizer, TEXTS[:1], lambda rows: torch.nn.functional.normalize(rows.mean(0), dim=-1))
    assert result.facts["output_of_first_item"]["sha256"] == hashlib.sha256(wanted.numpy().tobytes()).hexdigest()


def with_modules(folder, tmp_path, steps, settings):
    import shutil

    made = tmp_path / "st"
    shutil.copytree(folder, made)
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(steps)
    ]
    (made / "modules.json").write_text(json.dumps(modules))
    (made / "1_Pooling").mkdir()
    (made / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    (made / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3}))
    return made


def test_the_folder_decides_the_pooling(bert, tmp_path, measured, texts):
    steps = [("Transformer", ""), ("Pooling", "1_Pooling")]
    settings = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    folder = with_modules(bert, tmp_path, steps, settings)
    assert read_pooling(folder) == Pooling(("cls_token",), normalised=False, max_tokens=3, source="modules.json")
    result, _ = measured(folder, {"file": texts, "batch": 4}, use="embed")
    assert result.facts["texts_cut"] == 3
    assert result.metrics["input_tokens"] <= 3


def test_an_unknown_step_is_refused(bert, tmp_path):
    folder = with_modules(bert, tmp_path, [("Transformer", ""), ("Dense", "2_Dense")], {})
    with pytest.raises(AssayError, match="Dense"):
        read_pooling(folder)


def test_a_task_that_requests_answers_is_refused(measured, bert):
    with pytest.raises(AssayError, match="gives vectors"):
        measured(bert, {"task": "wikipedia-summary"}, use="embed")


def test_a_causal_model_embeds_too(measured, llama, texts):
    result, _ = measured(llama, {"file": texts, "batch": 2}, use="embed")
    assert result.facts["model"]["architecture"] == "LlamaModel"
    assert result.facts["output_of_first_item"]["shape"] == [2, 64]
