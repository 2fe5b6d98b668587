"""The load loop against a model of known speed: what it reports must be what was true."""

import json
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from assay.analyse.steady_state import enough, steady
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.contract import Order, Rules
from assay.run.load.in_process import drive, multi_stream, offline, single_stream
from assay.run.load.timing import Stopwatch, harness_cost_ns, quiet_collector
from assay.run.records import DeviceProof
from assay.spec.benchmark import Definition

pytestmark = pytest.mark.quiet


class FakeStage:
    def __init__(self):
        self.phases = []

    @contextmanager
    def phase(self, name):
        self.phases.append(name)
        yield

    def progress(self, share, note=""):
        assert share >= 0


class Spinner:
    """A model that takes a known time; slow at first, as real ones are."""

    items_per_call = 4

    def __init__(self, seconds=0.0005, slow_calls=0, used="cpu"):
        self.seconds, self.slow_calls, self.used = seconds, slow_calls, used
        self.calls = 0
        self.closed = False

    def load(self):
        time.sleep(0.02)

    def call(self):
        def spin():
            self.calls += 1
            until = time.perf_counter() + self.seconds * (5 if self.calls <= self.slow_calls else 1)
            while time.perf_counter() < until:
                pass

        return spin

    def proof(self):
        return DeviceProof("cpu", self.used, {"Fake": 1}, "the test")

    def facts(self):
        return {"fake": True}

    def close(self):
        self.closed = True


def order(**sections):
    definition = Definition.model_validate_json(
        __import__("json").dumps(
            {"target": {"model": "m"}, "measure": {"until": {"at_least": 0.05, "at_most": 0.3}}, **sections}
        )
    )
    return Order(Job("b", "d", 0, definition), 0, "/nowhere")


RULES = Rules(steady=steady, enough=enough)


@pytest.mark.simulated
def test_it_reports_the_true_latency_and_throughput():
    measured = drive(Spinner(), order(), FakeStage(), RULES)
    latency = next(one for one in measured.samples if one.phase == "measure")
    assert np.median(latency.value) == pytest.approx(0.5, rel=0.05)
    # Between two calls of 0.5 ms there is only the loop itself, and what a busy machine does meanwhile.
    assert 0.3 * 4 / 0.0005 < measured.metrics["throughput_per_s"] <= 4 / 0.0005
    assert measured.metrics["load_ms"] >= 20
    assert 10 < measured.metrics["cpu_pct"] < 110
    assert 0.05 < measured.metrics["cpu_ms"] < 1.0
    assert len(latency.value) == len(latency.at_ns)
    assert (np.diff(latency.at_ns) > 0).all()


@pytest.mark.simulated
def test_slow_first_calls_are_warm_up_not_results():
    measured = drive(Spinner(slow_calls=20), order(), FakeStage(), RULES)
    warm = next(one for one in measured.samples if one.phase == "warmup")
    kept = next(one for one in measured.samples if one.phase == "measure")
    assert warm.value[:5].min() > 2.0
    assert np.percentile(kept.value, 75) < 1.0
    assert measured.facts["warmup"]["how"] == "detected"


def test_every_item_of_the_measured_phase_is_counted():
    measured = drive(Spinner(seconds=0.0001), order(), FakeStage(), RULES)
    kept = next(one for one in measured.samples if one.phase == "measure")
    assert measured.facts["counted"] == {"items": 4 * len(kept.value)}


def test_phases_come_in_order_and_the_model_is_closed():
    stage, model = FakeStage(), Spinner(seconds=0.0001)
    drive(model, order(), stage, RULES)
    assert stage.phases == ["load", "first", "warmup", "measure", "score", "cleanup"]
    assert model.closed


def moved(times):
    """A rule by which the level moved so often, and lasts from then on."""
    answers = iter(["moved"] * times)
    return lambda before, window: next(answers, "level")


@pytest.mark.parametrize("until", [{"at_least": 0.02, "at_most": 0.3}, {"samples": 100}])
def test_what_was_measured_while_the_level_moved_is_warm_up(until):
    stage = FakeStage()
    rules = Rules(steady=lambda durations: True, enough=lambda durations, relative: True, lasting=moved(2))
    measured = drive(Spinner(seconds=0.0001), order(measure={"until": until}), stage, rules)
    warm, kept = measured.samples
    assert stage.phases == ["load", "first", *["warmup", "measure"] * 3, "score", "cleanup"]
    assert (warm.phase, kept.phase) == ("warmup", "measure")
    assert measured.facts["warmup"]["begun_again"] == 2
    assert measured.facts["warmup"]["calls"] == len(warm.value) >= 2 * 64
    assert (np.diff(warm.at_ns) > 0).all()
    assert measured.facts["counted"] == {"items": 4 * len(kept.value)}


def test_a_window_begins_again_only_while_a_warm_up_may_last():
    rules = Rules(steady=lambda durations: True, enough=lambda durations, relative: True, lasting=moved(10**9))
    measured = drive(
        Spinner(seconds=0.0001),
        order(measure={"until": {"at_least": 0.02, "at_most": 0.1}}),
        FakeStage(),
        rules,
    )
    # A warm-up may last a second here, and no window is shorter than 20 ms.
    assert 1 <= measured.facts["warmup"]["begun_again"] <= 1 / 0.02


@pytest.mark.parametrize("warmup", ["none", 7])
def test_a_warm_up_that_the_file_sets_is_not_prolonged(warmup):
    rules = Rules(steady=steady, enough=enough, lasting=moved(1))
    measured = drive(
        Spinner(seconds=0.0001), order(measure={"warmup": warmup, "until": {"samples": 20}}), FakeStage(), rules
    )
    assert "begun_again" not in measured.facts["warmup"]


def test_times_that_may_still_move_are_watched_longer():
    def calls(answer):
        rules = Rules(steady=lambda durations: True, enough=lambda durations, relative: True, lasting=lambda *_: answer)
        measured = drive(
            Spinner(seconds=0.0001), order(measure={"until": {"at_least": 0.02, "at_most": 1}}), FakeStage(), rules
        )
        return measured.window.wall_s

    assert calls("level") < 0.2 <= calls("recent")
    assert calls("unclear") >= 0.4


@pytest.mark.parametrize(("warmup", "calls"), [("none", 0), (7, 7)])
def test_warm_up_can_be_given(warmup, calls):
    measured = drive(
        Spinner(seconds=0.0001), order(measure={"warmup": warmup, "until": {"samples": 20}}), FakeStage(), RULES
    )
    assert measured.facts["warmup"]["calls"] == calls


def test_exactly_the_samples_requested():
    measured = drive(Spinner(seconds=0.0001), order(measure={"until": {"samples": 123}}), FakeStage(), RULES)
    assert len(next(one for one in measured.samples if one.phase == "measure").value) == 123


def test_a_call_longer_than_the_whole_time_is_measured_once():
    measured = drive(
        Spinner(seconds=0.4), order(measure={"warmup": "none", "until": {"at_most": "100ms"}}), FakeStage(), RULES
    )
    assert len(measured.samples[-1].value) == 1


def test_another_device_than_asked_is_a_failure_and_still_cleans_up():
    model = Spinner(seconds=0.0001, used="gpu")
    with pytest.raises(MeasureError, match="gpu did the work"):
        drive(model, order(), FakeStage(), RULES)
    assert model.closed


class Hungry(Spinner):
    def load(self):
        self.weights = np.ones(20_000_000)  # 160 MB while loading
        self.weights = self.weights[:10].copy()


def hungry():
    """Print what a hungry model's memory was; run in a process of its own, as every run is."""
    measured = drive(Hungry(seconds=0.0001), order(), FakeStage(), RULES)
    print(json.dumps({"apart": measured.facts["memory_peaks_apart"], **measured.metrics}))


def test_memory_peaks_are_apart():
    code = "from tests.unit.run.test_in_process import hungry; hungry()"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["apart"]:
        pytest.skip("this system keeps one high-water mark only")
    assert found["peak_load_rss_mb"] > found["baseline_rss_mb"] + 120
    assert found["peak_run_rss_mb"] < found["peak_load_rss_mb"] - 100


def test_multi_stream_runs_its_calls_at_once_and_waits_for_the_slowest():
    running, seen = [], []
    lock = threading.Lock()

    def call():
        with lock:
            running.append(1)
            seen.append(len(running))
        time.sleep(0.01)
        with lock:
            running.pop()

    with multi_stream(call, 4) as block:
        watch = Stopwatch()
        block(watch, 5)
    assert len(seen) == 20
    assert max(seen) == 4
    assert watch.durations_ns.min() >= 10_000_000


def test_offline_streams_share_the_work_and_keep_every_time():
    calls = []
    with offline(lambda: calls.append(1), 3) as block:
        watch = Stopwatch()
        block(watch, 30)
    assert len(calls) == watch.count == 30
    assert (watch.starts_ns > 0).all()


def test_a_failing_call_in_a_stream_reaches_the_caller():
    def broken():
        raise RuntimeError("boom")

    with multi_stream(broken, 2) as block, pytest.raises(RuntimeError, match="boom"):
        block(Stopwatch(), 1)


def test_the_stopwatch_grows_and_keeps_what_it_has():
    watch = Stopwatch(2)
    with single_stream(lambda: None) as block:
        for _ in range(5):
            block(watch, 7)
    assert watch.count == len(watch.starts_ns) == 35
    assert (np.diff(watch.starts_ns) > 0).all()


def test_the_harness_cost_is_small_and_not_zero():
    assert 0 < harness_cost_ns(lambda: None) < 50_000


def test_the_collector_is_quiet_only_inside():
    import gc

    with quiet_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
