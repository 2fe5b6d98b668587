"""Results as they come in: from a real run on this machine, from histories with known truth, and from before."""

import json
import subprocess
import sys

import pytest
from tests.support.histories import nights, result
from tests.unit.store.setups import FakeClock

from assay.alert.ingest import alerted, collect, expect, moment_of, observe
from assay.analyse.records import CampaignRecord
from assay.clock import iso
from assay.series.repository import SeriesStore
from assay.store.store import Store

ASSAY = [sys.executable, "-m", "assay"]


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def record(number, *results, benchmark="bench"):
    return CampaignRecord(f"c{number}", benchmark, "", "done", results)


@pytest.mark.simulated
def test_a_history_that_comes_in_night_by_night_is_found_once_and_explained(store):
    clock, told = FakeClock(), []
    around = lambda n: {"commit": f"{n:040x}", "host": "b" if n >= 30 else "a"}  # noqa: E731
    for number, (one, _) in enumerate(nights(60, 30, 0.08, around)):
        clock.pass_s(86_400)
        told += observe(store, record(number, one), clock)
    believed = {one.id for one in told if one.finding.answer != "cannot tell"}
    (known,) = SeriesStore(store).findings(state="open")
    assert believed == {known.id}
    assert (known.finding.answer, known.triage.cause) == ("worse", "machine")
    assert SeriesStore(store).list()[0].points == 60


def test_a_result_that_comes_twice_counts_once(store):
    one = result(10.0, 1)
    observe(store, record(1, one))
    observe(store, record(1, one))
    assert SeriesStore(store).list()[0].points == 1


def test_jobs_that_were_not_measured_are_no_points(store):
    from dataclasses import replace

    waiting = replace(result(10.0, 1), state="pending", metrics={}, environment={})
    cancelled = replace(result(10.0, 2), state="cancelled", metrics={})
    assert observe(store, record(1, waiting, cancelled)) == ()
    assert SeriesStore(store).list() == ()


def test_the_time_of_a_result_is_when_it_ended():
    from dataclasses import replace

    clock = FakeClock()
    ended = replace(result(10.0, 1), completed_at=iso(clock.utc()))
    clock.pass_s(999)
    assert moment_of(ended, clock) == clock.utc().timestamp() - 999
    assert moment_of(replace(ended, completed_at=None), clock) == clock.utc().timestamp()
    assert moment_of(replace(ended, completed_at="yesterday"), clock) == clock.utc().timestamp()


def test_what_alerts_of_a_file_name_is_watched():
    document = {
        "alerts": [
            {"metric": "ttft_ms.p99", "when": "worse"},
            {"when": "failed"},
            {"when": "no rule"},
            3,
            {"metric": "ttft_ms.p99", "when": "above", "value": 3.0},
        ]
    }
    assert alerted(document) == ("ttft_ms.p99",)
    assert alerted({}) == ()


def test_expecting_a_change_begins_again(store):
    clock = FakeClock()
    for number, (one, _) in enumerate(nights(60, 40, 0.08, lambda n: {})):
        clock.pass_s(86_400)
        observe(store, record(number, one), clock)
    (known,) = SeriesStore(store).findings(state="open")
    assert expect(store, known.id, clock).state == "expected"
    assert SeriesStore(store).findings(state="open") == ()


PROGRAM = """
import os, sys, assay
run = int(os.environ["ASSAY_RUN_ID"])
assay.emit({"step_ms": float(open("speed").read()) + run / 100})
"""


@pytest.mark.live
def test_runs_on_this_machine_make_points(write, tmp_path, monkeypatch):
    import assay

    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "kept"))
    write("work.py", PROGRAM)
    metrics = [{"name": "step_ms", "unit": "ms", "better": "lower"}]
    document = {
        "benchmark": "steps",
        "target": {"command": [sys.executable, "work.py"], "metrics": metrics},
        "measure": {"runs": 2, "control": False, "probe": "off"},
        "labels": {"team": "x"},
        "objective": {"step_ms.mean": 20.0},
    }
    bench = write("bench.json", json.dumps(document))
    write("speed", "10")
    done = subprocess.run([*ASSAY, "run", str(bench), "--format", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for number in (1, 2):
        write("speed", str(10 + number / 50))
        assay.run(bench)
    kept = Store(tmp_path / "kept")
    series = SeriesStore(kept)
    by_metric = {one.metric: one for one in series.list()}
    assert set(by_metric) == {"step_ms", "step_ms.mean"}
    points = series.points(by_metric["step_ms"].id)
    assert [round(one.value, 3) for one in points] == [10.005, 10.025, 10.045]
    assert by_metric["step_ms"].labels == {"team": "x"}
    assert points[0].job.endswith("-job-0")
    assert points[0].context["kernel"]
    assert points[0].standard_error == pytest.approx(0.005)
    # A job that fails is a point without a value.
    (tmp_path / "speed").unlink()
    assert assay.run(bench).jobs[0].state == "failed"
    assert [one.value for one in series.points(by_metric["step_ms"].id)][3] is None
    # What is there can be collected again, and nothing is doubled.
    found = collect(kept)
    assert (found.results, len(found.series)) == (4, 2)
    assert len(series.points(by_metric["step_ms"].id)) == 4
    kept.close()


@pytest.mark.live
def test_results_from_before_there_were_series_are_collected(write, tmp_path):
    from sqlalchemy import text

    import assay

    write("speed", "10")
    write("work.py", PROGRAM)
    target = {"command": [sys.executable, str(tmp_path / "work.py")], "cwd": str(tmp_path)}
    document = {"benchmark": "steps", "target": target, "measure": {"runs": 1, "control": False, "probe": "off"}}
    assay.run(document, store=tmp_path / "kept")
    kept = Store(tmp_path / "kept")
    with kept.engine.begin() as connection:
        connection.execute(text("DELETE FROM points"))
        connection.execute(text("DELETE FROM series"))
    assert SeriesStore(kept).list() == ()
    assert collect(kept).results == 1
    assert [one.metric for one in SeriesStore(kept).list()] == ["step_ms"]
    kept.close()
