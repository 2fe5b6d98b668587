"""What belongs to a run: its time, its job, its group, and its services for as long as they lived."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from tests.unit.monitoring.scrapes import BEGIN, metrics, node, series, server
from tests.unit.report import watched

from assay.clock import iso
from assay.monitoring.discovery import Life
from assay.monitoring.monitor import FACT, MetricsOwner, joined, of_run, phases_of
from assay.run.probes import FILE as TELEMETRY
from assay.run.records import RunOutcome, SingleRunResult
from assay.store.telemetry import FILE, decode


def run(begin=0.0, end=10.0, **more) -> SingleRunResult:
    moments = [iso(datetime.fromtimestamp(BEGIN + at, UTC)) for at in (begin, end)]
    return SingleRunResult(0, True, *moments, end - begin, **more)


def moments(found, name):
    return sorted({round((at - BEGIN * 1e3) / 1e3) for one in found.named(name) for at in one.at_ms.tolist()})


def test_a_run_has_the_scrapes_of_its_own_time():
    found = of_run(metrics(*node()), run(4, 7), MetricsOwner("j"))
    assert moments(found, "up") == [4, 5, 6, 7]


def test_everything_gets_the_label_of_its_job():
    found = of_run(metrics(*node(), *server()), run(), MetricsOwner("c1-job-0"))
    assert {one.labels["job"] for one in found.series} == {"c1-job-0"}
    assert all({"campaign", "job", "node"} <= set(one.labels) for one in found.series)
    assert all(one.labels["service"] == "llm" for one in found.named("vllm:num_requests_running"))


def test_another_job_and_another_group_are_left_out():
    everything = metrics(
        *node("n1", job="j1"), *node("n2", job="j2"), *server("a", group="g1"), *server("b", group="g2")
    )
    found = of_run(everything, run(), MetricsOwner("j1", group="g1"))
    assert {one.labels["node"] for one in found.named("node_memory_MemTotal_bytes")} == {"n1"}
    assert {one.labels.get("service") for one in found.named("vllm:num_requests_running")} == {"a"}


def test_a_service_is_not_blamed_for_the_time_before_and_after_its_life():
    labels = {"service": "llm", "node": "n1", "job": "assay"}
    up = series("up", labels, [0, 0, 1, 1, 1, 1, 0, 0, 0, 0])
    life = Life("llm", BEGIN + 1.5, BEGIN + 5.5, {"node": "n1", "job": "j"})
    found = of_run(metrics(up), run(), MetricsOwner("j"), [life])
    assert moments(found, "up") == [2, 3, 4, 5]
    assert found.named("up")[0].value.all()


def test_a_service_that_never_lived_leaves_nothing_and_one_that_was_killed_lives_on():
    up = series("up", {"service": "llm", "node": "n1"}, [0, 1, 0])
    assert of_run(metrics(up), run(), MetricsOwner("j"), []).series == ()
    open_end = Life("llm", BEGIN, None, {})
    assert moments(of_run(metrics(up), run(), MetricsOwner("j"), [open_end]), "up") == [0, 1, 2]


def test_a_secret_that_a_service_says_back_is_not_kept(monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cr3t-value")
    rows = series("x", {"url": "http://h/?key=s3cr3t-value"}, [1.0])
    found = of_run(metrics(rows), run(), MetricsOwner("j", secrets=("MY_KEY",)))
    assert "s3cr3t" not in str(found.series[0].labels)


def test_the_file_and_the_figures_are_kept_with_the_run(tmp_path):
    telemetry = tmp_path / TELEMETRY
    telemetry.write_bytes(watched.recorded())
    outcome = RunOutcome(run(0, 19, facts={"load": {}}), files={TELEMETRY: telemetry})
    offset = BEGIN + 8 - watched.BEGIN / 1e9  # the window of ten seconds begins 8 s after the first scrape
    after = joined(outcome, metrics(*node(), *server()), MetricsOwner("j"), tmp_path, offset_s=offset)
    assert set(after.files) == {TELEMETRY, FILE}
    assert after.result.facts["load"] == {}
    told = after.result.facts[FACT]
    assert told["over"] == "the measured window"
    assert told["seconds"] == pytest.approx(10.0, abs=1e-3)
    found = decode(after.files[FILE].read_bytes())
    assert found.measured == pytest.approx((BEGIN + 8, BEGIN + 18), abs=1e-3)


def test_without_both_clocks_the_first_look_is_the_start_of_the_run():
    phases = {name: (begin, end) for name, begin, end in phases_of(run(), watched.recorded())}
    assert phases["measure"] == pytest.approx((BEGIN + 5, BEGIN + 15), abs=1e-3)  # it is 5 s after the first look


def test_phases_that_cannot_be_read_are_not_there():
    assert phases_of(run(), None) == phases_of(run(), b"rubbish") == ()


def test_a_run_of_which_nothing_was_scraped_says_so(tmp_path):
    after = joined(RunOutcome(run(100, 101)), metrics(*node()), MetricsOwner("j"), tmp_path)
    assert after.files == {}
    assert "nothing was scraped" in after.result.absent[FILE]
    assert np.isfinite(after.result.duration_seconds)


def test_a_node_that_nobody_claims_belongs_to_the_runs_on_it():
    everything = metrics(*node("n1"), *node("n2"), *node("n3", job="j"), *node("n4", group="g"))
    for own, there in (("", {"n1", "n2", "n3", "n4"}), ("n1", {"n1", "n3", "n4"})):
        found = of_run(everything, run(), MetricsOwner("j", group="g", node=own))
        assert {one.labels["node"] for one in found.series} == there
