import pytest

from assay.errors import SpecError
from assay.spec.source import MAX_NODES, parse

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
    text = "a: no\nb: 2%\nc: 1e-3\nd: 0x10\ne: 2026-01-01\nf: ~\ng: 012\nh: '3'\ni: true\nj: .inf"
    assert parse(text, ".yaml", "f").document == {
        "a": "no", "b": "2%", "c": 0.001, "d": 16, "e": "2026-01-01", "f": None, "g": 12, "h": "3", "i": True,
        "j": float("inf"),
    }  # fmt: skip


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
def test_broken_files_are_told(text, suffix):
    with pytest.raises(SpecError) as caught:
        parse(text, suffix, "f")
    assert caught.value.problem.code == "syntax"
    assert caught.value.problem.at.startswith("f")


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    with pytest.raises(SpecError, match=str(MAX_NODES)):
        parse("\n".join(lines), ".yaml", "f")
