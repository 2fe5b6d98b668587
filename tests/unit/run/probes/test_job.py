"""Real jobs watched by the real process, with known truth."""

from __future__ import annotations

import csv
import gzip
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

import psutil
import pytest
from tests.support.running_server import wait_for
from tests.unit.run.services.conftest import await_gone

from assay.run.probes import FILE, JobProbe, job_probe

pytestmark = pytest.mark.live

SPIN = "import time\nuntil = time.monotonic() + 600\nwhile time.monotonic() < until: pass"
SLEEP = "import time; time.sleep(600)"


@contextmanager
def running(code: str):
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@pytest.mark.quiet
def test_a_busy_job_and_its_file(tmp_path):
    with job_probe(tmp_path, 0.05, own=(os.getpid(),)) as probe:
        probe.ready()
        with running(SPIN) as job:
            probe.begin(job.pid)
            time.sleep(0.3)
            begin, before_s = perf_counter_ns(), cpu_s(job.pid)
            time.sleep(1.0)
            end, after_s = perf_counter_ns(), cpu_s(job.pid)
        marks = [("warmup", begin - 10**8, begin), ("measure", begin, end)]
        middle = (begin + end) // 2
        seen = probe.finish(marks, {"first half": (begin, middle)}, tmp_path / "files" / FILE)
    truth_pct = 100 * (after_s - before_s) / ((end - begin) / 1e9)  # other programs may take part of the core
    assert seen.statistics["job.cpu_pct"]["mean"] == pytest.approx(truth_pct, abs=15)
    assert seen.statistics["job.processes"] == {"mean": 1.0, "min": 1.0, "max": 1.0}
    assert seen.statistics["job.rss_bytes"]["mean"] > 3e6
    assert seen.statistics["machine.cpu_pct"]["mean"] >= seen.statistics["job.cpu_pct"]["mean"] - 15
    assert seen.window_ns == (begin, end)
    assert seen.every_s == 0.05
    assert 6 <= seen.looks <= 21
    assert 0 < seen.cost["cpu_pct"] < 20
    assert 0 < seen.cost["look_ms"] <= seen.cost["slowest_look_ms"]
    assert "job.cpu_pct" in seen.spans["first half"]["statistics"]
    assert seen.spans["first half"]["window_ns"] == [begin, middle]
    kept = rows(tmp_path / "files" / FILE)
    phases = [(row["name"], int(row["at_ns"]), float(row["value"])) for row in kept if row["source"] == "phase"]
    assert phases == [
        ("warmup", begin - 10**8, 1.0),
        ("warmup", begin, 0.0),
        ("measure", begin, 1.0),
        ("measure", end, 0.0),
    ]
    series = {(row["source"], row["name"]) for row in kept}
    assert {("job", "cpu_pct"), ("others", "cpu_pct"), ("machine", "cpu_pct"), ("own", "cpu_pct")} <= series
    assert {("machine", "memory_available_bytes"), ("machine", "net_in_bytes_per_s")} <= series


@pytest.mark.quiet
def test_what_others_do_is_not_the_jobs(tmp_path):
    with job_probe(tmp_path, 0.05, own=(os.getpid(),)) as probe, running(SLEEP) as job:
        probe.begin(job.pid)
        with running(SPIN) as other:
            time.sleep(0.3)
            begin, before_s = perf_counter_ns(), cpu_s(other.pid)
            time.sleep(0.8)
            end, after_s = perf_counter_ns(), cpu_s(other.pid)
        seen = probe.finish([("measure", begin, end)], {}, tmp_path / FILE)
    truth_pct = 100 * (after_s - before_s) / ((end - begin) / 1e9)
    assert truth_pct > 20
    assert seen.statistics["others.cpu_pct"]["mean"] >= truth_pct - 15
    assert seen.statistics["job.cpu_pct"]["mean"] < 15


@pytest.mark.quiet
def test_shares_add_up(tmp_path):
    with job_probe(tmp_path, 0.05, own=(os.getpid(),)) as probe, running(SPIN) as job:
        probe.begin(job.pid)
        begin = perf_counter_ns()
        time.sleep(0.7)
        seen = probe.finish([("measure", begin, perf_counter_ns())], {}, tmp_path / FILE)
    mean = {name: seen.statistics[f"{name}.cpu_pct"]["mean"] for name in ("machine", "job", "others", "own")}
    assert mean["job"] + mean["others"] + mean["own"] == pytest.approx(mean["machine"], abs=10)


@pytest.mark.quiet
def test_bytes_written_are_seen(tmp_path):
    target = tmp_path / "data"
    code = (
        f"import os, time\ntime.sleep(0.6)\nwith open({str(target)!r}, 'wb') as file:\n"
        "    for _ in range(8):\n        file.write(os.urandom(2_000_000)); file.flush(); os.fsync(file.fileno())\n"
        "        time.sleep(0.05)\ntime.sleep(600)"
    )
    with job_probe(tmp_path, 0.05) as probe, running(code) as job:
        probe.begin(job.pid)
        begin = perf_counter_ns()
        wait_for(lambda: target.exists() and target.stat().st_size == 16_000_000, what="all bytes")
        time.sleep(0.2)
        end = perf_counter_ns()
        seen = probe.finish([("measure", begin, end)], {}, tmp_path / FILE)
    told = seen.statistics.get("job.disk_write_bytes_per_s", {"mean": 0.0})
    if not told["mean"]:
        pytest.skip(seen.absent.get("job.disk", "this file system does not count bytes for processes"))
    assert told["mean"] * (end - begin) / 1e9 == pytest.approx(16e6, rel=0.2)


@pytest.mark.quiet
def test_processes_beside_the_first_one_belong_to_the_job(tmp_path):
    with job_probe(tmp_path, 0.05) as probe, running(SLEEP) as job, running(SPIN) as service:
        probe.begin(job.pid, beside=(service.pid,))
        begin = perf_counter_ns()
        time.sleep(0.8)
        seen = probe.finish([("measure", begin, perf_counter_ns())], {}, tmp_path / FILE)
    assert seen.statistics["job.cpu_pct"]["mean"] > 20
    assert seen.statistics["job.processes"]["max"] == 2


@pytest.mark.quiet
def test_one_process_for_all_runs_and_each_has_its_own_readings(tmp_path):
    with job_probe(tmp_path, 0.05) as probe:
        seen = []
        for code in (SPIN, SLEEP):
            with running(code) as job:
                probe.begin(job.pid)
                begin = perf_counter_ns()
                time.sleep(0.4)
                end = perf_counter_ns()
            seen.append(probe.finish([("measure", begin, end)], {}, tmp_path / f"{len(seen)}.csv.gz"))
    first, second = (one.statistics["job.cpu_pct"]["mean"] for one in seen)
    assert first > second + 15
    of_first, of_second = ({int(row["at_ns"]) for row in rows(tmp_path / f"{run}.csv.gz")} for run in (0, 1))
    assert not of_first & of_second


@pytest.mark.quiet
def test_a_run_that_crashed_is_seen_from_its_begin_to_its_end(tmp_path):
    with job_probe(tmp_path, 0.02) as probe:
        probe.ready()
        with running("import os, time; time.sleep(1.5); os.abort()") as job:  # longer than any start of the probe
            before = perf_counter_ns()
            probe.begin(job.pid)
            job.wait()
        seen = probe.finish([], {}, tmp_path / FILE)
        after = perf_counter_ns()
    assert before <= seen.window_ns[0] < seen.window_ns[1] <= after
    assert (seen.window_ns[1] - seen.window_ns[0]) / 1e9 > 0.25
    assert "job.rss_bytes" in seen.statistics
    assert rows(tmp_path / FILE)


def test_a_job_that_is_gone_before_the_first_look_leaves_the_machine(tmp_path):
    with job_probe(tmp_path, 0.02) as probe:
        probe.ready()
        with running("pass") as job:
            job.wait()
        probe.begin(job.pid)
        time.sleep(1.0)
        seen = probe.finish([], {}, tmp_path / FILE)
    assert "machine.cpu_pct" in seen.statistics
    assert "job.cpu_pct" not in seen.statistics


def process_of(probe: JobProbe) -> psutil.Process:
    return psutil.Process(probe._process.pid)


def test_a_killed_probe_is_reported_and_ends_nothing(tmp_path):
    with job_probe(tmp_path, 0.05) as probe, running(SLEEP) as job:
        probe.begin(job.pid)
        process_of(probe).send_signal(signal.SIGKILL)
        begin = time.monotonic()
        seen = probe.finish([("measure", 1, 2)], {}, tmp_path / FILE)
        assert seen.absent == {"probe": "the watching process ended with code -9"}
        assert seen.looks == 0
        probe.begin(job.pid)
        assert probe.finish([], {}, tmp_path / FILE).absent == seen.absent
        assert time.monotonic() - begin < 60
    assert not (tmp_path / FILE).exists()


def test_a_probe_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setitem(JobProbe.finish.__globals__, "_SUM_UP_S", 0.3)
    with job_probe(tmp_path, 0.05) as probe, running(SLEEP) as job:
        probe.begin(job.pid)
        process_of(probe).send_signal(signal.SIGSTOP)
        seen = probe.finish([], {}, tmp_path / FILE)
    assert seen.absent == {"probe": "the watching process does not answer"}


@pytest.mark.quiet
def test_one_that_is_ready_late_joins_late(tmp_path, monkeypatch):
    monkeypatch.setitem(JobProbe.finish.__globals__, "_BEGIN_S", 0.0)
    with job_probe(tmp_path, 0.05) as probe, running(SPIN) as job:
        probe.begin(job.pid)
        time.sleep(1.0)
        seen = probe.finish([], {}, tmp_path / FILE)
    assert seen.statistics["job.cpu_pct"]["mean"] > 20
    assert "probe" not in seen.absent


def test_one_that_cannot_be_started_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with job_probe(tmp_path, 0.05) as probe:
        probe.ready()
        probe.begin(os.getpid())
        seen = probe.finish([], {}, tmp_path / FILE)
    assert "could not be started" in seen.absent["probe"]


def test_more_marks_than_a_pipe_holds_keep_nobody_waiting(tmp_path):
    with job_probe(tmp_path, 0.05) as probe, running(SLEEP) as job:
        probe.begin(job.pid)
        now = perf_counter_ns()
        time.sleep(0.2)
        marks = [("warmup", now, now + 1)] * 20_000 + [("measure", now, now + 10**8), ("measure", now, now + 2 * 10**8)]
        seen = probe.finish(marks, {}, tmp_path / FILE)
    assert seen.window_ns == (now, now + 2 * 10**8)


def test_a_folder_that_takes_no_file_is_reported(tmp_path):
    with job_probe(tmp_path, 0.05) as probe, running(SLEEP) as job:
        probe.begin(job.pid)
        (tmp_path / "plain").write_text("")
        seen = probe.finish([], {}, tmp_path / "plain" / FILE)
    assert "could not be written" in seen.absent["file"]
    assert seen.statistics


def test_it_ends_with_who_started_it(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from assay.run.probes import job_probe\n"
        "with job_probe(Path(sys.argv[1]), 0.1) as p: p.ready(); print(p._process.pid, flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    with holder.stdout:
        pid = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
    await_gone(pid)


def test_nothing_stays_when_the_body_raises(tmp_path):
    found = []

    def body():
        with job_probe(tmp_path, 0.05) as probe:
            found.append(process_of(probe))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        body()
    assert not found[0].is_running()


def test_it_is_light():
    """No library but the standard one, and a start below 150 ms of processor time."""
    code = "import assay.run.probes.sampler, sys, time; print(time.process_time(), *sys.modules)"
    costs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        cost, *modules = done.stdout.split()
        costs.append(float(cost))
    loaded = {name.partition(".")[0] for name in modules}
    assert not loaded & {"numpy", "pydantic", "psutil", "pynvml", "pyarrow", "httpx", "plistlib"}
    assert min(costs) < 0.15
