"""What a shell is offered, and what is loaded for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.cli.completing import _KINDS, MODELS, offered
from assay.cli.verbs import leaf_verbs
from assay.run.models.sources import BUILTIN_NAMES


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("ASSAY_SERVER", raising=False)


def words(line: str) -> list[str]:
    """What is offered for the last word of a line."""
    *before, incomplete = line.split(" ")
    return [word for word, _ in offered(before, incomplete)]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("res", ["results"]),
        ("", ["run", "init", "results", "completion"]),
        ("--v", ["--version"]),
        ("results ", ["list", "show", "export", "rm"]),
        ("results sh", ["show"]),
        ("alerts rules s", ["set"]),
        ("results show --st", ["--store"]),
        ("run bench.yaml --fail-on ", ["never", "invalid", "suspect"]),
        ("run bench.yaml --fail-on=inv", ["invalid"]),
        ("run --fail-on = s", ["suspect"]),  # as bash takes it apart
        ("completion f", ["fish"]),
        ("init s", ["squeezenet", "shufflenet"]),
        ("schedule p", ["pause"]),  # as it was spelt before
        ("compare ", ["latest", "latest~1"]),
        ("compare latest lat", ["latest", "latest~1"]),
    ],
)
def test_what_fits_is_offered(line, some):
    found = words(line)
    assert set(some) <= set(found), found
    last = line.rpartition(" ")[2].rpartition("=")[2]
    assert all(word.startswith(last) for word in found)


@pytest.mark.parametrize("line", ["nothing ", "results nothing ", "compare a b ", "results show --store ", "models x"])
def test_where_nothing_fits_the_shell_offers_files(line):
    assert words(line) == []


def test_an_option_is_offered_until_it_is_given():
    assert "--quiet" in words("run --")
    assert "--quiet" not in words("run bench.yaml --quiet --")
    assert "--set" in words("run bench.yaml --set a=1 --")  # may be given again


def test_models_and_files_of_the_folder_are_offered(tmp_path):
    (tmp_path / "net.onnx").touch()
    (tmp_path / "notes.txt").touch()
    assert words("init n") == ["net.onnx"]
    assert set(MODELS) == set(BUILTIN_NAMES)


def test_each_kind_of_name_belongs_to_some_verb():
    named = {str(one.metavar or one.name) for _, command in leaf_verbs() for one in command.params}
    assert set(_KINDS) <= named


# What takes longer to load than all else that a completion needs.
HEAVY = ("pydantic", "sqlalchemy", "numpy", "httpx", "rich", "yaml", "assay.spec", "assay.report", "assay.run")
# Options of the command line that stand for keys: a table that imports nothing.
LIGHT = {"assay.spec", "assay.spec.flags"}


@pytest.mark.parametrize("line", ["", "results ", "results show ", "run --", "agents drain ", "init ", "serve --"])
def test_little_is_loaded(line):
    script = (
        "import sys; from assay.cli.main import main; from assay.cli.completing import offered; "
        f"offered({line.split(' ')[:-1]!r}, {line.split(' ')[-1]!r}); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "assay.cli.completing" in loaded
    heavy = [name for name in set(loaded) - LIGHT for one in HEAVY if name == one or name.startswith(f"{one}.")]
    assert heavy == []
