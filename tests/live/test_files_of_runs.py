"""Files that a run leaves, from the target to the store: of good and of failed runs, and never with a secret."""

import gzip
import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.leaving import document, install
from tests.support.running_server import wait_for

import assay
from assay.cli.main import app
from assay.documents import to_json
from assay.exec.document import execute_document
from assay.plan.job import Job
from assay.report.live import SilentView
from assay.run.scoring import OUTPUTS, read_outputs
from assay.spec.benchmark import Definition
from assay.store.location import store_folder
from assay.store.store import Store

pytestmark = pytest.mark.live

KEY = "a-key-that-must-not-stay"


@pytest.fixture(autouse=True)
def _leaver(tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)
    monkeypatch.setenv("LEAVER_KEY", KEY)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store():
    opened = Store(store_folder(None))
    yield opened
    opened.close()


def job_file(folder: Path, *, runs=2, **search) -> Path:
    definition = {name: part for name, part in document(runs=runs, **search).items() if name != "benchmark"}
    path = folder / "job.json"
    job = Job("b", "d" * 64, 0, Definition.model_validate_json(json.dumps(definition)), base=str(folder), campaign="c")
    path.write_text(to_json(job))
    return path


def all_bytes(folder: Path) -> bytes:
    found = b""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found += gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    return found


def test_a_local_run_keeps_its_files_by_content(store):
    result = assay.run(document(echo=True))
    (job,) = result.jobs
    assert job.state == "done", job.error
    for run in job.runs:
        assert set(run.files) == {OUTPUTS, "service-llm.err"}
        path = store.file_of(job.job, run.run_id, OUTPUTS)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == run.files[OUTPUTS]
        answers = list(read_outputs(path))
        assert answers[0].text == "a cat sat on the mat ***"
        assert answers[0].more == {"ttft_ms": 1.5}
        assert store.file_of(job.job, run.run_id, "service-llm.err").read_text() == f"run {run.run_id} is up with ***\n"
    assert store.file_of(job.job, 0, "nothing") is None
    assert store.file_of(job.job, 9, OUTPUTS) is None
    # The same answers are one file; the logs differ.
    assert job.runs[0].files[OUTPUTS] == job.runs[1].files[OUTPUTS]
    assert len([path for path in store.artefacts.folder.rglob("*") if path.is_file()]) == 3
    assert KEY.encode() not in all_bytes(store.folder)


def test_a_run_that_was_killed_keeps_the_log_of_its_service(store):
    result = assay.run(document(runs=2, die=0))
    (job,) = result.jobs
    killed, fine = job.runs
    assert killed.error.signal == "SIGKILL"
    assert set(killed.files) == {"service-llm.err"}
    assert store.file_of(job.job, 0, "service-llm.err").read_text() == "run 0 is up with ***\n"
    assert set(fine.files) == {OUTPUTS, "service-llm.err"}


def test_a_run_that_refused_keeps_it_too(store):
    (job,) = assay.run(document(runs=1, refuse=True)).jobs
    assert job.state == "failed"
    assert set(job.runs[0].files) == {"service-llm.err"}
    assert store.runs(job.job)[0].files == job.runs[0].files


def test_a_document_is_executed_with_its_files_beside_it(tmp_path):
    out = tmp_path / "out"
    result = execute_document(job_file(tmp_path), out, SilentView())
    for run in result.runs:
        for digest in run.files.values():
            content = (out / "files" / digest[:2] / digest).read_bytes()
            assert hashlib.sha256(content).hexdigest() == digest
    assert json.loads((out / "result.json").read_text())["runs"][0]["files"] == result.runs[0].files
    assert KEY.encode() not in all_bytes(out)
    assert not list(Path(out / "files" / "incoming").iterdir())


def test_files_outlive_a_killed_attempt_and_a_damaged_one_is_measured_again(tmp_path):
    job, out = job_file(tmp_path, runs=2, wait=True), tmp_path / "out"
    (tmp_path / "go0").touch()
    process = subprocess.Popen([sys.executable, "-m", "assay", "exec", str(job), "--out", str(out)])
    started = tmp_path / "started"
    wait_for(lambda: started.exists() and started.read_text().split() == ["0", "1"], what="the second run")
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = json.loads((out / "runs" / "0.json").read_text())["files"]
    (tmp_path / "go1").touch()
    result = execute_document(job, out, SilentView())
    assert result.runs[0].files == before
    assert (tmp_path / "started").read_text().split() == ["0", "1", "1"]
    (out / "result.json").unlink()
    digest = result.runs[1].files["service-llm.err"]
    (out / "files" / digest[:2] / digest).write_bytes(b"damaged")
    again = execute_document(job, out, SilentView())
    assert (tmp_path / "started").read_text().split() == ["0", "1", "1", "1"]
    assert again.runs[1].files == result.runs[1].files


def test_another_job_in_the_folder_finds_no_files(tmp_path):
    out = tmp_path / "out"
    first = execute_document(job_file(tmp_path, answers=["one"], references=["one"]), out, SilentView())
    second = job_file(tmp_path, answers=["two"], references=["one"])
    second.write_text(second.read_text().replace("d" * 64, "e" * 64))
    execute_document(second, out, SilentView())
    digest = first.runs[0].files[OUTPUTS]
    assert not (out / "files" / digest[:2] / digest).exists()


def test_an_interrupted_campaign_continues_with_the_files_it_has(store, tmp_path):
    code = f"import assay; assay.run({document(runs=2, wait=True)!r})"
    (tmp_path / "go0").touch()
    process = subprocess.Popen([sys.executable, "-c", code])
    started = tmp_path / "started"
    wait_for(lambda: started.exists() and started.read_text().split() == ["0", "1"], what="the second run")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "go1").touch()
    (job,) = assay.run(document(runs=2, wait=True)).jobs
    assert (tmp_path / "started").read_text().split() == ["0", "1", "1"]
    assert store.file_of(job.job, 0, "service-llm.err").read_text() == "run 0 is up with ***\n"
    assert store.file_of(job.job, 1, OUTPUTS) is not None


def test_removing_a_campaign_removes_the_files_that_no_other_has(store):
    first, second = assay.run(document()), assay.run(document(), fresh=True)
    one = store.file_of(first.jobs[0].job, 0, OUTPUTS)
    assert one == store.file_of(second.jobs[0].job, 0, OUTPUTS)
    store.remove(first.record.campaign)
    assert one.is_file()
    store.remove(second.record.campaign)
    assert not [path for path in store.artefacts.folder.rglob("*") if path.is_file()]


def test_an_export_has_every_file(tmp_path, capsys):
    result = assay.run(document())
    with pytest.raises(SystemExit):
        app(["results", "export", result.record.campaign, "--out", str(tmp_path / "export")])
    files = tmp_path / "export" / result.record.campaign / "files"
    assert sorted(path.name for path in files.iterdir()) == [
        "job-0-run-0-outputs.jsonl.gz",
        "job-0-run-0-service-llm.err",
        "job-0-run-1-outputs.jsonl.gz",
        "job-0-run-1-service-llm.err",
    ]
    assert len(list(read_outputs(files / "job-0-run-0-outputs.jsonl.gz"))) == 3
