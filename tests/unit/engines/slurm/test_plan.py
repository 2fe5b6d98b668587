"""Which jobs share an array, which points have services and clients, and in which order they go."""

import pytest

from assay.documents import from_json, to_json
from assay.engines.slurm.plan import Group, group
from assay.errors import UsageError
from assay.plan.plan import make_plan
from assay.spec.load import load
from assay.spec.slurm import Batch

COMMAND = {"command": "true", "metrics": [{"name": "x", "pattern": "(.*)"}]}
SERVICES = {"llm": {"command": "serve", "needs": {"gpus": 1, "memory": "8GiB"}}, "db": {"command": "db"}}
SERVED = {"service": "llm", "api": "openai-chat", "model": "m"}


def groups(slurm=None, most=1000, **more):
    document = {"benchmark": "b", "target": COMMAND, "place": {"engine": "slurm", "slurm": slurm or {}}, **more}
    loaded = load(document)
    return group(make_plan(loaded, lambda _: {}).jobs, loaded.benchmark, most=most)


def served(slurm=None, load=None, **more):
    shared = {"concurrency": 8, "duration": "4s"}
    return groups(slurm, services=SERVICES, target=SERVED, load={**shared, **(load or {})}, **more)


def test_two_hundred_jobs_of_one_shape_are_one_array():
    (one,) = groups({"at_once": 20}, matrix={"target.env.N": [str(number) for number in range(200)]})
    assert (one.name, one.kind, one.jobs, one.array) == ("jobs-0", "array", tuple(range(200)), "0-199%20")
    assert not one.meets


def test_jobs_of_another_shape_are_an_array_of_their_own():
    small, large = groups(matrix={"needs.cpus": [1, 4], "measure.runs": [1, 2]})
    assert (small.jobs, large.jobs) == ((0, 1), (2, 3))
    assert (small.needs.cpus, large.needs.cpus) == (1, 4)


def test_an_array_is_never_larger_than_the_cluster_takes():
    parts = groups(most=60, matrix={"target.env.N": [str(number) for number in range(200)]})
    assert [len(part.jobs) for part in parts] == [60, 60, 60, 20]
    assert sorted(index for part in parts for index in part.jobs) == list(range(200))
    assert parts[-1].array == "0-19"


def test_loads_on_one_server_do_not_run_at_once_unless_the_file_says_so():
    endpoint = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"}
    more = {"target": endpoint, "matrix": {"load.concurrency": [1, 2, 4]}}
    assert [one.array for one in groups(**more)] == ["0-2%1"]
    assert [one.array for one in groups({"parallel": True}, **more)] == ["0-2"]
    assert [one.array for one in groups({"at_once": 2}, **more)] == ["0-2%2"]


def test_services_are_jobs_and_points_go_one_after_another():
    made = served({"partition": "gpu", "each": {"db": {"partition": "cpu"}}}, matrix={"load.concurrency": [1, 8]})
    assert [(one.name, one.kind, one.jobs, one.after) for one in made] == [
        ("point-0000", "services", (0,), ""),
        ("point-0001", "services", (1,), "point-0000"),
    ]
    llm, db = made[0].services
    assert (llm.name, llm.batch.partition, llm.needs.gpus, llm.needs.memory) == ("llm", "gpu", 1, 8 * 2**30)
    assert (db.batch.partition, db.needs.gpus) == ("cpu", None)
    assert made[0].needs.gpus is None, "the client needs no GPU of its own"
    parallel = served({"parallel": True}, matrix={"load.concurrency": [1, 8]})
    assert [one.after for one in parallel] == ["", ""]


def test_clients_of_a_point_share_a_group_and_have_resources_of_their_own():
    clients = {"count": 4, "partition": "cpu", "cpus": 2, "gpus": 0}
    (point,) = served({"partition": "gpu", "gpus": 2, "clients": clients})
    assert (point.jobs, point.array, point.meets) == ((0, 1, 2, 3), "0-3", True)
    assert (point.batch.partition, point.batch.cpus, point.batch.gpus) == ("cpu", 2, 0)
    assert {service.batch.gpus for service in point.services} == {2}


@pytest.mark.parametrize("slurm", [{"clients": {"count": 2, "cpus": 2, "gpus": 0}}, {"services": "steps"}, {}])
def test_a_group_is_read_back_from_its_document(slurm):
    for one in served({"partition": "gpu", "modules": ["CUDA"], "each": {"db": {"exclusive": False}}, **slurm}):
        assert from_json(Group, to_json(one), source="test") == one
        assert type(one.batch) is Batch


def test_clients_of_an_endpoint_meet_without_services():
    endpoint = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"}
    shared = {"target": endpoint, "load": {"concurrency": 8, "duration": "4s"}}
    one, other = groups({"clients": 2}, matrix={"load.concurrency": [4, 8]}, **shared)
    assert (one.kind, one.jobs, one.services, one.after) == ("clients", (0, 1), (), "")
    assert (other.jobs, other.after) == ((2, 3), "point-0000")


def test_steps_are_one_allocation_with_a_node_for_each():
    (point,) = served({"services": "steps", "clients": 4})
    assert (point.kind, point.array, point.batch.nodes, point.batch.tasks) == ("steps", None, 6, 6)
    assert (point.needs.gpus, point.needs.memory) == (1, 8 * 2**30), "every node must do for every step"
    (point,) = served({"services": "steps", "each": {"db": {"cpus": 6, "gpus": "h200:2"}}})
    assert (point.needs.cpus, point.needs.gpus) == (6, 2), "also for what a service asks for under each"
    (point,) = served({"services": "steps", "nodes": 2})
    assert point.batch.nodes == 2


def test_services_beside_the_client_are_no_groups_of_their_own():
    (one,) = served({"services": "node"}, matrix={"load.concurrency": [1, 8]})
    assert (one.kind, one.jobs, one.services) == ("array", (0, 1), ())
    assert one.needs.gpus == 1, "its node must do for the services as well"


@pytest.mark.parametrize(
    ("slurm", "said"),
    [
        ({"services": "node", "clients": 2}, "each would start its own services"),
        ({"clients": 4, "at_once": 2}, "4 clients must run concurrently"),
        ({"each": {"llm": {"gpus": 0}}}, "needs.gpus is 1"),
        ({"services": "steps", "gpus": 0}, "needs.gpus is 1"),
    ],
)
def test_what_could_never_run_is_refused_before_anything_is_submitted(slurm, said):
    with pytest.raises(UsageError, match=r"place\.slurm|needs") as caught:
        served(slurm)
    assert said in str(caught.value)


def test_an_axis_that_contradicts_the_clients_is_refused():
    with pytest.raises(UsageError, match=r"place\.slurm\.clients is 2 and load\.hosts is 4"):
        served({"clients": 2}, matrix={"load.hosts": [2, 4]})


def test_every_job_is_in_exactly_one_group():
    made = served(matrix={"load.concurrency": [4, 8], "measure.runs": [1, 2], "load.hosts": [1, 2]})
    indexes = [index for one in made for index in one.jobs]
    assert sorted(indexes) == list(range(12))
    assert len({one.name for one in made}) == len(made) == 8
