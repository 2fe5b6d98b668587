"""Small language models made on the spot, and orders for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.plan.job import Job
from assay.run.contract import Order, Rules
from assay.spec.benchmark import Definition

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports the library, which reads it once
WORDS = """the quick brown fox jumps over a lazy dog while seven wizards mix jolts of bad luck into hot tea
a model answers questions about rivers and mountains in plain words and a user reads what it says
numbers such as one two three four five six seven eight nine ten are written out here for the tokenizer"""
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(autouse=True)
def _own_places(tmp_path_factory, monkeypatch):
    """No test ever touches the user's results."""
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path_factory.mktemp("store")))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def tokenizer():
    """A byte-level BPE tokenizer trained on a few lines, with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE(unk_token=None))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        WORDS.splitlines(), trainers.BpeTrainer(vocab_size=512, special_tokens=special, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", chat_template=CHAT)


def llama_config(**more):
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        max_position_embeddings=16384,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=None,
        **more,
    )


@pytest.fixture(scope="session")
def llama(tmp_path_factory, tokenizer) -> Path:
    """A Llama of random weights in a folder."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(7)
    folder = tmp_path_factory.mktemp("models") / "llama"
    # Random weights of the usual size answer with one token again and again; larger ones wander.
    LlamaForCausalLM(llama_config(initializer_range=0.3)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def order(tmp_path) -> Callable[..., Order]:
    """Make the order for a model."""

    def make(model: Path, workload=None, measure=None, load=None, **target) -> Order:
        document = {
            "target": {"model": str(model), "runtime": "transformers", **target},
            "workload": workload or {},
            "load": load or {},
            "measure": {"runs": 1, "warmup": 2, "until": {"samples": 4}, **(measure or {})},
        }
        definition = Definition.model_validate(document, strict=False)
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        return Order(Job("test", "digest", 0, definition, base=str(tmp_path)), 0, str(scratch), str(model), "ab" * 32)

    return make


class FakeStage:
    """A stage that remembers the phases."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    @contextlib.contextmanager
    def phase(self, name):
        self.phases.append(name)
        yield

    def progress(self, share, note=""):
        pass


RULES = Rules(steady=lambda durations: len(durations) >= 5, enough=lambda durations, width: len(durations) >= 8)


@pytest.fixture
def measured(order):
    """Measure one run in this process."""
    from assay.run.targets import transformers as target

    def run(model: Path, workload=None, **more):
        stage = FakeStage()
        result = target.measure(order(model, workload, **more), stage, RULES)
        return result, stage.phases

    return run


def samples(result, metric, phase="measure"):
    return next(one for one in result.samples if one.metric == metric and one.phase == phase)
