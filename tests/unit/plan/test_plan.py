"""Benchmarks become plans: points, digests, what is refused, and how long a job will take by what its load asks for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, MeasureError, SpecError
from assay.plan.job import FINAL, TABLE, after, digest_of
from assay.plan.plan import combine, estimate, make_plan, points, refuse_unsupported
from assay.spec.benchmark import Benchmark, Definition
from assay.spec.load import check, load
from assay.spec.matrix import Matrix
from assay.spec.source import parse


def plan(document, files=None):
    return make_plan(load(document), lambda _: files or {})


def base(**more):
    return {"benchmark": "p", "target": {"model": "m.onnx"}, **more}


def test_the_product_of_the_axes_in_the_order_of_the_file():
    made = plan(base(matrix={"workload.batch": [1, 8], "target.threads": [1, 2]}))
    assert [dict(job.point) for job in made.jobs] == [
        {"workload.batch": 1, "target.threads": 1},
        {"workload.batch": 1, "target.threads": 2},
        {"workload.batch": 8, "target.threads": 1},
        {"workload.batch": 8, "target.threads": 2},
    ]
    assert [job.definition.workload.batch for job in made.jobs] == [1, 1, 8, 8]
    assert [job.index for job in made.jobs] == [0, 1, 2, 3]


def test_exclude_removes_and_include_adds():
    matrix = {
        "workload.batch": [1, 8],
        "target.threads": [1, 2],
        "exclude": [{"workload.batch": 8, "target.threads": 1}],
        "include": [{"workload.batch": 32, "target.threads": 4}],
    }
    made = plan(base(matrix=matrix))
    assert [(job.definition.workload.batch, job.definition.target.threads) for job in made.jobs] == [
        (1, 1),
        (1, 2),
        (8, 2),
        (32, 4),
    ]


def test_no_matrix_is_one_job():
    assert len(plan(base()).jobs) == 1


def test_a_matrix_that_excludes_everything_is_an_error():
    with pytest.raises(SpecError, match="no point left"):
        plan(base(matrix={"workload.batch": [1], "exclude": [{"workload.batch": 1}]}))


def test_points_that_are_wrong_are_all_reported_at_the_line_of_their_axis():
    source = parse("benchmark: p\ntarget: {model: m}\nmatrix:\n  workload.batch: [1, 0, -3]\n", ".yaml", "f")
    with pytest.raises(SpecError) as caught:
        make_plan(check(source, None), lambda _: {})
    assert [problem.at for problem in caught.value.problems] == ["f:4", "f:4"]


SAME = [
    base(measure={"until": {"at_most": "30s"}}),
    base(measure={"until": {"at_most": "30000ms"}, "runs": 5}),
    base(measure={"runs": 5, "until": {"at_most": 30}}, workload={"seed": 0}),
    {
        "target": {"model": "m.onnx", "device": "CPU (ONNX)"},
        "measure": {"until": {"at_most": "0.5m"}},
        "benchmark": "q",
    },
]


def test_same_meaning_same_digest():
    assert len({plan(document).jobs[0].digest for document in SAME}) == 1


OTHER = [base(), base(workload={"batch": 2}), base(workload={"seed": 1}), base(measure={"runs": 4}),
         base(target={"model": "n.onnx"}), base(target={"model": "m.onnx", "threads": 1})]  # fmt: skip


def test_other_meaning_other_digest():
    assert len({plan(document).jobs[0].digest for document in OTHER}) == len(OTHER)


def test_a_model_counts_by_content_not_by_path():
    here = plan(base(), {"m.onnx": "a" * 64}).jobs[0].digest
    there = plan(base(target={"model": "dir/m.onnx"}), {"dir/m.onnx": "a" * 64}).jobs[0].digest
    changed = plan(base(), {"m.onnx": "b" * 64}).jobs[0].digest
    assert here == there != changed


def test_a_digest_is_stable_across_versions():
    # Pinned on purpose: a change here makes every stored result a stranger to its own benchmark.
    definition = plan(base(workload={"batch": 4})).jobs[0].definition
    assert digest_of(definition, {})[:16] == "ca7cf0450838e293"


@given(
    st.dictionaries(
        st.sampled_from(["a.b", "c", "d.e"]), st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1
    )
)
def test_points_are_unique_and_complete(axes):
    matrix = Matrix({path: tuple(values) for path, values in axes.items()})
    found = [json.dumps(point, sort_keys=True) for point in points(matrix)]
    expected = 1
    for values in axes.values():
        expected *= len(set(values))
    assert len(found) == len(set(found)) == expected


def test_an_estimate_uses_what_is_known():
    definition = plan(base()).jobs[0].definition
    assert estimate(definition, 12.0).expected_s == 12.0
    assert estimate(definition, None).expected_s > 5 * 10
    command = plan({"benchmark": "c", "target": {"command": "x"}}).jobs[0].definition
    assert estimate(command, None).expected_s is None


def test_final_states_end_and_every_other_state_can_be_cancelled():
    assert all(state not in FINAL or event == "retry" for state, event in TABLE)
    assert {state for state, event in TABLE if event == "cancel"} == {"pending", "running"}


def test_a_step_that_the_table_lacks_is_refused():
    with pytest.raises(AssayError, match="done cannot start"):
        after("done", "start")


def test_plans_are_joined_in_order_and_equal_jobs_stay_two():
    one, two = plan(base(matrix={"workload.batch": [1, 8]})), plan(base(workload={"batch": 8}))
    joined = combine([one, two]).submitted_as("c")
    assert [job.definition.workload.batch for job in joined.jobs] == [1, 8, 8]
    assert [job.id for job in joined.jobs] == ["c-job-0", "c-job-1", "c-job-2"]
    assert joined.jobs[1].digest == joined.jobs[2].digest
    assert joined.benchmark == "p"
    assert len({one.digest, two.digest, joined.digest, combine([two, one]).digest}) == 4
    assert combine([one]) == one


def test_nothing_cannot_be_joined():
    with pytest.raises(SpecError, match="nothing to plan"):
        combine([])


ENDPOINT = {"endpoint": "http://127.0.0.1:1/v1", "api": "openai-chat", "model": "m"}


def job(load, *, runs=3, warmup="none", **more) -> Definition:
    measure = {"runs": runs, "warmup": warmup, **more.pop("measure", {})}
    document = {"target": ENDPOINT, "load": load, "measure": measure, **more}
    return Definition.model_validate_json(json.dumps(document))  # only JSON may give a list for a tuple


@pytest.mark.parametrize(
    ("load", "seconds"),
    [
        ({"rate": 20.0, "duration": 60.0}, 3 * 60),
        ({"rate": 5.0, "requests": 300}, 3 * 60),
        ({"rate": 5.0, "requests": 300, "duration": 20.0}, 3 * 20),
        ({"concurrency": 4, "duration": 60.0}, 3 * 60),
        ({"concurrency": 4, "duration": 1.0}, 3 * 1),
        ({"concurrency": 4, "duration": 60.0, "ramp": 30.0}, 3 * 90),
        ({"stages": [{"rate": 1.0, "duration": 20.0}, {"rate": 5.0, "to": 9.0, "duration": 100.0}]}, 3 * 120),
        ({"stages": [{"concurrency": 2, "duration": 30.0}]}, 3 * 30),
    ],
)
def test_a_load_takes_as_long_as_it_requests(load, seconds):
    found = estimate(job(load), None)
    assert seconds < found.expected_s < seconds + 3 * 2, "each run adds the start of a process"
    assert found.least_s is None
    assert "load" in found.source


def test_a_warm_up_that_is_detected_makes_a_range():
    found = estimate(job({"rate": 20.0, "duration": 60.0}, warmup="auto"), None)
    assert 3 * 60 < found.least_s < 3 * 60 + 6
    assert 3 * 120 < found.expected_s < 3 * 120 + 6
    short = estimate(job({"concurrency": 1, "duration": 1.0}, runs=1, warmup="auto"), None)
    assert 1 < short.least_s < short.expected_s < 4


def test_a_warm_up_of_a_given_length_is_added():
    found = estimate(job({"rate": 20.0, "duration": 60.0}, warmup=30.0), None)
    assert 3 * 90 < found.expected_s < 3 * 90 + 6
    by_count = estimate(job({"rate": 10.0, "duration": 60.0}, warmup=100), None)
    assert 3 * 70 < by_count.expected_s < 3 * 70 + 6


def test_a_closed_loop_of_so_many_requests_is_not_guessed():
    found = estimate(job({"concurrency": 4, "requests": 300}), None)
    assert (found.expected_s, found.least_s) == (None, None)
    assert "300 requests" in found.source
    assert "the server decides" in found.source
    both = estimate(job({"concurrency": 4, "requests": 300, "duration": 60.0}), None)
    assert both.least_s == 0
    assert both.expected_s > 3 * 60


def test_a_search_says_how_long_it_may_take():
    definition = job({"rate": "search"}, runs=5, warmup="auto", objective={"ttft_ms.p99": 500.0})
    found = estimate(definition, None)
    assert found.least_s == 0, "up to"
    assert found.expected_s >= 5 * 3 * 12 * 10
    assert found.expected_s <= found.at_most_s
    assert "search" in found.source


def test_a_trace_takes_as_long_as_it_was_recorded():
    known = estimate(job({"trace": "trace.csv"}), None, trace_s=200.0)
    assert 3 * 200 < known.expected_s < 3 * 200 + 6
    assert estimate(job({"trace": "trace.csv"}), None).expected_s is None
    cut = estimate(job({"trace": "trace.csv", "duration": 50.0}), None, trace_s=200.0)
    assert 3 * 50 < cut.expected_s < 3 * 50 + 6


def test_no_run_is_expected_to_outlast_its_deadline():
    found = estimate(job({"rate": 1.0, "duration": 600.0}, measure={"timeout": 100.0}), None)
    assert found.expected_s == found.at_most_s == 300.0


def test_what_is_known_goes_before():
    assert estimate(job({"rate": "search"}, objective={"ttft_ms.p99": 500.0}), 77.0).expected_s == 77.0


def benchmark(**more):
    return Benchmark.model_validate({"benchmark": "b", "target": {"command": "true"}, **more})


def test_an_engine_of_another_place_is_refused():
    with pytest.raises(MeasureError, match="'slurm'"):
        refuse_unsupported(benchmark(place={"engine": "slurm"}))
    refuse_unsupported(benchmark(place={"engine": "slurm"}), ("slurm",))


def test_monitoring_is_refused_where_nobody_starts_it():
    refuse_unsupported(benchmark(monitoring=True))
    with pytest.raises(MeasureError, match="agents of a server"):
        refuse_unsupported(benchmark(monitoring=True), ("fleet", "local"))
    refuse_unsupported(benchmark(monitoring=False), ("fleet", "local"))
