import os
from pathlib import Path

import pytest

from assay.errors import SpecError
from assay.spec.limits import MAX_DEPTH, MAX_DIGITS, MAX_NODES
from assay.spec.source import parse, read

YAML = """\
benchmark: x
target:
  model: a.onnx
alerts:
  - metric: m
"""
TOML = """\
benchmark = "x"
[target]
model = "a.onnx"
[[alerts]]
metric = "m"
"""
JSON = '{\n "benchmark": "x",\n "target": {\n  "model": "a.onnx"},\n "alerts": [{"metric": "m"}]}'


@pytest.mark.parametrize(("text", "suffix"), [(YAML, ".yaml"), (TOML, ".toml"), (JSON, ".json")])
def test_three_formats_say_the_same(text, suffix):
    assert parse(text, suffix, "f").document == {
        "benchmark": "x",
        "target": {"model": "a.onnx"},
        "alerts": [{"metric": "m"}],
    }


@pytest.mark.parametrize(("text", "suffix", "line"), [(YAML, ".yaml", 3), (TOML, ".toml", 3), (JSON, ".json", 4)])
def test_every_format_knows_its_lines(text, suffix, line):
    source = parse(text, suffix, "f")
    assert source.at(("target", "model")) == f"f:{line}"
    assert source.at(("target", "unwritten")) == source.at(("target",))


def test_yaml_reads_scalars_as_version_1_2_does():
    text = "a: no\nb: 2%\nc: 1e-3\nd: 0x10\ne: 2026-01-01\nf: ~\ng: 012\nh: '3'\ni: true"
    assert parse(text, ".yaml", "f").document == {
        "a": "no",
        "b": "2%",
        "c": 0.001,
        "d": 16,
        "e": "2026-01-01",
        "f": None,
        "g": 12,
        "h": "3",
        "i": True,
    }


def test_merge_keys_and_aliases_work():
    text = "base: &b {runs: 3, warmup: auto}\nmeasure:\n  <<: *b\n  runs: 5"
    assert parse(text, ".yaml", "f").document["measure"] == {"runs": 5, "warmup": "auto"}


def test_a_key_given_twice_is_an_error_with_both_lines():
    with pytest.raises(SpecError) as caught:
        parse("a: 1\nb: 2\na: 3", ".yaml", "f")
    assert caught.value.problem.at == "f:3"
    assert "first on line 1" in caught.value.problem.message


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("a: [1", ".yaml"), ("a = ", ".toml"), ('{"a": }', ".json"), ("just text", ".yaml"), ("", ".yaml")],
)
def test_broken_files_are_reported(text, suffix):
    with pytest.raises(SpecError) as caught:
        parse(text, suffix, "f")
    assert caught.value.problem.code == "syntax"
    assert caught.value.problem.at.startswith("f")


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    with pytest.raises(SpecError, match=str(MAX_NODES)):
        parse("\n".join(lines), ".yaml", "f")


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    for suffix, text in ((".yaml", "a: 1"), (".toml", "a = 1"), (".json", '{"a": 1}')):
        file = tmp_path / f"f{suffix}"
        file.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert read(file).document == {"a": 1}


def test_a_file_may_come_through_a_pipe():
    reads, writes = os.pipe()
    os.write(writes, b"a: 1")
    os.close(writes)
    assert read(Path(f"/dev/fd/{reads}")).document == {"a": 1}
    os.close(reads)


@pytest.mark.parametrize(("text", "suffix"), [("a: .nan", ".yaml"), ("a = inf", ".toml"), ('{"a": -1e999}', ".json")])
def test_a_number_is_finite(text, suffix):
    with pytest.raises(SpecError, match=r"a is .*: a finite number is needed") as caught:
        parse(text, suffix, "f")
    assert caught.value.problem.at == "f:1"


def test_a_key_given_twice_in_json_is_an_error_with_both_lines():
    with pytest.raises(SpecError, match=r"a\.b is given twice, first on line 2") as caught:
        parse('{"a": {\n"b": 1,\n"c": [{"b": 1}],\n"b": 2}}', ".json", "f")
    assert caught.value.problem.at == "f:4"


def test_the_lines_of_json_are_those_of_its_keys_and_items():
    source = parse('{\n"a": [\n1,\n{"b":\n2}],\n"c": "x, {y: [z]}",\n"d": {}, "e": []}', ".json", "f")
    places = [source.at(path) for path in (("a",), ("a", 0), ("a", 1), ("a", 1, "b"), ("c",), ("d",), ("e",))]
    assert places == ["f:2", "f:3", "f:4", "f:4", "f:6", "f:7", "f:7"]


def test_what_lies_within_the_bounds_is_read():
    deep = "[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1)
    for suffix, text in ((".yaml", f"a: {deep}"), (".toml", f"a = {deep}"), (".json", f'{{"a": {deep}}}')):
        assert parse(text, suffix, "f").document["a"]
    key = ".".join("a" * MAX_DEPTH)
    assert parse(f'{key} = "{key}.{key}"  # {key}.{key}', ".toml", "f").document["a"]
    digits = "9" * MAX_DIGITS
    for suffix, text in ((".yaml", f"a: {digits}"), (".toml", f"a = {digits}"), (".json", f'{{"a": -{digits}}}')):
        assert parse(text, suffix, "f").document["a"] in (int(digits), -int(digits))


@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 100_000, '"""\n' + '\\"""\n' * 50_000, "'''" * 99_999, "[" + " " * 200_000]
)
def test_toml_that_never_closes_is_refused_without_looking_again_and_again(text):
    with pytest.raises(SpecError, match="TOML"):
        parse(f"a = {text}", ".toml", "f")
