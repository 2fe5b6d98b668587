"""A tiny BERT with random weights, made and exported without a hub: `python bert_make.py FOLDER`."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from optimum.exporters.onnx import main_export
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

VOCABULARY, TOKENS = 1000, 32


def main(folder: Path) -> None:
    torch.manual_seed(0)
    source = folder / "source"
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=128, **sizes)
    BertForSequenceClassification(config).save_pretrained(source)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(VOCABULARY - 5))]
    (source / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(str(source / "vocab.txt")).save_pretrained(source)
    main_export(str(source), folder / "onnx", task="text-classification", local_files_only=True)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (1, TOKENS), dtype=np.int64)
    for name, values in {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0}.items():
        np.save(folder / f"{name}.npy", values)
    print(json.dumps({"tokens": TOKENS}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
