"""Small tokenizers of every common kind, trained on the spot; some of them awkward on purpose."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from assay.run.workloads.tasks import articles

KINDS = (
    "byte-level",
    "byte-level, few merges",
    "bytes only",
    "merges over spaces",
    "letters, byte fallback",
    "metaspace, byte fallback",
    "wordpiece",
    "unigram",
    "whole words",
)


def corpus() -> list[str]:
    return [article.text for article in articles()[:8]]


@cache
def trained(kind: str) -> Tokenizer:
    return _MAKERS[kind]()


def saved(kind: str, folder: Path) -> Path:
    path = folder / f"{kind.replace(' ', '-').replace(',', '')}" / "tokenizer.json"
    path.parent.mkdir(exist_ok=True)
    trained(kind).save(str(path))
    return path


def _byte_level(size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def _over_spaces() -> Tokenizer:
    """No pre-tokenizer: `of the` may be one token, so that the cost of a word depends on its neighbours."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.Fuse()
    lines = [sentence for text in corpus() for sentence in text.split(". ")]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=900, show_progress=False))
    return tokenizer


_BYTES = [f"<0x{number:02X}>" for number in range(256)]


def _fallback(pieces: list[str]) -> Tokenizer:
    vocabulary = {piece: number for number, piece in enumerate(["<unk>", *_BYTES, *pieces])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _metaspace() -> Tokenizer:
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>", *_BYTES], show_progress=False)
    plain.train_from_iterator(corpus(), trainer)
    plain.model.byte_fallback = True
    plain.model.unk_token = "<unk>"
    plain.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return plain


def _wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        corpus(), trainers.WordPieceTrainer(vocab_size=800, special_tokens=special, show_progress=False)
    )
    return tokenizer


def _unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def _whole_words() -> Tokenizer:
    """Knows only some words; all others are the same unknown token."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "removed")
    trainer = trainers.WordLevelTrainer(vocab_size=3000, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


_MAKERS = {
    "byte-level": lambda: _byte_level(2000),
    "byte-level, few merges": lambda: _byte_level(290),
    "bytes only": lambda: _byte_level(257),
    "merges over spaces": _over_spaces,
    "letters, byte fallback": lambda: _fallback([*"aeinorst"]),
    "metaspace, byte fallback": _metaspace,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
    "whole words": _whole_words,
}
