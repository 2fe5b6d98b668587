"""A history played into a store: results like measured ones, and findings that are held against the truth."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from scripts.detection_score import RecordingObserver, marks, score

from assay.analyse.series.identity import context, machine_kind
from assay.demo.replay import play
from assay.report.result import read_campaign
from assay.series.repository import SeriesStore
from assay.sim.history import History, truth
from assay.store.store import Store

FIRST = datetime(2025, 1, 1, 3, tzinfo=UTC)
SMALL = {
    "seed": 5,
    "nights": 110,
    "start": FIRST.isoformat(),
    "runs": 3,
    "hosts": {
        "a": {
            "cpu": "one",
            "cores": 4,
            "memory": "16GiB",
            "gpu": "H100",
            "driver": "550",
            "packages": {"onnxruntime": "1.20"},
        },
        "b": {
            "cpu": "one",
            "cores": 4,
            "memory": "16GiB",
            "gpu": "H100",
            "driver": "550",
            "packages": {"onnxruntime": "1.20"},
        },
    },
    "benchmarks": [
        {
            "host": "a",
            "file": {
                "benchmark": "small",
                "target": {"model": "m.onnx"},
                "matrix": {"workload.batch": [1, 8]},
                "alerts": [{"metric": "throughput_per_s", "when": "worse"}],
            },
            "jobs": [
                {
                    "latency_ms": {"level": 10, "spread": "1%"},
                    "throughput_per_s": {"level": 100, "spread": "0.2%", "against": "latency_ms"},
                },
                {
                    "latency_ms": {"level": 60, "spread": "1.5%"},
                    "throughput_per_s": {"level": 130, "spread": "0.2%", "against": "latency_ms"},
                },
            ],
        }
    ],
    # Two changes in each series: the batch of 1 gets new code and a new model, the batch of 8 a driver and a machine.
    "events": [
        {"night": 30, "what": "step", "cause": "code", "jobs": [0], "moves": {"small": {"latency_ms": "8%"}}},
        {
            "night": 45,
            "what": "step",
            "cause": "environment",
            "jobs": [1],
            "host": "a",
            "driver": "560",
            "moves": {"small": {"latency_ms": "-7%"}},
        },
        {"night": 50, "until": 53, "what": "outage", "host": "a"},
        {"night": 56, "what": "failed", "jobs": [1], "of": {"small": []}, "note": "out-of-memory: killed at load"},
        {
            "night": 80,
            "what": "step",
            "cause": "machine",
            "jobs": [1],
            "host": "a",
            "to": "b",
            "control": "8%",
            "moves": {"small": {"latency_ms": "9%"}},
        },
        {
            "night": 95,
            "what": "step",
            "cause": "data or model",
            "jobs": [0],
            "model": "small",
            "moves": {"small": {"latency_ms": "-10%"}},
        },
    ],
}


@pytest.fixture(scope="module")
def history() -> History:
    return History.model_validate_json(json.dumps(SMALL))


@pytest.fixture(scope="module")
def played(history, tmp_path_factory):
    kept, watch = Store(tmp_path_factory.mktemp("year") / "store"), RecordingObserver(FIRST)
    assert play(history, kept, watch, FIRST) == 2 * (110 - 4)
    yield kept, watch
    kept.close()


@pytest.fixture(scope="module")
def store(played):
    return played[0]


@pytest.mark.simulated
def test_what_is_found_is_what_was_done(history, played):
    store, watch = played
    lines = score(truth(history), watch.found(store))
    told = marks(lines)
    assert told.true == 8  # two steps in four series
    assert told.missed <= 1, [line for line in lines if line.outcome == "missed"]
    assert told.false <= 1, [line for line in lines if line.outcome == "false"]
    assert told.place <= 1
    assert told.size <= 0.01
    assert told.holds >= told.found - 2
    assert told.right_cause >= told.found - 1, [
        (line.series, line.truth.night, line.truth.cause, line.found.cause)
        for line in lines
        if line.right_cause is False
    ]
    waits = [line.waited for line in lines if line.waited is not None]
    assert min(waits) >= 0  # nobody knows before
    assert sorted(waits)[len(waits) // 2] <= 7
    assert told.right_at_first >= told.found - 2
    assert told.withdrawn <= 2, [line for line in lines if line.outcome == "withdrawn"]
    # What was never told as better or worse is no claim; whatever was is in the list.
    claimed = {name for name, said in watch.diary.items() if any(one.answer != "cannot tell" for one in said)}
    assert len(claimed) == told.found + told.false + told.parts + told.withdrawn


def test_every_night_is_a_campaign_with_results_like_measured_ones(store):
    newest, *_, oldest = store.campaigns(1000)
    assert newest.created_at > oldest.created_at == FIRST.isoformat(timespec="milliseconds")
    record = read_campaign(store, oldest.id)
    assert [job.state for job in record.jobs] == ["done", "done"]
    assert [dict(job.point) for job in record.jobs] == [{"workload.batch": 1}, {"workload.batch": 8}]
    stats = record.jobs[0].metrics["latency_ms"]
    assert stats.runs == 3
    assert stats.interval.low < 10 < stats.interval.high or stats.median == pytest.approx(10, rel=0.05)
    around = context(record.jobs[0])
    assert {"commit", "model", "driver", "packages", "kernel", "machine", "control", "throttled", "spec"} <= set(around)
    assert machine_kind(record.jobs[0].environment)["gpu"] == "H100"
    later = context(read_campaign(store, newest.id).jobs[0])
    assert (around["machine"], later["machine"]) == ("a", "b")
    assert around["model"] != later["model"]


def test_a_series_continues_across_machines_of_a_kind_models_and_drivers(store):
    known = SeriesStore(store)
    series = known.list()
    assert len(series) == 4
    assert {one.points for one in series} == {106}
    failed = [point for one in series for point in known.points(one.id) if point.value is None]
    assert {point.verdict for point in failed} == {"failed"}
    assert len(failed) == 2  # both metrics of the second job


def test_the_digest_of_such_a_store(store):
    from assay.alert.digest import build, digest_markdown
    from assay.alert.digest.material import read
    from assay.api.store_source import StoreSource

    until = FIRST.timestamp() + 110 * 86_400
    found = read(StoreSource(store), until - 20 * 86_400, until)
    made = build(found.material, until - 20 * 86_400, until)
    assert made.series == made.fresh == 4
    assert {one.cause for one in made.movements} == {"data or model"}
    assert len(made.movements) == 2
    assert len(made.groups) == 1
    assert "model" in made.groups[0].title
    assert {one.answer for one in made.movements} == {"better"}
    text = digest_markdown(made)
    assert "assay results show" in text
    for name, spots in found.spots.items():
        assert len(spots) == 106
        assert len(found.past[name]) == 2
    assert not made.silent

    earlier = FIRST.timestamp() + 60 * 86_400  # a digest that ends in the past knows nothing of what came later
    found = read(StoreSource(store), earlier - 7 * 86_400, earlier)
    made = build(found.material, earlier - 7 * 86_400, earlier)
    assert [(one.times, "out-of-memory" in one.why) for one in made.failed] == [(1, True)]
    assert made.last_at < earlier


def test_a_job_that_ended_silent_is_reported(store):
    from assay.alert.digest import build
    from assay.alert.digest.material import read
    from assay.api.store_source import StoreSource

    late = FIRST.timestamp() + 120 * 86_400
    found = read(StoreSource(store), late - 7 * 86_400, late)
    made = build(found.material, late - 7 * 86_400, late)
    assert [one.metrics for one in made.silent] == [("latency_ms", "throughput_per_s")] * 2
    assert not made.groups
