"""The shared folder: one owner of every path, whole files, and lines that survive a crash."""

import json
from dataclasses import dataclass

import pytest

from assay.engines.slurm.folder import SharedFolder, locate
from assay.errors import StoreError, UsageError
from assay.plan.plan import make_plan
from assay.spec.load import load


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    groups: tuple[str, ...]


@pytest.fixture
def folder(tmp_path) -> SharedFolder:
    made = SharedFolder(tmp_path / "shared" / "c1")
    made.make()
    return made


def test_the_file_goes_before_the_variable_and_that_before_the_store(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_SHARED", raising=False)
    assert locate(None, tmp_path) == tmp_path / "clusters"
    monkeypatch.setenv("ASSAY_SHARED", "/scratch/me")
    assert str(locate(None, tmp_path)) == "/scratch/me"
    assert str(locate("/project/x", tmp_path)) == "/project/x"


def test_every_document_has_its_place(folder):
    where = {
        str(path.relative_to(folder.path))
        for path in (
            folder.campaign,
            folder.submitted,
            folder.job(7),
            folder.out(7),
            folder.script("jobs-0"),
            folder.service("point-0000", "llm"),
            folder.failed_service("point-0000", "llm"),
            folder.service_log("point-0000", "llm", "out"),
            folder.stop("point-0000"),
            folder.barrier("point-0000", 2),
            folder.discovery,
            folder.metrics,
            folder.log("jobs-0", "17_3", "err"),
        )
    }
    assert where == {
        "campaign.json",
        "submitted.jsonl",
        "jobs/0007.json",
        "out/0007",
        "scripts/jobs-0.sh",
        "services/point-0000/llm.json",
        "services/point-0000/llm.failed.json",
        "services/point-0000/llm.out",
        "services/point-0000/stop",
        "barrier/point-0000/run-2",
        "discovery",
        "metrics",
        "logs/jobs-0-17_3.err",
    }


def test_a_percent_sign_in_the_path_is_no_mark_of_slurm(tmp_path):
    pattern = SharedFolder(tmp_path / "50%j").log_pattern("jobs-0", array=True, stream="out")
    assert str(pattern).endswith("50%%j/logs/jobs-0-%A_%a.out")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b", "a\n"])
def test_no_name_leaves_the_folder(folder, name):
    for path in (folder.script, lambda one: folder.service("g", one), folder.stop, lambda one: folder.barrier(one, 0)):
        with pytest.raises(UsageError):
            path(name)


def test_campaign_and_jobs_are_read_back(folder):
    folder.write_campaign(Record("c1", ("jobs-0",)))
    assert folder.read_campaign(Record) == Record("c1", ("jobs-0",))
    document = {"benchmark": "b", "target": {"command": "true", "metrics": [{"name": "x", "pattern": "(.*)"}]}}
    (job,) = make_plan(load(document), lambda _: {}).jobs
    folder.write_job(job)
    assert folder.read_job(0) == job
    with pytest.raises(UsageError, match="cannot read the job document"):
        folder.read_job(1)


def test_a_folder_without_a_campaign_says_so(tmp_path):
    with pytest.raises(UsageError, match="there is no campaign in this folder") as caught:
        SharedFolder(tmp_path).read_campaign(Record)
    assert "ASSAY_SHARED" in caught.value.problem.try_


def test_scripts_can_be_submitted_by_hand(folder):
    path = folder.write_script("jobs-0", "#!/bin/bash\ntrue\n")
    assert path.stat().st_mode & 0o777 == 0o755
    assert path.read_text() == "#!/bin/bash\ntrue\n"


def test_a_line_that_a_crash_cut_short_swallows_no_other(folder):
    assert list(folder.noted()) == []
    folder.note({"name": "jobs-0"})
    with folder.submitted.open("a") as file:
        file.write('{"name": "mon')
    folder.note({"name": "jobs-0", "id": "17"})
    assert list(folder.noted()) == [{"name": "jobs-0"}, {"name": "jobs-0", "id": "17"}]
    assert json.loads(folder.submitted.read_text().splitlines()[0]) == {"name": "jobs-0"}


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot use the shared folder") as caught:
        SharedFolder(tmp_path / "file" / "c1").make()
    assert "place.slurm.folder" in caught.value.problem.try_
