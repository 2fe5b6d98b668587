"""Campaigns side by side: which jobs belong together, and which results count."""

from dataclasses import replace

import pytest

from assay.analyse.compare import compare_pool, match_jobs, pool
from assay.analyse.compare.jobs import JobMatch
from assay.analyse.records import CampaignRecord

SAME = (1.0, 1.001, 0.999)
SLOWER = (1.1, 1.101, 1.099)


def campaign(*jobs) -> CampaignRecord:
    return CampaignRecord("c", "demo", "2026-01-01T00:00:00+00:00", "done", jobs)


@pytest.fixture
def base(result):
    return result(*SAME)


def at(job, batch: int, name: str, digest: str = ""):
    return replace(job, point={"workload.batch": batch}, job=name, digest=digest or name, index=batch)


def names(jobs) -> list[str]:
    return [job.job for job in jobs]


def test_jobs_match_by_their_point_over_many_campaigns(base) -> None:
    a = [campaign(at(base, 1, f"a{n}1"), at(base, 8, f"a{n}8")) for n in range(3)]
    b = [campaign(at(base, 8, "b8"), at(base, 1, "b1"))]
    found = match_jobs(a, b)
    assert [(names(pair.a), names(pair.b)) for pair in found.pairs] == [
        (["a01", "a11", "a21"], ["b1"]),
        (["a08", "a18", "a28"], ["b8"]),
    ]
    assert (found.only_a, found.only_b) == ((), ())


def test_jobs_without_a_counterpart_are_listed(base) -> None:
    found = match_jobs(
        [campaign(at(base, 1, "a1"), at(base, 2, "a2"))], [campaign(at(base, 2, "b2"), at(base, 4, "b4"))]
    )
    assert [(names(pair.a), names(pair.b)) for pair in found.pairs] == [(["a2"], ["b2"])]
    assert (names(found.only_a), names(found.only_b)) == (["a1"], ["b4"])


def test_a_job_that_only_an_older_campaign_has_is_matched_with_it(base) -> None:
    a = [campaign(at(base, 1, "new1")), campaign(at(base, 1, "old1"), at(base, 8, "old8"))]
    found = match_jobs(a, [campaign(at(base, 8, "b8"))])
    assert [(names(pair.a), names(pair.b)) for pair in found.pairs] == [(["old8"], ["b8"])]


def test_two_single_jobs_match_whatever_their_points(base) -> None:
    found = match_jobs([campaign(at(base, 1, "a"))], [campaign(at(base, 8, "b"))])
    assert [(names(pair.a), names(pair.b)) for pair in found.pairs] == [(["a"], ["b"])]


def test_unusable_and_unlike_results_are_left_out_and_reported(result) -> None:
    good, other = result(*SAME), result(*SAME, workload={"batch": 8})
    failed = replace(result(*SAME), state="failed")
    found = pool(JobMatch((failed, good, other, good), (result(*SLOWER),)))
    assert (len(found.a), found.refused) == (2, ())
    assert found.left_out == (
        "1 result left out: not a measurement: its job is failed",
        "1 result left out: different batch: 8 against not set",
    )
    (line,) = (one for one in compare_pool(found).lines if one.metric == "latency_ms")
    assert line.answer == "worse"


def test_where_no_result_is_comparable_the_newest_says_why(result) -> None:
    other = result(*SAME, workload={"batch": 8})
    found = pool(JobMatch((other, other), (result(*SLOWER),)))
    assert found.refused == ("different batch: 8 against not set",)
    answers = {(one.answer, one.because) for one in compare_pool(found).lines}
    assert answers == {("cannot tell", found.refused)}


def test_a_difference_that_is_asked_about_is_compared_but_not_mixed(result) -> None:
    eight = result(*SAME, workload={"batch": 8})
    found = pool(JobMatch((eight, result(*SAME), eight), (result(*SLOWER),)), anyway=True)
    assert (len(found.a), found.refused) == (2, ())
    assert found.left_out == ("1 result left out: different batch: 8 against not set",)


@pytest.mark.parametrize("anyway", [False, True])
def test_a_side_without_a_usable_result_refuses(result, anyway) -> None:
    failed = replace(result(*SAME), state="failed")
    found = pool(JobMatch((failed, failed), (result(*SAME),)), anyway=anyway, sides=("the baseline", "the new"))
    assert found.refused == ("the baseline result is not a measurement: its job is failed",)


def controlled(took: float, name: str = "bench-1", **more) -> dict:
    return {
        "environment": {
            "machine": {"name": name, "cpu": "EPYC 7763", "cores": 8},
            "before": {"fitness": {"control": {"version": 1, "integer_ms": 10.0, "memory_ms": took}}},
        },
        **more,
    }


def answers(a, b, **how) -> dict:
    return {one.metric: one for one in compare_pool(pool(JobMatch((a,), (b,)), **how)).lines}


def test_a_change_that_is_no_larger_than_the_machines_own_cannot_be_decided(result) -> None:
    """As seen on a shared machine: the control workload took 39 % less, and the job 37 % less."""
    a, b = result(*SAME, **controlled(10.0)), result(*(0.63 * one for one in SAME), **controlled(6.1))
    one = answers(a, b)["latency_ms"]
    assert one.answer == "cannot tell"
    assert one.because[0].startswith("the machine itself moved by as much as the change or more: ")
    assert "the control workload took -39 % around the second result (memory loop)" in one.because[0]
    assert one.change is not None
    assert one.change.high < 0


def test_a_change_that_is_larger_than_the_machines_own_is_reported(result) -> None:
    a, b = result(*SAME, **controlled(10.0)), result(*(0.5 * one for one in SAME), **controlled(6.1))
    assert answers(a, b)["latency_ms"].answer == "better"
    assert answers(a, result(*SLOWER, **controlled(10.3)))["latency_ms"].answer == "worse"


def test_sizes_do_not_depend_on_how_fast_a_machine_is(result, stats) -> None:
    a, b = (
        replace(result(*SAME, **controlled(took)), metrics={"peak_run_rss_mb": stats(*values, unit="MB")})
        for took, values in ((10.0, (50.0, 50.1, 50.2)), (5.0, (60.0, 60.1, 60.2)))
    )
    assert answers(a, b)["peak_run_rss_mb"].answer == "worse"


def test_two_machines_that_are_compared_on_purpose_may_differ(result) -> None:
    a, b = result(*SAME, **controlled(10.0)), result(*SLOWER, **controlled(20.0, "bench-2"))
    assert answers(a, b, anyway=True)["latency_ms"].answer == "worse"
    same = result(*SLOWER, **controlled(20.0, workload={"batch": 8}))
    assert answers(a, same, anyway=True)["latency_ms"].answer == "cannot tell"
