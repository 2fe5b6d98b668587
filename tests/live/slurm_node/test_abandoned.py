"""A campaign that was left half submitted: what holds a node lets it go, and what is in good hands stays."""

from __future__ import annotations

import pytest
from tests.live.slurm_node.conftest import definition

from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.context import VARIABLE, SubmissionWatch


class Time:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def folder(tmp_path) -> SharedFolder:
    made = SharedFolder(tmp_path / "c1")
    made.make()
    return made


def test_it_is_abandoned_once_nobody_continues_for_long(folder):
    now = Time()
    folder.note({"name": "p-llm", "id": "1"})
    looking = SubmissionWatch(folder, "p-end", now)
    assert looking.abandoned() == ""
    now.s += 590
    assert looking.abandoned() == ""
    folder.note({"name": "p", "at": 1.0})  # somebody is slow, and there
    now.s += 590
    assert looking.abandoned() == ""
    now.s += 590
    assert looking.abandoned() == ""
    now.s += 20
    assert "not submitted whole" in looking.abandoned()


def test_with_its_end_in_slurm_or_submitted_by_hand_it_is_not(folder):
    now = Time()
    by_hand = SubmissionWatch(folder, "p-end", now)
    assert by_hand.abandoned() == ""
    folder.note({"name": "p-llm", "id": "1"})
    folder.note({"name": "p-end", "id": "3"})
    looking = SubmissionWatch(folder, "p-end", now)
    for _ in range(3):
        now.s += 5000
        assert looking.abandoned() == by_hand.abandoned() == ""


def test_an_intent_without_a_number_is_no_end(folder, monkeypatch):
    monkeypatch.setenv(VARIABLE, "10")
    now = Time()
    folder.note({"name": "p-end", "at": 1.0})
    looking = SubmissionWatch(folder, "p-end", now)
    assert looking.abandoned() == ""
    now.s += 11
    assert looking.abandoned()


@pytest.mark.live
def test_a_service_ends_by_itself_and_says_why(campaign):
    here = campaign(definition())
    here.folder.note({"name": f"{here.group}-llm", "id": "1"})
    process = here.start("service", "llm", **{VARIABLE: "1"})
    assert process.wait(120) == 143
    told = here.failure()
    assert told["code"] == "submission-abandoned"
    assert "not submitted whole" in told["message"]
