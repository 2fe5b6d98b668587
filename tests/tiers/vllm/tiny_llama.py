"""Make a small Llama of random weights with a tokenizer and a chat template: real files, nothing fetched.

Run with the interpreter that has Transformers: python tiny_llama.py FOLDER
"""

import json
import sys
import sysconfig
from pathlib import Path

VOCABULARY = 1024
SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEMPLATE_TOKENS = 3
"""Tokens that the template puts around the one message of a user."""


def make(folder: Path) -> None:
    """Write the model; the same on every machine that has the same libraries."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:40]
    tokenizer.train(
        [str(path) for path in sources],
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=list(SPECIAL),
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    torch.manual_seed(7)
    shape = LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
        # Random weights of the usual size answer with one token again and again; larger ones wander.
        initializer_range=0.3,
    )
    LlamaForCausalLM(shape).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=SPECIAL[0], chat_template=CHAT, clean_up_tokenization_spaces=False
    ).save_pretrained(folder)
    json.loads((folder / "config.json").read_text())  # whole, or an error here


if __name__ == "__main__":
    make(Path(sys.argv[1]))
