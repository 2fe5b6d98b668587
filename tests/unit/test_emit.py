import json
import os
import subprocess
import sys

import numpy as np
import pytest

import assay
from assay.emit import PIPE_VARIABLE


def test_without_a_pipe_it_prints_one_json_line(capsys, monkeypatch):
    monkeypatch.delenv(PIPE_VARIABLE, raising=False)
    assay.emit({"loss": 0.5, "n": 3})
    assert json.loads(capsys.readouterr().out) == {"loss": 0.5, "n": 3.0}


def test_with_a_pipe_it_writes_there_and_prints_nothing(tmp_path, capsys, monkeypatch):
    path = tmp_path / "pipe"
    path.touch()
    monkeypatch.setenv(PIPE_VARIABLE, str(path))
    assay.emit({"loss": np.float32(0.5)})
    assay.emit({"loss": 2})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"loss": 0.5}, {"loss": 2.0}]
    assert capsys.readouterr().out == ""


def test_a_pipe_that_nobody_reads_never_blocks(tmp_path, capsys, monkeypatch):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    monkeypatch.setenv(PIPE_VARIABLE, str(path))
    assay.emit({"loss": 1})
    assert json.loads(capsys.readouterr().out) == {"loss": 1.0}


@pytest.mark.parametrize(
    ("bad", "error"),
    [([1], TypeError), ({}, ValueError), ({"a": "1"}, TypeError), ({"a": True}, TypeError), ({"a": None}, TypeError)],
)
def test_what_is_no_metric_is_refused(bad, error):
    with pytest.raises(error):
        assay.emit(bad)


def test_it_works_without_any_dependency(tmp_path):
    source = assay.emit.__globals__["__file__"]
    script = f"import sys; sys.path.insert(0, {os.path.dirname(source)!r}); import emit; emit.emit({{'a': 1}})"  # noqa: PTH120
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == '{"a": 1.0}\n', done.stderr
