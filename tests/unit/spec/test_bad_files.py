"""No file, whatever is in it, ends in anything but a plain error: in little time, with little memory."""

import sys

import pytest
from tests.unit.spec.bad_files import BAD_FILES, BadFile, outcome
from typer.testing import CliRunner

from assay.cli.main import app
from assay.errors import UsageError

NAMES = [bad.name for bad in BAD_FILES]
# Those that took the most time or memory, or ended in a traceback, one of each kind.
HEAVY = (
    "path /dev/zero", "path sparse 20 GiB", "yaml alias of itself", "yaml aliases of a long text", "yaml deep list",
    "yaml many items", "yaml many values", "toml very many dots", "toml a line of spaces", "json deep list",
    "spec command: open quote", "spec command: one long word", "spec pattern: many sets", "spec memory beyond all",
    "spec many unknown keys", "spec matrix: many bytes", "spec matrix: every point wrong",
)  # fmt: skip


def test_there_are_many_of_them():
    assert len(set(NAMES)) == len(NAMES) >= 65
    assert set(HEAVY) < set(NAMES)


@pytest.mark.parametrize("bad", BAD_FILES, ids=NAMES)
def test_a_bad_file_is_a_plain_error(bad: BadFile, tmp_path, monkeypatch):
    monkeypatch.setattr("assay.files._PIPE_WAIT_S", 0.01)
    done = CliRunner().invoke(app, ["validate", str(bad.make(tmp_path))])
    assert isinstance(done.exception, UsageError), done.exception
    said = str(done.exception)
    assert said.startswith("error[")
    assert len(said) < 100_000


@pytest.mark.live
@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("verb", ["validate", "run"])
def test_a_heavy_file_takes_little_time_and_memory(name, verb, tmp_path):
    bad = next(one for one in BAD_FILES if one.name == name)
    found = outcome([sys.executable, "-m", "assay", verb, str(bad.make(tmp_path))], tmp_path)
    assert found.code == 2, found.stderr[-2000:]
    assert found.stderr.startswith("error[")
    assert "Traceback" not in found.stderr
    assert found.cpu_s < 5.0
    assert found.peak_mb < 300
