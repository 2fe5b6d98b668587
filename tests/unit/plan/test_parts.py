"""A load that several machines share: one point becomes a job for each of them, and what is no load is refused."""

import pytest

from assay.errors import MeasureError, SpecError
from assay.place.leasing import needs_key
from assay.place.needs import needs_in_words
from assay.plan.job import is_part, point_key, whole
from assay.plan.plan import make_plan, refuse_parts_in_turn
from assay.spec.load import load

TARGET = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"}


def plan(matrix=None, target=None, more=None, **section):
    shared = {"rate": 40.0, "duration": "4s", "hosts": 2, **section}
    given = {name: value for name, value in shared.items() if value is not None}
    document = {"benchmark": "b", "target": target or TARGET, "load": given, "matrix": matrix or {}, **(more or {})}
    return make_plan(load(document), lambda _: {})


def test_a_point_becomes_a_job_for_each_machine():
    made = plan(matrix={"load.rate": [10.0, 40.0]})
    assert [dict(job.point) for job in made.jobs] == [
        {"load.rate": 10.0, "load.host": 0},
        {"load.rate": 10.0, "load.host": 1},
        {"load.rate": 40.0, "load.host": 0},
        {"load.rate": 40.0, "load.host": 1},
    ]
    assert [job.definition.load.host for job in made.jobs] == [0, 1, 0, 1]
    assert [job.index for job in made.jobs] == [0, 1, 2, 3]
    assert len({job.digest for job in made.jobs}) == 4
    assert plan(matrix={"load.rate": [10.0, 40.0]}).digest == made.digest, "the same plan may continue"


def test_how_many_machines_may_be_an_axis():
    made = plan(hosts=None, matrix={"load.hosts": [1, 3]})
    assert [job.point.get("load.host") for job in made.jobs] == [None, 0, 1, 2]
    assert [is_part(job.definition) for job in made.jobs] == [False, True, True, True]


def test_parts_of_a_point_know_each_other_and_what_they_are_parts_of():
    first, second, third, _ = plan(matrix={"load.rate": [10.0, 40.0]}).jobs
    assert point_key(first) == point_key(second) != point_key(third)
    assert whole(first).definition == whole(second).definition
    assert whole(first).definition.load.host is None
    assert dict(whole(second).point) == {"load.rate": 10.0}


def test_parts_need_each_other_and_other_jobs_need_what_they_always_did():
    first, second, third, _ = plan(matrix={"load.rate": [10.0, 40.0]}).jobs
    assert needs_key(first) == needs_key(second) != needs_key(third)
    assert "2 machines together" in needs_in_words(first)
    one, other = plan(hosts=None, matrix={"load.rate": [10.0, 40.0]}).jobs
    assert needs_key(one) == needs_key(other)
    assert "machines" not in needs_in_words(one)


def test_one_machine_does_not_drive_parts_one_after_another():
    with pytest.raises(MeasureError, match=r"load\.hosts is 2, and one machine") as caught:
        refuse_parts_in_turn(plan().jobs)
    assert "--server" in caught.value.problem.try_
    with pytest.raises(MeasureError):
        refuse_parts_in_turn(plan(hosts=None, matrix={"load.hosts": [1, 2]}).jobs)
    refuse_parts_in_turn(plan(hosts=None).jobs)


def test_a_part_may_be_requested_by_hand():
    (job,) = plan(host=1).jobs
    assert (job.definition.load.host, dict(job.point)) == (1, {})
    refuse_parts_in_turn([job])


def test_the_parts_of_a_local_run_are_refused(tmp_path):
    import assay

    document = {"benchmark": "b", "target": TARGET, "load": {"rate": 4.0, "duration": "1s", "hosts": 2}}
    with pytest.raises(MeasureError, match="one machine can only drive its parts one after another"):
        assay.run(document, store=tmp_path)


SERVICE = {
    "more": {"services": {"s": {"command": "serve"}}},
    "target": {"service": "s", "api": "openai-chat", "model": "m"},
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"duration": None}, "so a duration is needed"),
        ({"rate": "search"}, "rate: search looks for a rate with one machine"),
        ({"rate": None, "concurrency": 1}, "every machine needs a request of its own"),
        ({"rate": None}, "concurrency is 1: every machine needs a request of its own"),
        ({"host": 2}, "host is 2, and hosts counted from 0 end at 1"),
        ({"hosts": 65}, "64"),
        (SERVICE, "each machine would start its own services"),
        ({"target": {**TARGET, "api": "qdrant"}, "rate": None, "concurrency": 4}, "load the vectors again"),
        ({"target": {"model": "m.onnx"}, "rate": None, "duration": None, "hosts": None, "host": 0},
         "load.host would do nothing for a model target"),
    ],
)  # fmt: skip
def test_loads_that_cannot_be_shared_are_refused(given, said):
    with pytest.raises(SpecError) as caught:
        plan(**given)
    assert said in str(caught.value)


def test_a_closed_loop_with_a_user_for_each_machine_can_be_shared():
    assert len(plan(rate=None, concurrency=8, hosts=4).jobs) == 4
