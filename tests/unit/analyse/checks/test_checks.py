"""Each check passes on a good example and fails, or cannot tell, on one built to that end."""

from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.checks import ADVISORY, CHECKS, INVALIDATING, checks_of, verdict_of
from assay.analyse.checks.table import APPLIES
from assay.analyse.judge import judge, metrics_of
from assay.analyse.records import Check
from assay.run.records import OUT_OF_REACH, DeviceProof, Failure, SampleSet

CRASHED = Failure("crashed", "the process ended with signal SIGSEGV")
PROGRAM = {"command": "python train.py"}
ALWAYS = [name for name in CHECKS if name not in APPLIES]


def _check(job, outcomes, name: str) -> Check:
    runs = [one.result for one in outcomes]
    checks = checks_of(job, runs, metrics_of(job, outcomes), {one.result.run_id: one.samples for one in outcomes})
    assert [check.name for check in checks] == [
        name for name in CHECKS if name not in APPLIES or (name == "precise as asked" and job.definition.adds_runs)
    ]
    return next(check for check in checks if check.name == name)


def _with_window(outcome, run: int, **changes):
    one = outcome(run)
    return replace(one, result=replace(one.result, window=replace(one.result.window, **changes)))


def test_a_good_job_passes_or_does_not_apply_everywhere(job, outcome) -> None:
    outcomes = [outcome(run) for run in range(5)]
    answers = {name: _check(job(), outcomes, name).passed for name in ALWAYS}
    assert {name for name, passed in answers.items() if passed is None} == {
        "warm-up over",
        "no foreign process on the device",
    }
    assert False not in answers.values()


@pytest.mark.parametrize("name", ALWAYS)
@pytest.mark.parametrize("runs", [0, 1, 3])
def test_every_check_says_one_plain_sentence_also_where_all_runs_failed(job, outcome, name, runs) -> None:
    found = _check(job(), [outcome(run, error=CRASHED) for run in range(runs)], name)
    assert found.passed is not True
    assert found.detail
    assert "\n" not in found.detail
    assert not found.detail.endswith(".")


@pytest.mark.parametrize(("runs", "passed"), [(1, False), (2, False), (3, True), (5, True)])
def test_enough_runs(job, outcome, runs, passed) -> None:
    assert _check(job(), [outcome(run) for run in range(runs)], "enough runs").passed is passed


@pytest.mark.parametrize(
    ("values", "passed"),
    [
        (np.exp(0.02 * np.random.default_rng(0).standard_normal(500)), True),
        (np.exp(0.5 * np.random.default_rng(0).standard_normal(500)), False),
        ([1.0, 1.1, 1.0, 1.2], False),
    ],
)
def test_enough_samples(job, outcome, values, passed) -> None:
    outcomes = [outcome(0), outcome(1, values), outcome(2)]
    found = _check(job(), outcomes, "enough samples")
    assert found.passed is passed
    assert passed or "run 2" in found.detail


@pytest.mark.parametrize(("taken", "passed"), [(10, True), (9, False)])
def test_enough_samples_where_their_number_was_requested(job, outcome, taken, passed) -> None:
    asked = job(measure={"until": {"samples": 10}})
    found = _check(asked, [outcome(0, np.ones(10)), outcome(1, np.ones(taken))], "enough samples")
    assert found.passed is passed


def test_samples_of_a_program_are_its_own_business(job, outcome) -> None:
    found = _check(job(target=PROGRAM), [outcome(0, [1.0, 2.0], metric="loss")], "enough samples")
    assert found.passed is None


@pytest.mark.parametrize(
    ("steady", "level", "passed"),
    [
        ([True, True], False, True),
        ([True, False], True, True),  # noise hid the end of the warm-up, but what was measured was level
        ([True, False], False, False),
        ([None, None], True, None),
    ],
)
def test_warm_up_over(job, outcome, steady, level, passed) -> None:
    values = np.exp(0.02 * np.random.default_rng(0).standard_normal(500)) * np.linspace(1 if level else 1.3, 1, 500)
    outcomes = [outcome(run, values, facts={"warmup": {"how": "x", "steady": one}}) for run, one in enumerate(steady)]
    assert _check(job(), outcomes, "warm-up over").passed is passed


@pytest.mark.parametrize(("drifting", "passed"), [(0, True), (1, True), (2, False), (5, False)])
def test_steady_state(job, outcome, drifting, passed) -> None:
    level = np.exp(0.02 * np.random.default_rng(0).standard_normal(500))
    outcomes = [outcome(run, level * np.linspace(1, 1.2 if run < drifting else 1, 500)) for run in range(5)]
    found = _check(job(), outcomes, "steady state reached")
    assert found.passed is passed
    assert f"{drifting if not passed else 5 - drifting} of 5 runs" in found.detail


def test_steady_state_names_what_runs_went_through(job, outcome) -> None:
    level = np.exp(0.02 * np.random.default_rng(0).standard_normal(2000))
    outcomes = [outcome(run, level * np.where(np.arange(2000) < 40, 2 - run % 2, 1)) for run in range(5)]
    found = _check(job(), outcomes, "steady state reached")
    assert found.passed is True
    assert found.detail.startswith("5 of 5 runs")
    assert "warm-up in 3 runs" in found.detail


def test_steady_state_of_few_samples_cannot_be_decided(job, outcome) -> None:
    assert _check(job(), [outcome(0, np.ones(10))], "steady state reached").passed is None


def test_a_program_may_report_what_should_move(job, outcome) -> None:
    falling = outcome(0, np.linspace(3, 1, 200), metric="loss")
    found = _check(job(target=PROGRAM), [falling], "steady state reached")
    assert found.passed is None
    assert "loss" in found.detail


@pytest.mark.parametrize(("spread", "passed"), [(0.001, True), (0.2, False)])
def test_interval_narrow_enough(job, outcome, spread, passed) -> None:
    outcomes = [outcome(run, 1 + spread * run + np.zeros(100)) for run in range(4)]
    found = _check(job(measure={"interval": "5%"}), outcomes, "interval narrow enough")
    assert found.passed is passed
    assert "±5.0 %" in found.detail


def test_runs_that_differ_by_a_third_do_not_make_a_number(job, outcome) -> None:
    outcomes = [outcome(run, 1 + 0.3 * (run % 2) + np.zeros(100)) for run in range(4)]
    found = _check(job(), outcomes, "interval narrow enough")
    assert found.passed is False
    assert "±25 %" in found.detail


@pytest.mark.parametrize(("spread", "passed"), [(0.001, True), (0.02, False)])
def test_precise_as_asked(job, outcome, spread, passed) -> None:
    outcomes = [outcome(run, 1 + spread * run + np.zeros(100)) for run in range(5)]
    found = _check(job(), outcomes, "precise as asked")
    assert found.passed is passed
    assert "asked for: ±2.0 %" in found.detail
    assert ("would do" in found.detail) is not passed


def test_a_result_that_is_less_precise_than_asked_is_still_valid() -> None:
    assert verdict_of([Check("precise as asked", False, ""), Check("one level", False, "")]) == "valid"


def test_a_fixed_number_of_runs_has_no_precision_to_reach(job, outcome) -> None:
    fixed = job(measure={"runs": 5})
    outcomes = [outcome(run) for run in range(5)]
    samples = {found.result.run_id: found.samples for found in outcomes}
    checks = checks_of(fixed, [found.result for found in outcomes], metrics_of(fixed, outcomes), samples)
    assert "precise as asked" not in [check.name for check in checks]


def test_runs_on_two_levels_are_named_with_their_shares(job, outcome) -> None:
    level = [1.0, 1.001, 1.1, 0.999, 1.101, 1.0, 1.002, 1.099, 1.001, 1.0]
    outcomes = [outcome(run, level[run] + np.zeros(100)) for run in range(10)]
    found = _check(job(), outcomes, "one level")
    assert found.passed is False
    assert "1 ms in 7 of 10 runs, 1.1 ms in 3 (+10 %)" in found.detail


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ([1.00, 1.02, 1.03, 1.05, 1.08], "rises from run to run, +7.8 % from the first to the last"),
        ([1.08, 1.05, 1.03, 1.02, 1.00], "falls from run to run"),
        ([1.0, 1.01, 1.03, 1.04, 1.05, 1.06, 1.06, 1.05, 1.04, 1.02, 1.0, 0.99], "resembles the run before it"),
    ],
)
def test_runs_that_depend_on_each_other_are_named(job, outcome, level, words) -> None:
    found = _check(job(), [outcome(run, value + np.zeros(100)) for run, value in enumerate(level)], "runs independent")
    assert found.passed is False
    assert words in found.detail


@pytest.mark.parametrize("level", [[1.0, 1.0001, 1.0002, 1.0003, 1.0004], [1.0, 1.05, 0.98, 1.02, 1.01], [1.0, 1.5]])
def test_a_trend_that_is_tiny_or_luck_is_none(job, outcome, level) -> None:
    outcomes = [outcome(run, value + np.zeros(100)) for run, value in enumerate(level)]
    assert _check(job(), outcomes, "runs independent").passed is True


def test_samples_on_two_levels_are_named_with_their_share(job, outcome) -> None:
    rng = np.random.default_rng(3)
    values = [np.where(rng.random(1000) < 0.2, 2.0, 1.0) * (1 + 0.02 * rng.standard_normal(1000)) for _ in range(5)]
    found = _check(job(), [outcome(run, values[run]) for run in range(5)], "one level")
    assert found.passed is False
    assert "two levels in 5 of 5 runs" in found.detail


def test_one_run_has_no_interval(job, outcome) -> None:
    assert _check(job(), [outcome(0)], "interval narrow enough").passed is None


@pytest.mark.parametrize(
    ("objective", "samples", "passed"),
    [
        ({}, 64, True),
        ({}, 20, None),
        ({"latency_ms.p99": 5.0}, 300, False),
        ({"latency_ms.p99": 5.0}, 700, True),
        ({"latency_ms.median": 5.0}, 20, None),
    ],
)
def test_tail_percentile_backed(job, outcome, objective, samples, passed) -> None:
    found = _check(job(objective=objective), [outcome(0, np.ones(samples))], "tail percentile backed")
    assert found.passed is passed


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({"others_cpu_s": 3.1}, True),  # of 4 s on 8 cores
        ({"others_cpu_s": 3.3}, False),
        ({"steal_s": 0.7}, False),
        ({"others_cpu_s": None, "steal_s": 0.0}, True),
        ({"others_cpu_s": None, "steal_s": None}, None),
    ],
)
def test_machine_quiet(job, outcome, changes, passed) -> None:
    assert _check(job(), [_with_window(outcome, 0, **changes)], "machine quiet").passed is passed


def test_one_noisy_run_is_enough_and_is_named(job, outcome) -> None:
    outcomes = [outcome(0), _with_window(outcome, 1, others_cpu_s=16.0), outcome(2)]
    found = _check(job(), outcomes, "machine quiet")
    assert found.passed is False
    assert "50 %" in found.detail
    assert "run 2" in found.detail


@pytest.mark.parametrize(("events", "passed"), [(0, True), (3, False), (None, None)])
def test_clocks_not_throttled(job, outcome, events, passed) -> None:
    found = _check(job(), [_with_window(outcome, 0, throttle_events=events)], "clocks not throttled")
    assert found.passed is passed


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_foreign_processes_are_never_claimed_absent_unread(job, outcome, device) -> None:
    one = job(target={"model": "m.onnx", "device": device})
    assert _check(one, [outcome(0)], "no foreign process on the device").passed is None


@pytest.mark.parametrize(("harness_ns", "passed"), [(9_000.0, True), (11_000.0, False), (None, None)])
def test_client_below_its_own_ceiling(job, outcome, harness_ns, passed) -> None:
    one = outcome(0, np.ones(100))
    one = replace(one, result=replace(one.result, window=replace(one.result.window, harness_ns=harness_ns)))
    assert _check(job(), [one], "client below its own ceiling").passed is passed


@pytest.mark.parametrize(("tolerated", "passed"), [(0.0, False), (0.25, True), (0.2, False)])
def test_errors_below_the_limit(job, outcome, tolerated, passed) -> None:
    outcomes = [*(outcome(run) for run in range(3)), outcome(3, error=CRASHED)]
    found = _check(job(measure={"errors": tolerated}), outcomes, "errors below the limit")
    assert found.passed is passed
    assert "1 of 4 runs failed" in found.detail


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_errors(job, outcome, value) -> None:
    found = _check(job(), [outcome(0, [1.0, value, 1.0])], "values finite")
    assert found.passed is False
    assert "1 of 4 values" in found.detail


@pytest.mark.parametrize(
    ("proof", "passed"),
    [
        (DeviceProof("cpu", "cpu", {}, "profile"), True),
        (DeviceProof("cuda", "cpu", {}, "profile"), False),
        (None, False),
    ],
)
def test_requested_device_used(job, outcome, proof, passed) -> None:
    assert _check(job(), [outcome(0, device=proof)], "requested device used").passed is passed


def test_a_run_that_refused_another_device_fails_the_device_check(job, outcome) -> None:
    refused = outcome(0, error=Failure("device", "CUDAExecutionProvider is not in this build"))
    found = _check(job(target={"model": "m.onnx", "device": "cuda"}), [refused], "requested device used")
    assert found.passed is False
    assert "CUDAExecutionProvider" in found.detail


def test_a_program_requests_no_device(job, outcome) -> None:
    found = _check(job(target=PROGRAM), [outcome(0, device=None)], "requested device used")
    assert found.passed is None


def test_something_measured(job, outcome) -> None:
    nothing = [outcome(0, [np.nan, np.nan]), outcome(1, samples=())]
    assert _check(job(), nothing, "something measured").passed is False
    assert _check(job(), [outcome(0)], "something measured").passed is True


def test_warm_up_samples_are_not_measured_ones(job, outcome) -> None:
    warm = SampleSet("latency_ms", "warmup", np.zeros(99, dtype=np.int64), np.ones(99))
    assert _check(job(), [outcome(0, samples=(warm,))], "something measured").passed is False


@pytest.mark.parametrize("name", [name for name in ALWAYS if name not in ADVISORY])
def test_verdict_of_one_failed_check(name) -> None:
    checks = [Check(other, other != name, "") for other in CHECKS]
    assert verdict_of(checks) == ("invalid" if name in INVALIDATING else "suspect")


def test_checks_that_cannot_be_decided_leave_a_result_valid() -> None:
    assert verdict_of([Check("a", None, ""), Check("b", True, "")]) == "valid"


# -- what a program declared -----------------------------------------------------------------------------------------

DECLARED = {
    "command": "python train.py",
    "metrics": ({"name": "speed", "pattern": "speed: (.*)"}, {"name": "loss"}),
}
UNMATCHED = "its pattern matched nothing in 2 lines of output"


def _reporting(outcome, run: int, *names: str, absent=None, **facts):
    """A run of a program that reports these metrics, each once."""
    sets = tuple(SampleSet(name, "measure", np.zeros(1, dtype=np.int64), np.array([5.0])) for name in names)
    return outcome(run, samples=sets, metrics={"duration_s": 1.0 + run / 1e3}, absent=absent or {}, facts=facts)


def test_a_declared_metric_that_no_run_reports_makes_the_result_invalid_and_is_named(job, outcome) -> None:
    runs = [_reporting(outcome, run, "loss", absent={"speed": UNMATCHED}) for run in range(5)]
    found = judge(job(target=DECLARED), runs, {})
    check = next(one for one in found.checks if one.name == "declared metrics reported")
    assert (found.verdict, check.passed) == ("invalid", False)
    assert "speed" in check.detail
    assert UNMATCHED in check.detail
    assert "loss" not in check.detail


def test_a_declared_metric_that_the_engine_cannot_read_is_unknown_and_named(job, outcome) -> None:
    away = {"speed": f"what the service web writes {OUT_OF_REACH}"}
    runs = [_reporting(outcome, run, "loss", absent=away) for run in range(5)]
    judged = judge(job(target=DECLARED), runs, {})
    check = next(one for one in judged.checks if one.name == "declared metrics reported")
    assert (judged.verdict, check.passed) == ("valid", None)
    assert "speed has a value in 0 of 5 runs: what the service web writes" in check.detail
    both = [_reporting(outcome, run, absent=away | {"loss": UNMATCHED}) for run in range(5)]
    assert judge(job(target=DECLARED), both, {}).verdict == "invalid", "one that could be read is still missing"


def test_a_declared_metric_that_some_runs_do_not_report_is_a_doubt_that_names_it_and_them(job, outcome) -> None:
    runs = [_reporting(outcome, run, "loss", *(["speed"] if run != 3 else [])) for run in range(5)]
    found = judge(job(target=DECLARED), runs, {})
    checks = {one.name: one for one in found.checks}
    assert checks["declared metrics reported"].passed is True
    assert checks["declared metrics in every run"].passed is False
    assert "speed" in checks["declared metrics in every run"].detail
    assert "run 4" in checks["declared metrics in every run"].detail
    assert found.verdict == "suspect"


def test_a_metric_with_a_context_is_reported_under_each_of_its_labels(job, outcome) -> None:
    runs = [_reporting(outcome, run, "speed{batch=1}", "speed{batch=8}", "loss") for run in range(5)]
    checks = {one.name: one for one in judge(job(target=DECLARED), runs, {}).checks}
    assert checks["declared metrics reported"].passed is True
    assert checks["declared metrics in every run"].passed is True


def test_output_that_was_too_long_to_be_read_whole_is_a_doubt_with_its_size(job, outcome) -> None:
    runs = [
        _reporting(outcome, run, "speed", "loss", **({"output_bytes_dropped": 5_000_000} if run == 2 else {}))
        for run in range(5)
    ]
    check = next(one for one in judge(job(target=DECLARED), runs, {}).checks if one.name == "output read whole")
    assert check.passed is False
    assert "run 3" in check.detail
    assert "5,000,000 bytes" in check.detail


def test_output_that_nobody_searches_may_be_as_long_as_it_likes(job, outcome) -> None:
    runs = [_reporting(outcome, run, output_bytes_dropped=5_000_000) for run in range(5)]
    found = judge(job(target=PROGRAM), runs, {})
    assert next(one for one in found.checks if one.name == "output read whole").passed is None
