"""A tokenizer from a file counts plain text as the model does, and says what is wrong with any other file."""

from __future__ import annotations

import json
import struct
import sys

import pytest
from tests.unit.run.tokens.trained import saved, trained
from tokenizers import Tokenizer, processors

from assay.errors import MeasureError
from assay.run.tokens.local import local_tokenizer, read_vocabulary

TEXT = "Honey keeps for many years, doesn't it? 12345 – ö"


def test_a_file_and_its_folder_give_the_same_tokenizer(tmp_path):
    path = saved("byte-level", tmp_path)
    by_file, by_folder = local_tokenizer(path), local_tokenizer(path.parent)
    assert by_file.name == by_folder.name
    assert by_file.name.startswith("local tokenizer.json (sha256 ")
    assert by_file.encode(TEXT) == by_folder.encode(TEXT) == trained("byte-level").encode(TEXT).ids
    assert by_file.decode(by_file.encode(TEXT)) == TEXT
    assert by_file.count([TEXT, ""]) == [len(by_file.encode(TEXT)), 0]


def test_nothing_is_added_cut_or_filled(tmp_path):
    path = saved("wordpiece", tmp_path)
    changed = Tokenizer.from_file(str(path))
    changed.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    changed.enable_truncation(4)
    changed.enable_padding(length=50)
    changed.save(str(path))
    assert len(changed.encode(TEXT).ids) == 50
    assert local_tokenizer(path).encode(TEXT) == trained("wordpiece").encode(TEXT).ids


def refusal(path):
    with pytest.raises(MeasureError) as caught:
        local_tokenizer(path)
    assert caught.value.problem.code == "tokenizer"
    return caught.value.problem


def test_what_is_missing_is_said(tmp_path):
    assert refusal(tmp_path / "no.json").message.endswith("no.json does not exist")
    assert "a tokenizer.json, a folder that holds one, or a GGUF model file" in refusal(tmp_path / "no.json").try_
    assert "holds no tokenizer.json" in refusal(tmp_path).message
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    assert "AutoTokenizer" in refusal(tmp_path).try_
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert str(tmp_path / "model.gguf") in refusal(tmp_path).try_


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"model": {"type": "Unknown"}}'])
def test_what_is_no_tokenizer_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    problem = refusal(tmp_path)
    assert "is not a tokenizer" in problem.message or "is not text" in problem.message


def test_a_missing_library_names_the_extra(tmp_path, monkeypatch):
    path = saved("byte-level", tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert refusal(path).try_ == "pip install 'assay-bench[llm]'"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def texts(values) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def gguf(path, kind="gpt2", pre="gpt-2", tokenizer="byte-level", version=3):
    """A model file without weights that holds a trained tokenizer, with other keys around it."""
    model = json.loads(trained(tokenizer).to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [" ".join(merge) for merge in model["merges"]]
    types = [3 if token == "<|end|>" else 1 for token in tokens]
    pairs = {
        "general.name": struct.pack("<I", 8) + text("tiny"),
        "general.size": struct.pack("<IQ", 10, 7),
        "tokenizer.ggml.model": struct.pack("<I", 8) + text(kind),
        "tokenizer.ggml.pre": struct.pack("<I", 8) + text(pre),
        "tokenizer.ggml.tokens": texts(tokens),
        "tokenizer.ggml.token_type": struct.pack("<IIQ", 9, 5, len(types)) + struct.pack(f"<{len(types)}i", *types),
        "tokenizer.ggml.merges": texts(merges),
        "tokenizer.ggml.scores": struct.pack("<IIQ", 9, 6, 2) + struct.pack("<2f", 0.5, 1.5),
        "tokenizer.ggml.add_bos_token": struct.pack("<I?", 7, True),
    }
    body = b"".join(text(key) + value for key, value in pairs.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs)) + body + b"weights")
    return path


def test_the_tokenizer_inside_a_gguf_file_is_the_one_it_was_made_from(tmp_path):
    tokenizer = local_tokenizer(gguf(tmp_path / "tiny.gguf"))
    assert tokenizer.name.startswith("local tiny.gguf (sha256 of its vocabulary ")
    for one in (TEXT, "a<|end|>b", "  two  spaces\n\n", "日本 🙂"):
        assert tokenizer.encode(one) == trained("byte-level").encode(one).ids
        assert tokenizer.decode(tokenizer.encode(one)) == one


def test_numbers_are_split_as_the_family_of_the_model_does(tmp_path):
    families = {
        pre: local_tokenizer(gguf(tmp_path / f"{pre}.gguf", pre=pre))
        for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2")
    }
    assert families["smollm"].count(["1854"]) == families["qwen2"].count(["1854"]) == [4]
    for tokenizer in families.values():
        assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


def test_a_gguf_tokenizer_of_another_kind_is_refused_and_not_guessed(tmp_path):
    assert "(llama, default)" in refusal(gguf(tmp_path / "a.gguf", "llama", "default")).message
    assert "(gpt2, tekken)" in refusal(gguf(tmp_path / "b.gguf", "gpt2", "tekken")).message
    assert "tokenizer.json of the same model" in refusal(gguf(tmp_path / "b.gguf", "gpt2", "tekken")).try_


def test_a_damaged_gguf_file_is_refused(tmp_path):
    whole = gguf(tmp_path / "whole.gguf").read_bytes()
    for length in (4, 12, 40, 200, len(whole) // 2):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        assert "is not a whole GGUF file" in refusal(tmp_path / "cut.gguf").message
    assert "version 9 is not known" in refusal(gguf(tmp_path / "new.gguf", version=9)).message
    (tmp_path / "bare.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    assert "holds no tokenizer" in refusal(tmp_path / "bare.gguf").message


def test_the_digest_of_a_vocabulary_changes_with_it(tmp_path):
    one = read_vocabulary(gguf(tmp_path / "a.gguf"))
    other = read_vocabulary(gguf(tmp_path / "b.gguf", pre="smollm"))
    assert one.sha256 != other.sha256
    assert one.sha256 == read_vocabulary(gguf(tmp_path / "c.gguf")).sha256
