"""Text generation: the tokens are the library's own, and the times of the steps add up."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.tiers.torch.conftest import llama_config, samples

from assay.run.scoring import read_outputs
from assay.run.targets.transformers.decoding import Prompt, Prompter, Sessions, Stepper, answer_lengths
from assay.run.targets.transformers.model import ModelFolder
from assay.run.torch_devices import TorchPlacement
from assay.run.workloads import Item, Workset
from assay.spec.target import ModelTarget

PROMPTS = [
    "the quick brown fox",
    "a model answers questions about rivers and mountains",
    "ten",
    "hot tea into bad luck",
]
CPU = TorchPlacement("cpu", "cpu")


def prompter_of(tokenizer, prompts=PROMPTS):
    return Prompter(tokenizer, Workset("prompts", tuple(Item(text, (text,)) for text in prompts), (), {}))


@pytest.fixture
def prompts(tmp_path):
    rows = [{"id": f"p{index}", "prompt": text, "reference": "the quick"} for index, text in enumerate(PROMPTS)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return "prompts.jsonl"


def architectures():
    from transformers import GPT2Config, MambaConfig, MistralConfig

    small = {"vocab_size": 512, "eos_token_id": 0, "bos_token_id": None, "pad_token_id": None}
    heads = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return {
        "llama": llama_config(initializer_range=0.3),
        "gpt2": GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=256, initializer_range=0.3, **small),
        # A window shorter than the prompts: the cache must forget.
        "mistral": MistralConfig(sliding_window=8, num_key_value_heads=2, initializer_range=0.3, **heads, **small),
        "mamba": MambaConfig(hidden_size=64, num_hidden_layers=2, state_size=8, initializer_range=0.3, **small),
    }


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "mamba"])
@pytest.mark.parametrize("batch", [1, 4])
def test_tokens_equal_those_of_generate(name, batch, tokenizer, tmp_path):
    from transformers import AutoModelForCausalLM

    torch.manual_seed(11)
    AutoModelForCausalLM.from_config(architectures()[name]).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    target = ModelTarget(model=str(tmp_path), runtime="transformers")
    model = ModelFolder(tmp_path, target, CPU).load("AutoModelForCausalLM")
    fed = prompter_of(tokenizer).batch([text * 3 for text in PROMPTS[:batch]])
    assert len(set(fed.lengths)) == batch
    steps = Stepper(model, "cpu").run(fed, 24)
    with torch.inference_mode():
        whole = model.generate(
            input_ids=fed.ids,
            attention_mask=fed.mask,
            do_sample=False,
            max_new_tokens=24,
            min_new_tokens=24,
            pad_token_id=0,
            eos_token_id=None,
        )
    assert np.array(steps.tokens).T.tolist() == whole[:, fed.ids.shape[1] :].tolist()
    assert len({token for step in steps.tokens for token in step}) > 4, "a model that says one word proves nothing"


def test_a_stop_token_ends_the_answer_as_with_generate(llama, tokenizer):
    target = ModelTarget(model=str(llama), runtime="transformers")
    model = ModelFolder(llama, target, CPU).load("AutoModelForCausalLM")
    fed = prompter_of(tokenizer).batch(PROMPTS)
    free = np.array(Stepper(model, "cpu").run(fed, 24).tokens)
    stop = int(free[5, 0])  # what the first prompt says as its sixth token, or earlier
    with torch.inference_mode():
        whole = model.generate(
            input_ids=fed.ids,
            attention_mask=fed.mask,
            do_sample=False,
            max_new_tokens=24,
            eos_token_id=stop,
            pad_token_id=511,
        )
    answers = whole[:, fed.ids.shape[1] :].tolist()
    steps = Stepper(model, "cpu", frozenset([stop])).run(fed, 24)
    lengths = answer_lengths(steps.tokens, [24] * 4, frozenset([stop]))
    assert len(steps.tokens) == len(answers[0])
    assert lengths[0] <= 6
    for row, length in enumerate(lengths):
        assert [step[row] for step in steps.tokens[:length]] == answers[row][:length]
        assert set(answers[row][length:]) <= {511}


def test_phases_and_times_of_a_run(measured, llama, prompts):
    result, phases = measured(llama, {"file": prompts, "output_tokens": 8, "batch": 2}, threads=1)
    assert phases == ["load", "first", "warmup", "measure", "score", "cleanup", "score"]
    values = {name: samples(result, name).value for name in ("prefill_ms", "decode_ms", "ttft_ms", "e2e_ms", "itl_ms")}
    assert {name: len(value) for name, value in values.items()} == {
        "prefill_ms": 4,
        "decode_ms": 28,
        "ttft_ms": 4,
        "e2e_ms": 4,
        "itl_ms": 28,
    }
    assert (values["ttft_ms"] > values["prefill_ms"]).all(), "tokenisation is part of the one alone"
    # The parts make the whole: nothing is left out between the steps.
    whole = values["ttft_ms"] + values["decode_ms"].reshape(4, 7).sum(1)
    assert whole == pytest.approx(values["e2e_ms"], rel=1e-9)
    latency = samples(result, "latency_ms").value
    assert (latency >= values["e2e_ms"]).all()
    assert np.median(latency - values["e2e_ms"]) < 1.0, "what we do between calls stays small"
    assert samples(result, "tpot_ms").value == pytest.approx(values["decode_ms"].reshape(4, 7).mean(1))
    busy_s = values["e2e_ms"].sum() / 1e3
    assert result.metrics["output_tokens_per_s"] == pytest.approx(4 * 2 * 8 / busy_s)
    assert result.metrics["throughput_per_s"] == pytest.approx(4 * 2 / busy_s, rel=0.2)
    assert result.metrics["output_tokens"] == 8
    assert len(samples(result, "prefill_ms", "warmup").value) == 2
    at = samples(result, "decode_ms").at_ns
    assert (np.diff(at) > 0).all()
    assert at[0] > 0
    assert result.device.honoured


def test_what_a_result_says_about_the_model(measured, llama, prompts):
    result, _ = measured(
        llama,
        {"file": prompts, "output_tokens": 2},
        threads=2,
        dtype="bf16",
        session_options={"attn_implementation": "eager"},
    )
    facts = result.facts
    assert (facts["dtype"], facts["attention"], facts["threads"]) == ("bfloat16", "eager", 2)
    assert facts["kv_cache"] == "DynamicCache"
    assert facts["model"]["architecture"] == "LlamaForCausalLM"
    assert facts["model"]["weights_bytes"] == 2 * facts["model"]["parameters"]
    assert facts["prompts"]["chat_template"] is True
    assert facts["generation"]["stops"].startswith("no")
    torch.set_num_threads(1)


def test_answers_of_one_token_have_nothing_to_decode(measured, llama, prompts):
    result, _ = measured(llama, {"file": prompts, "output_tokens": 1})
    assert "decode_ms" not in {one.metric for one in result.samples}
    assert "nothing is decoded" in result.absent["decode_ms"]


def test_no_length_means_up_to_a_stop_token(measured, llama, prompts):
    result, _ = measured(llama, {"file": prompts, "batch": 4})
    assert result.metrics["output_tokens"] <= 128
    assert result.facts["generation"]["stops"].startswith("at a stop token")


def test_answers_are_kept_and_scored_once_per_question(measured, llama, prompts):
    workload = {"file": prompts, "output_tokens": 4, "batch": 3, "scorers": ["length"]}
    result, _ = measured(llama, workload, measure={"until": {"samples": 5}})
    kept = list(read_outputs(result.files["outputs.jsonl.gz"]))
    assert [one.item for one in kept] == ["p0", "p1", "p2", "p3"]
    assert len(samples(result, "answer_chars").value) == 4
    assert samples(result, "answer_chars").value.tolist() == [len(one.text) for one in kept]
    assert result.facts["answers"]["asked"] == 15
    assert result.facts["answers"]["different_questions"] == 4
    not_kept, _ = measured(llama, {**workload, "keep_outputs": False})
    assert not not_kept.files


def test_every_run_asks_and_answers_the_same(measured, llama, prompts):
    workload = {"file": prompts, "output_tokens": 6, "keep_outputs": True}
    first, _ = measured(llama, workload)
    texts = [one.text for one in read_outputs(first.files["outputs.jsonl.gz"])]
    second, _ = measured(llama, workload, measure={"warmup": 3})
    assert texts == [one.text for one in read_outputs(second.files["outputs.jsonl.gz"])]
    assert len(set(texts)) > 1


def test_the_answer_ends_before_its_first_stop_token(measured, llama, prompts):
    """A length that is asked for is decoded in full, but what follows the end is no answer."""
    result, _ = measured(llama, {"file": prompts, "output_tokens": 64, "keep_outputs": True})
    assert all("<|end|>" not in one.text for one in read_outputs(result.files["outputs.jsonl.gz"]))
    assert result.metrics["output_tokens"] == 64


def test_prompts_made_to_a_length_stay_that_long(tokenizer):
    made = Workset("synthetic", (Item("a", ("the quick brown",), input_tokens=3),), (), {})
    plain = Prompter(tokenizer, made)
    assert plain.text(Prompt(made.items[0], 0)) == "the quick brown"
    assert plain.batch(["the quick brown"]).lengths == (
        len(tokenizer.encode("the quick brown", add_special_tokens=False)),
    )
    assert not plain.chat
    assert prompter_of(tokenizer).chat


@pytest.mark.parametrize("length", [1, 17, 200])
def test_a_prompt_length_that_is_requested_is_delivered(measured, llama, length):
    result, _ = measured(llama, {"input_tokens": length, "output_tokens": 3, "items": 4, "batch": 2})
    assert result.metrics["input_tokens"] == length
    assert result.facts["prompts"]["chat_template"] is False


def test_chat_and_conversation_prompts(tokenizer):
    item = Item("c", ("one", "two", "three"), system="be kind")
    text = Prompter(tokenizer, Workset("conversation", (item,), (), {})).text(Prompt(item, 0, 1, ("first answer",)))
    assert (
        text
        == "<|system|>be kind<|end|><|user|>one<|end|><|assistant|>first answer<|end|><|user|>two<|end|><|assistant|>"
    )


def test_padding_is_on_the_left_and_masked(tokenizer):
    batch = prompter_of(tokenizer).batch(PROMPTS)
    for row, length in enumerate(batch.lengths):
        assert batch.mask[row].sum() == length
        assert batch.mask[row, -length:].all()


def test_sessions_go_through_turns_and_then_take_the_next_item():
    items = [Item("a", ("1", "2")), Item("b", ("1",)), Item("c", ("1", "2", "3"))]
    sessions = Sessions(items, rows=2)
    sessions.begin()
    seen = []
    for call in range(4):
        seen.append([(ask.item.id, ask.session, ask.turn, ask.answers) for ask in sessions.prompts])
        sessions.advance(lambda row, call=call: f"{call}/{row}")
    assert seen == [
        [("a", 0, 0, ()), ("b", 1, 0, ())],
        [("a", 0, 1, ("0/0",)), ("c", 2, 0, ())],
        [("a", 3, 0, ()), ("c", 2, 1, ("1/1",))],
        [("a", 3, 1, ("2/0",)), ("c", 2, 2, ("1/1", "2/1"))],
    ]


def test_a_conversation_is_answered_turn_by_turn(measured, llama, tmp_path):
    rows = [{"id": "c", "turns": ["the quick", "brown fox", "ten"], "reference": "tea"}]
    (tmp_path / "talk.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    workload = {"task": "conversation", "file": "talk.jsonl", "output_tokens": 4, "keep_outputs": True}
    result, _ = measured(llama, workload, measure={"until": {"samples": 6}})
    kept = list(read_outputs(result.files["outputs.jsonl.gz"]))
    assert [(one.turn, one.reference) for one in kept] == [(0, None), (1, None), (2, "tea")]
    lengths = [one.more["input_tokens"] for one in kept]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[2]


def test_lengths_of_answers():
    tokens = [(5, 5), (9, 5), (5, 5), (5, 9)]
    assert answer_lengths(tokens, [4, 4], frozenset([9])) == (2, 4)
    assert answer_lengths(tokens, [4, 2], frozenset()) == (4, 2)
    assert answer_lengths(tokens, [1, 3], frozenset([9])) == (1, 3)
