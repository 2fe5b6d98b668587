"""What `assay infra create` says when a part does not get healthy: which one, how it ended, and its own last words."""

from __future__ import annotations

import pytest

from assay.errors import MeasureError
from assay.infra import local as steering
from assay.infra.processes.supervisor import PartNote


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "redis.log").write_text("starting\nno memory left\n")
    return tmp_path


def test_a_part_that_was_given_up_is_reported_with_its_last_words(folder):
    note = PartNote("redis", "failed", None, None, 4, "ended with code 3, 5 times in a row")
    with pytest.raises(MeasureError) as told:
        steering._refuse_hopeless(folder, [note], 1.0, 60.0)
    assert "redis ended with code 3, 5 times in a row" in str(told.value)
    assert "no memory left" in str(told.value)
    assert "destroy" in told.value.problem.try_


def test_a_part_that_is_late_is_reported_with_what_it_answers(folder, monkeypatch):
    monkeypatch.setattr(steering, "supervisor_runs", lambda folder: True)
    notes = [PartNote("redis", "healthy", 1, 1.0, 0, ""), PartNote("server", "starting", 2, 1.0, 0, "503 no database")]
    steering._refuse_hopeless(folder, notes, 59.0, 60.0)
    with pytest.raises(MeasureError, match="server was not healthy within 60 s: 503 no database"):
        steering._refuse_hopeless(folder, notes, 61.0, 60.0)


def test_a_supervisor_that_has_ended_is_not_waited_for(folder, monkeypatch):
    monkeypatch.setattr(steering, "supervisor_runs", lambda folder: False)
    notes = [PartNote("server", "starting", 2, 1.0, 0, "")]
    with pytest.raises(MeasureError, match="supervisor has ended"):
        steering._refuse_hopeless(folder, notes, 1.0, 60.0)
    steering._refuse_hopeless(folder, [], 1.0, 60.0)  # it may not have begun yet
