"""What `--help` says of every verb: an example that can be typed, words instead of types, nothing cut off."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from assay.cli.examples import _LINES, examples
from assay.cli.main import app
from assay.cli.verbs import VERBS, entries, leaf_verbs

LEAVES = dict(leaf_verbs())
GROUPS = [("assay",), *{path[:length] for path in LEAVES for length in range(1, len(path))}]
# `<list[str]>`, `<path>`, `[[A]]`, `{FILE...}...`, `1<=x<=9`
TYPE = re.compile(r"<[a-z\[\]| ]+>|\[\[|\{\w+(?:\.\.\.)?\}|<=x|x[<>]=|\bint range\b|TextFormat|StrEnum")


def help_of(path: tuple[str, ...], columns: int) -> str:
    words = [*path, "--help"] if path != ("assay",) else ["--help"]
    result = CliRunner().invoke(app, words, terminal_width=columns)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("path", sorted(LEAVES), ids=" ".join)
def test_every_verb_has_an_example_and_no_type_of_python(path: tuple[str, ...]) -> None:
    text = help_of(path, 100)
    assert TYPE.search(text) is None, TYPE.search(text)
    lines = examples(path)
    assert lines, "write one into assay/cli/examples.py"
    for line in lines:
        assert f"  {line}\n" in text
        command = LEAVES[path]
        words = shlex.split(line)[1 + len(path) :]
        context = command.make_context(path[-1], words, parent=typer.Context(typer.main.get_command(app)))
        assert not context.args


@pytest.mark.parametrize("path", sorted(GROUPS), ids=" ".join)
@pytest.mark.parametrize("columns", [80, 120])
def test_no_group_cuts_its_verbs_off(path: tuple[str, ...], columns: int) -> None:
    text = help_of(path, columns)
    assert "…" not in text
    assert not [line for line in text.splitlines() if line.endswith("...") and "Usage:" not in line]
    assert max(map(len, text.splitlines())) <= columns


def test_every_example_belongs_to_a_verb() -> None:
    known = {line for path in LEAVES for line in examples(path)}
    assert set(_LINES.split("\n")) - known == {""}


def test_every_verb_has_a_place_in_the_help_of_assay() -> None:
    assert list(VERBS) == ["Measure", "Look", "Decide", "Machine", "Server and fleet", "Tools"]
    text = help_of(("assay",), 80)
    for name, entry in entries().items():
        assert re.search(rf"^  {name} +{re.escape(entry.summary)}$", text, re.MULTILINE), name


def test_options_of_a_long_verb_are_grouped() -> None:
    """So that no one reads thirty of them to find one."""
    for path, command in LEAVES.items():
        named = [option for option in command.params if option.param_type_name == "option" and not option.hidden]
        panels: dict[str, list[Any]] = {}
        for option in named:
            panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", []).append(option.opts)
        assert max(map(len, panels.values()), default=0) <= 14, (path, panels)


def test_what_lists_things_lists_them_for_programs_too() -> None:
    options = {path: {name for one in command.params for name in one.opts} for path, command in LEAVES.items()}
    assert [path for path in LEAVES if path[-1] == "list" and not {"--format", "-f"} <= options[path]] == []
    assert [path for path in LEAVES if "-f" in options[path] and "--format" not in options[path]] == []


def test_one_thing_has_one_option_everywhere() -> None:
    """The address to listen at is --host; a server to speak to is --server, and results are in a --store."""
    named = {name: path for path, command in LEAVES.items() for one in command.params for name in one.opts}
    assert not {"--json", "--output", "--output-format", "--server-url", "--store-folder"} & set(named)
