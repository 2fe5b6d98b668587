"""How far a job is, written by its node and read by whoever follows."""

from __future__ import annotations

from functools import partial

import pytest

from assay.engines.node import Progress, ProgressView, read_progress, write_progress


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "out" / "progress.json"
    view = ProgressView(partial(write_progress, path))
    view.phase("prepare")
    assert read_progress(path) is None, "no run has begun"
    view.run(1, 5)
    view.phase("measure")
    assert read_progress(path) == Progress(2, 5, "measure")
    view.progress(0.4, "")
    assert read_progress(path) == Progress(2, 5, "measure"), "not more often than every few seconds"


def test_progress_inside_a_phase_is_written_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr("assay.engines.node.EVERY_S", 0.0)
    view = ProgressView(partial(write_progress, tmp_path / "progress.json"))
    view.run(0, 3)
    view.phase("warm-up")
    view.progress(0.4, "")
    assert str(read_progress(tmp_path / "progress.json")) == "run 1/3 warm-up 40%"


def test_a_folder_that_cannot_be_written_to_ends_no_measurement(tmp_path):
    (tmp_path / "file").touch()
    view = ProgressView(partial(write_progress, tmp_path / "file" / "progress.json"))
    view.run(0, 1)
    view.phase("measure")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run": "x"}', '{"run": 1, "of": 2}'])
def test_what_is_no_progress_is_passed_over(tmp_path, content):
    (tmp_path / "progress.json").write_text(content)
    assert read_progress(tmp_path / "progress.json") is None
