from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.judge import describe_for, judge
from assay.analyse.records import MultiRunJobResult
from assay.documents import from_json, to_json
from assay.run.records import DeviceProof, Failure, SampleSet

CRASHED = Failure("crashed", "the process ended with signal SIGSEGV", signal="SIGSEGV")
PATTERN = {"name": "speed", "unit": "img/s", "better": "higher", "pattern": "speed: (.*)"}


def test_a_good_job_is_done_and_valid(job, outcome) -> None:
    found = judge(job(), [outcome(run) for run in range(5)], {"os": "linux"})
    assert (found.state, found.verdict, found.error) == ("done", "valid", None)
    assert (found.total_runs, found.successful_runs, found.failed_runs) == (5, 5, 0)
    assert set(found.metrics) == {"latency_ms", "load_ms"}
    assert found.metrics["latency_ms"].count == 10_000
    assert found.metrics["load_ms"].runs == 5
    assert found.cold_start == {"load_ms": 50.0}
    assert found.environment == {"os": "linux"}
    assert found.definition == {"target": {"model": "squeezenet.onnx"}}
    assert (found.started_at, found.completed_at) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:01:04+00:00")


def test_the_result_survives_its_document(job, outcome) -> None:
    found = judge(job(point={"workload.batch": 1}), [outcome(run) for run in range(3)], {})
    assert from_json(MultiRunJobResult, to_json(found), source="test") == found


def test_failed_runs_count_and_give_no_numbers(job, outcome) -> None:
    broken = outcome(1, error=CRASHED, metrics={"load_ms": 1e9})
    found = judge(job(), [outcome(0), broken, outcome(2)], {})
    assert (found.state, found.verdict) == ("done", "invalid")
    assert (found.successful_runs, found.failed_runs) == (2, 1)
    assert set(found.metrics["load_ms"].run_values) == {0, 2}


@pytest.mark.parametrize("runs", [1, 3])
def test_a_job_without_a_good_run_is_failed_with_its_first_failure(job, outcome, runs) -> None:
    found = judge(job(), [outcome(run, error=CRASHED) for run in range(runs)], {}, planned_runs=5)
    assert (found.state, found.verdict, found.metrics) == ("failed", "invalid", {})
    assert (found.total_runs, found.failed_runs) == (5, runs)
    assert found.error is not None
    assert found.error.code == "crashed"
    assert found.error.signal == "SIGSEGV"
    assert ("all 3 runs failed" in found.error.message) is (runs == 3)
    assert found.checks


def test_a_job_without_runs_is_failed(job) -> None:
    found = judge(job(), [], {})
    assert (found.state, found.verdict, found.started_at) == ("failed", "invalid", None)
    assert found.error is not None


def test_a_job_whose_runs_were_all_cancelled_is_cancelled(job, outcome) -> None:
    found = judge(job(), [outcome(0, error=Failure("cancelled", "cancelled by the user"))], {})
    assert found.state == "cancelled"


def test_a_run_on_another_device_fails_the_job_and_gives_no_numbers(job, outcome) -> None:
    elsewhere = outcome(1, device=DeviceProof("cuda", "cpu", {}, "the session's providers"))
    found = judge(job(objective={"latency_ms.median": 99.0}), [outcome(0), elsewhere], {})
    assert (found.state, found.verdict, found.metrics) == ("failed", "invalid", {})
    assert found.error is not None
    assert found.error.code == "device"
    assert [gate.passed for gate in found.gates] == [None]


def test_numbers_of_the_cold_run_are_absent_where_it_failed(job, outcome) -> None:
    assert judge(job(), [outcome(0, error=CRASHED), outcome(1)], {}).cold_start == {}


def test_a_metric_without_a_finite_value_is_absent(job, outcome) -> None:
    one = outcome(0, metrics={"load_ms": float("nan"), "first_ms": 3.0})
    found = judge(job(), [one], {})
    assert "load_ms" not in found.metrics
    assert found.metrics["first_ms"].count == 1
    assert found.verdict == "suspect"  # a value that is not a number leaves the others true


def test_samples_go_before_the_number_of_the_whole_run(job, outcome) -> None:
    one = outcome(0, np.ones(10), metrics={"latency_ms": 99.0})
    assert judge(job(), [one], {}).metrics["latency_ms"].max == 1.0


def test_several_sampled_metrics_of_a_program(job, outcome) -> None:
    program = job(target={"command": "train", "metrics": (PATTERN,)})
    at = np.arange(3, dtype=np.int64)
    sets = (
        SampleSet("speed{batch=8}", "measure", at, np.array([10.0, 11.0, 12.0])),
        SampleSet("loss", "measure", at, np.array([3.0, 2.0, 1.0])),
    )
    found = judge(program, [replace(outcome(run, device=None), samples=sets) for run in range(3)], {})
    assert found.metrics["speed{batch=8}"].unit == "img/s"
    assert found.metrics["speed{batch=8}"].better == "higher"
    assert found.metrics["loss"].better is None
    assert found.verdict == "valid"


def test_units_come_from_the_file_then_from_the_name(job) -> None:
    bare = {"name": "step_ms", "pattern": "(.*)"}
    program = job(target={"command": "train", "metrics": (PATTERN, bare)})
    assert (describe_for(program, "step_ms").unit, describe_for(program, "step_ms").better) == ("ms", None)
    assert describe_for(program, "duration_s").better == "lower"
    assert describe_for(job(), "speed").unit == ""
