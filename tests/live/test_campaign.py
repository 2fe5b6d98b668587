"""The whole path on this machine, with real processes: resume after every kind of end, and nothing lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from sqlalchemy import event
from tests.support.running_server import wait_for

import assay
from assay.errors import MeasureError, SpecError, StoreError
from assay.report.live import SilentView
from assay.store.store import Store
from assay.store.tables import JobRow

pytestmark = pytest.mark.live

ASSAY = [sys.executable, "-m", "assay"]


# A command that leaves a line for every run that it finishes, and goes on after so many when the file `go` is there.
WORK = """
while [ ! -e go ] && [ -e finished ] && [ $(wc -l < finished) -ge {most} ]; do sleep 0.02; done
echo $1 $ASSAY_RUN_ID >> finished
echo speed: 1.$RANDOM
"""


def program(tmp_path, *, runs=3, jobs=2, most=1000):
    """A benchmark of that command."""
    (tmp_path / "work.sh").write_text(WORK.format(most=most))
    document = {
        "benchmark": "interrupted",
        "target": {"command": "x", "metrics": [{"name": "speed", "pattern": r"speed: (\S+)", "better": "higher"}]},
        "measure": {"runs": runs},
        "matrix": {"target.command": [f"bash work.sh job{index}" for index in range(jobs)]},
    }
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(document))
    return path


def finished(tmp_path):
    path = tmp_path / "finished"
    return path.read_text().splitlines() if path.exists() else []


def end(process, how):
    """End a process, and wait until all that it started has ended too."""
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(how)
    process.wait()
    wait_for(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below))


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


def leftovers():
    return list(Path(os.environ["TMPDIR"]).iterdir())


def _heed_interrupts():
    """A shell starts background jobs with Ctrl-C ignored, and that is inherited; what is tested here must heed it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(path, *options):
    command = [*ASSAY, "run", str(path), "--format", "json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts)  # noqa: PLW1509


def run(path, *options):
    return subprocess.run([*ASSAY, "run", str(path), "--format", "json", *options], capture_output=True, text=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_continues_and_repeats_nothing(tmp_path, how):
    path = program(tmp_path, most=4)
    first = start(path)
    wait_for(lambda: len(finished(tmp_path)) == 4)
    end(first, how)
    assert first.returncode == (-9 if how == signal.SIGKILL else 130)
    done_before = finished(tmp_path)
    (tmp_path / "go").touch()
    second = run(path)
    assert second.returncode in (0, 1), second.stderr
    assert "resumed" in second.stderr
    record = json.loads(second.stdout)
    assert [job["state"] for job in record["jobs"]] == ["done", "done"]
    assert [len(job["runs"]) for job in record["jobs"]] == [3, 3]
    # Only the run in flight may have been made twice; every finished one was kept.
    assert len(finished(tmp_path)) <= 7
    assert finished(tmp_path)[: len(done_before)] == done_before
    wait_for(lambda: not leftovers())


def test_a_finished_campaign_is_measured_anew_the_next_time(tmp_path):
    path = program(tmp_path, runs=1, jobs=1)
    first, second = run(path), run(path)
    assert json.loads(first.stdout)["campaign"] != json.loads(second.stdout)["campaign"]
    assert len(finished(tmp_path)) == 2


def test_fresh_begins_again(tmp_path):
    path = program(tmp_path, runs=2, jobs=1, most=1)
    first = start(path)
    wait_for(lambda: finished(tmp_path))
    end(first, signal.SIGKILL)
    (tmp_path / "go").touch()
    record = json.loads(run(path, "--fresh").stdout)
    assert len(finished(tmp_path)) == 3
    assert len(record["jobs"][0]["runs"]) == 2
    states = {one.state for one in Store(Path(os.environ["ASSAY_STORE"])).campaigns()}
    assert states == {"cancelled", "done"}


def test_another_configuration_is_never_mixed_in(tmp_path):
    path = program(tmp_path, runs=3, jobs=1, most=1)
    first = start(path)
    wait_for(lambda: finished(tmp_path))
    end(first, signal.SIGKILL)
    (tmp_path / "work.sh").write_text("echo changed $ASSAY_RUN_ID >> finished; echo speed: 1\n")
    done = run(path)
    assert "resumed" not in done.stderr
    assert [line for line in finished(tmp_path) if line.startswith("changed")] == [
        "changed 0",
        "changed 1",
        "changed 2",
    ]


def test_two_at_once_do_not_harm_each_other(tmp_path):
    path = program(tmp_path, runs=2, jobs=1)
    both = [start(path), start(path)]
    records = [json.loads(one.communicate()[0]) for one in both]
    assert records[0]["campaign"] != records[1]["campaign"]
    assert [len(record["jobs"][0]["runs"]) for record in records] == [2, 2]
    assert len(finished(tmp_path)) == 4


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path):
    store = tmp_path / "small"
    store.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(store)], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        path = program(tmp_path, runs=3, jobs=1)
        (tmp_path / "work.sh").write_text("for i in $(seq 20000); do echo speed: $RANDOM.$RANDOM; done\n")
        done = run(path, "--store", str(store))
        assert done.returncode == 3
        assert "disk" in done.stderr or "space" in done.stderr.lower() or "full" in done.stderr
        assert done.stdout == ""
        assert Store(store).campaigns()[0].state == "interrupted"
    finally:
        subprocess.run(["umount", "-l", str(store)], check=True)
    assert not leftovers()


def test_python_gives_the_same_records(tmp_path, tiny_model):
    document = {
        "benchmark": "from python",
        "target": {"model": str(tiny_model)},
        "measure": {"runs": 3, "until": {"samples": 700}},
        "objective": {"latency_ms.p99": 1000},
    }
    result = assay.run(document)
    job = result.jobs[0]
    assert job.state == "done"
    assert job.metrics["latency_ms"].count == 2100
    assert job.metrics["latency_ms"].p99 is not None
    assert job.metrics["latency_ms"].interval is not None
    assert [gate.passed for gate in job.gates] == [True]
    assert sum(len(one.value) for one in result.samples(job.job, 0) if one.phase == "measure") == 700
    assert json.loads(result.to_json())["campaign"] == result.record.campaign
    assert "<table" in result._repr_html_()
    assert "<svg" in result.to_html()
    assert "latency_ms" in str(result)
    assert result.to_csv().startswith("CreatedUtc,")
    assert "from python" in result.to_markdown()


def test_a_view_sees_the_phases(tmp_path, tiny_model):
    class Seen(SilentView):
        def __init__(self):
            self.phases = []

        def phase(self, name):
            self.phases.append(name)

    view = Seen()
    assay.run(
        {"benchmark": "v", "target": {"model": str(tiny_model)}, "measure": {"runs": 1, "until": {"samples": 10}}},
        view=view,
    )
    assert view.phases == ["prepare", "load", "first", "warmup", "measure", "score", "cleanup"]


def test_wrong_use_from_python():
    with pytest.raises(SpecError, match="target"):
        assay.run({"benchmark": "x"})
    with pytest.raises(StoreError):
        assay.run({"benchmark": "x", "target": {"command": "true"}}, store="/proc/nowhere")


def test_another_engine_is_refused():
    with pytest.raises(MeasureError, match="slurm"):
        assay.run({"benchmark": "x", "target": {"command": "true"}, "place": {"engine": "slurm"}})


def test_a_third_partys_target_is_measured(tmp_path, monkeypatch, tiny_model):
    (tmp_path / "abacus.py").write_text(
        "from assay.run.contract import Measured\n"
        "from assay.run.records import DeviceProof\n"
        "def measure(order, stage, rules):\n"
        "    with stage.phase('measure'):\n"
        "        proof = DeviceProof('cpu', 'cpu', {}, 'the beads')\n"
        "        return Measured({'latency_ms': 4.0 + order.run_id}, device=proof)\n"
    )
    info = tmp_path / "abacus-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[assay.targets]\nabacus = abacus:measure\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bench = tmp_path / "b.json"
    bench.write_text(
        json.dumps(
            {"benchmark": "t", "target": {"model": tiny_model.name, "runtime": "abacus"}, "measure": {"runs": 3}}
        )
    )
    job = json.loads(run(bench).stdout)["jobs"][0]
    assert job["state"] == "done"
    assert job["metrics"]["latency_ms"]["median"] == 5.0


# -- a campaign of many jobs -----------------------------------------------------------------------------------------


def refused(jobs):
    """A benchmark whose jobs no machine can take, so that no process is started."""
    return {
        "benchmark": "refused",
        "target": {"command": "true"},
        "needs": {"cpus": 100_000},
        "matrix": {"measure.runs": list(range(1, jobs + 1))},
    }


def rows_read(jobs, store):
    found = []

    def read(row, _context):
        found.append(row.id)

    event.listen(JobRow, "load", read)
    try:
        assay.run(refused(jobs), store=store)
    finally:
        event.remove(JobRow, "load", read)
    return len(found)


def test_the_work_for_a_job_does_not_grow_with_its_campaign(tmp_path):
    counts = {jobs: rows_read(jobs, tmp_path / str(jobs)) for jobs in (2, 4, 12)}
    per_job = (counts[4] - counts[2]) / 2
    assert counts[12] == counts[4] + 8 * per_job, counts


def test_a_campaign_of_which_some_jobs_failed_is_partial(tmp_path):
    document = {
        "benchmark": "mixed",
        "target": {"command": "x"},
        "measure": {"runs": 1},
        "matrix": {"target.command": ["true", "false"]},
    }
    result = assay.run(document, store=tmp_path)
    assert [job.state for job in result.jobs] == ["done", "failed"]
    assert result.record.state == "partial"
    store = Store(tmp_path)
    assert store.campaigns()[0].state == "partial"
    assert store.campaigns()[0].completed_at is not None
    store.close()


def test_a_campaign_of_which_all_jobs_failed_is_failed(tmp_path):
    result = assay.run(refused(2), store=tmp_path)
    assert result.record.state == "failed"
