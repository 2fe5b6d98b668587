from dataclasses import replace

import pytest

from assay.analyse.compare import compare_jobs, not_comparable, pair_jobs
from assay.analyse.records import CampaignRecord

MACHINE = {"machine": {"name": "bench-1", "cpu": "EPYC 7763", "cores": 8}}
SAME = (1.0, 1.001, 0.999)
SLOWER = (1.1, 1.101, 1.099)


def _campaign(*jobs) -> CampaignRecord:
    return CampaignRecord("c", "demo", "2026-01-01T00:00:00+00:00", "done", jobs)


def test_like_results_are_compared_metric_by_metric(result) -> None:
    found = {one.metric: one for one in compare_jobs(result(*SAME), result(*SLOWER))}
    assert set(found) == {"latency_ms", "load_ms"}
    assert found["latency_ms"].answer == "worse"
    assert found["load_ms"].answer == "cannot tell"


def test_like_results_have_nothing_against_them(result) -> None:
    assert not_comparable(result(*SAME), result(*SAME)) == ()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"workload": {"batch": 8}}, "different batch: not set against 8"),
        ({"target": {"model": "squeezenet.onnx", "threads": 2}}, "different threads: not set against 2"),
        ({"target": {"model": "other.onnx"}}, "different model: squeezenet.onnx against other.onnx"),
        ({"load": {"scenario": "multi-stream"}}, "different scenario: not set against multi-stream"),
        (
            {"environment": {"machine": {**MACHINE["machine"], "cpu": "M4"}}},
            "different machine: processor EPYC 7763 against processor M4",
        ),
    ],
)
def test_differences_are_named_and_stop_the_answer(result, changes, sentence) -> None:
    a, b = result(*SAME), result(*SLOWER, **changes)
    assert sentence in not_comparable(a, b)
    (found,) = (one for one in compare_jobs(a, b) if one.metric == "latency_ms")
    assert (found.answer, found.because) == ("cannot tell", (sentence,))
    assert found.change is not None


def test_a_difference_that_is_asked_about_is_compared_anyway(result) -> None:
    a, b = result(*SAME), result(*SLOWER, workload={"batch": 8})
    answers = {one.metric: one.answer for one in compare_jobs(a, b, anyway=True)}
    assert answers["latency_ms"] == "worse"


@pytest.mark.parametrize("changes", [{"measure": {"runs": 9}}, {"objective": {"latency_ms.p99": 9.0}}])
def test_how_long_was_measured_makes_no_difference(result, changes) -> None:
    assert not_comparable(result(*SAME), result(*SAME, **changes)) == ()


def test_load_averages_and_unknown_machines_make_no_difference(result) -> None:
    busy = {"machine": MACHINE["machine"], "load_average": 3.0}
    assert not_comparable(result(*SAME), result(*SAME, environment=busy)) == ()
    assert not_comparable(result(*SAME), result(*SAME, environment={})) == ()


@pytest.mark.parametrize("anyway", [False, True])
def test_invalid_and_failed_results_are_never_compared(result, anyway) -> None:
    good, invalid = result(*SAME), replace(result(*SLOWER), verdict="invalid")
    failed = replace(result(*SLOWER), state="failed")
    assert "the second result is invalid" in not_comparable(good, invalid)[0]
    assert "its job is failed" in not_comparable(failed, good)[0]
    for pair in ((good, invalid), (failed, good)):
        assert {one.answer for one in compare_jobs(*pair, anyway=anyway)} == {"cannot tell"}


def test_models_are_distinguished_by_content_not_by_path(result) -> None:
    def with_digest(job, digest: str):
        runs = tuple(replace(run, facts={"model": {"sha256": digest}}) for run in job.runs)
        return replace(job, runs=runs)

    here, there = result(*SAME), result(*SAME, target={"model": "elsewhere/squeezenet.onnx"})
    assert not_comparable(with_digest(here, "a" * 64), with_digest(there, "a" * 64)) == ()
    (reason,) = not_comparable(with_digest(here, "a" * 64), with_digest(here, "b" * 64))
    assert reason == f"different model digest: {'a' * 12} against {'b' * 12}"


def test_a_definition_of_another_version_is_compared_as_it_is(result) -> None:
    old = replace(result(*SAME), definition={"target": {"unknown": 1}})
    assert "different unknown: 1 against not set" in not_comparable(old, result(*SAME))


def test_jobs_pair_by_digest_whatever_their_order(result) -> None:
    a = [replace(result(1.0), digest=digest, index=i, job=f"a{i}") for i, digest in enumerate("xyz")]
    b = [replace(result(1.0), digest=digest, index=i, job=f"b{i}") for i, digest in enumerate("zxq")]
    pairs = pair_jobs(_campaign(*a), _campaign(*b))
    assert [(one.job, other.job) for one, other in pairs] == [("a0", "b1"), ("a2", "b0")]


def test_jobs_pair_by_point_where_digests_differ(result) -> None:
    a = [replace(result(1.0), digest=f"a{n}", index=i, point={"batch": n}) for i, n in enumerate((1, 8))]
    b = [replace(result(1.0), digest=f"b{n}", index=i, point={"batch": n}) for i, n in enumerate((8, 1))]
    pairs = pair_jobs(_campaign(*a), _campaign(*b))
    assert [(one.point["batch"], other.point["batch"]) for one, other in pairs] == [(1, 1), (8, 8)]


def test_two_single_jobs_pair_and_more_do_not(result) -> None:
    a, b = replace(result(1.0), digest="a"), replace(result(1.0), digest="b")
    assert pair_jobs(_campaign(a), _campaign(b)) == ((a, b),)
    assert pair_jobs(_campaign(a), _campaign(b, replace(b, digest="c"))) == ()
