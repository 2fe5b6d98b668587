"""Which jobs become which objects, what goes together, and in which order."""

import pytest

from assay.documents import from_json, to_json
from assay.engines.kubernetes.objects.plan import Group, group, job_pod, needed_secrets, resources_of, shipped
from assay.errors import UsageError
from assay.plan.plan import make_plan
from assay.spec.kubernetes import Kubernetes, Pod
from assay.spec.load import load

COMMAND = {"command": "true", "metrics": [{"name": "x", "pattern": "(.*)"}]}
SERVICES = {"llm": {"image": "docker://llm:1", "needs": {"gpus": 1, "memory": "8GiB"}}, "db": {"command": "db"}}
SERVED = {"service": "llm", "api": "openai-chat", "model": "m"}
ENDPOINT = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"}


def planned(kubernetes=None, **more):
    document = {"benchmark": "b", "target": COMMAND, **more}
    place = {"engine": "kubernetes", "kubernetes": {"image": "assay:1", **(kubernetes or {})}}
    loaded = load({**document, "place": place})
    return make_plan(loaded, lambda _: {}).jobs, loaded.benchmark


def groups(kubernetes=None, **more):
    return group(*planned(kubernetes, **more))


def served(kubernetes=None, load=None, **more):
    shared = {"concurrency": 8, "duration": "4s"}
    more = {"services": SERVICES, "target": SERVED, **more}
    return groups(kubernetes, load={**shared, **(load or {})}, **more)


def test_two_hundred_jobs_are_one_group():
    (one,) = groups({"at_once": 20}, matrix={"target.env.N": [str(number) for number in range(200)]})
    assert (one.name, one.kind, one.jobs, one.at_once) == ("jobs", "jobs", tuple(range(200)), 20)
    assert not one.meets


def test_loads_on_one_server_do_not_run_at_once_unless_the_file_says_so():
    more = {"target": ENDPOINT, "matrix": {"load.concurrency": [1, 2, 4]}}
    assert [one.at_once for one in groups(**more)] == [1]
    assert [one.at_once for one in groups({"parallel": True}, **more)] == [None]
    assert [one.at_once for one in groups({"at_once": 2}, **more)] == [2]


def test_services_have_pods_and_points_go_one_after_another():
    made = served({"cpus": 2, "each": {"db": {"node_selector": {"disk": "ssd"}}}}, matrix={"load.concurrency": [1, 8]})
    assert [(one.name, one.kind, one.jobs, one.after) for one in made] == [
        ("point-0000", "point", (0,), ""),
        ("point-0001", "point", (1,), "point-0000"),
    ]
    llm, db = made[0].services
    assert (llm.image, llm.port, llm.resources.gpus, llm.resources.memory, llm.resources.cpus) == (
        "llm:1",
        8000,
        1,
        8 * 2**30,
        2.0,
    )
    assert (db.image, db.resources.nodes, db.resources.gpus) == ("assay:1", {"disk": "ssd"}, None)
    parallel = served({"parallel": True}, matrix={"load.concurrency": [1, 8]})
    assert [one.after for one in parallel] == ["", ""]


def test_what_is_about_measuring_pods_is_not_taken_over_by_services():
    (one,) = served({"one_per_node": True, "deadline": "5m", "each": {"db": {"one_per_node": True}}})
    assert [service.pod.one_per_node for service in one.services] == [None, True]
    assert {service.pod.deadline for service in one.services} == {None}
    assert one.pod.deadline == 300.0


def test_clients_of_a_point_share_a_group_and_have_resources_of_their_own():
    (point,) = served({"gpus": 2, "clients": {"count": 4, "cpus": 2, "gpus": 0}})
    assert (point.jobs, point.meets, point.members) == ((0, 1, 2, 3), True, 4)
    assert (point.pod.cpus, point.pod.gpus, point.pod.image) == (2.0, 0, "assay:1")
    assert type(point.pod) is Pod
    assert {service.resources.gpus for service in point.services} == {2}


def test_clients_of_an_endpoint_meet_without_services():
    shared = {"target": ENDPOINT, "load": {"concurrency": 8, "duration": "4s"}}
    one, other = groups({"clients": 2}, matrix={"load.concurrency": [4, 8]}, **shared)
    assert (one.kind, one.jobs, one.services, one.after) == ("point", (0, 1), (), "")
    assert (other.jobs, other.after) == ((2, 3), "point-0000")


def test_a_command_of_several_pods_goes_alone():
    made = groups({"distributed": {"pods": 4, "ranks": "gpus"}}, needs={"gpus": 8}, matrix={"measure.runs": [1, 2]})
    assert [(one.name, one.kind, one.jobs, one.after) for one in made] == [
        ("ranks-0000", "ranks", (0,), ""),
        ("ranks-0001", "ranks", (1,), "ranks-0000"),
    ]
    assert (made[0].pods, made[0].slots, made[0].members, made[0].meets) == (4, 8, 4, True)
    (one,) = groups({"distributed": {"pods": 2, "ranks": 3}})
    assert one.slots == 3


def test_a_matrix_of_sizes_makes_as_many_pods_as_each_job_says():
    made = groups(
        {"distributed": {"launch": "first", "others": "sshd -D"}}, matrix={"place.kubernetes.distributed.pods": [2, 5]}
    )
    assert [(one.pods, one.launch) for one in made] == [(2, "first"), (5, "first")]
    made = groups({}, matrix={"place.kubernetes.distributed.pods": [3]})
    assert [(one.kind, one.pods, one.launch) for one in made] == [("ranks", 3, "each")]


def test_services_beside_the_client_add_up_in_its_pod():
    services = {"llm": {"command": "serve", "needs": {"gpus": 1, "memory": "8GiB"}}, "db": {"command": "db"}}
    jobs, benchmark = planned(
        {"services": "pod"},
        services=services,
        target=SERVED,
        needs={"memory": "1GiB"},
        load={"concurrency": 8, "duration": "4s"},
    )
    (one,) = group(jobs, benchmark)
    assert (one.kind, one.services) == ("jobs", ())
    resources = resources_of(jobs[0], one)
    assert (resources.gpus, resources.memory) == (1, 9 * 2**30)


@pytest.mark.parametrize("kubernetes", [{"clients": {"count": 2, "cpus": 2}}, {"each": {"db": {"gpus": 1}}}, {}])
def test_a_group_is_read_back_from_its_document(kubernetes):
    for one in served(kubernetes):
        assert from_json(Group, to_json(one), source="test") == one


@pytest.mark.parametrize(
    ("kubernetes", "more", "said"),
    [
        ({"image": None}, {}, "place.kubernetes.image is not set"),
        ({"clients": 4, "at_once": 2}, {}, "4 clients must run concurrently"),
        ({"each": {"llm": {"gpus": 0}}}, {}, "needs.gpus is 1"),
        ({"cpus": 1}, {"needs": {"cpus": 2}}, "needs.cpus is 2"),
        ({"services": "pod"}, {}, "which nothing in a pod can start"),
        ({"services": "pod", "clients": 2}, {}, "each would start its own services"),
        ({"distributed": {}}, {}, "the target is none"),
        ({}, {"services": {"llm": {"image": "llm.sif"}}}, "is a file, which no node"),
        ({}, {"services": {"llm": {"image": "llm:1", "mounts": {"data": "/data"}}}}, "mounts 'data' of this machine"),
        ({}, {"services": {"llm": {"command": "x", "cwd": "src"}}}, "it must be absolute"),
        (
            {},
            {"services": {"llm": {"command": "x", "env": {"T": "${env:HF}"}}}},
            "nothing says where the pod has it from",
        ),
        ({}, {"target": {**SERVED, "headers": {"x": "${env:KEY}"}}}, "${env:KEY}"),
    ],
)
def test_what_could_never_run_is_refused_before_anything_is_submitted(kubernetes, more, said):
    with pytest.raises(UsageError) as caught:
        served(kubernetes, **more)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({**COMMAND, "image": "app.sif"}, "is a file, which no node"),
        ({**COMMAND, "image": "app:1", "mounts": {"data": "/data"}}, "mounts 'data' of this machine"),
    ],
)
def test_a_program_of_this_machine_is_refused(target, said):
    with pytest.raises(UsageError, match=said):
        groups(target=target)


def test_several_pods_want_to_know_how_many_processes_they_have():
    with pytest.raises(UsageError, match="nothing says how many GPUs a pod has"):
        groups({"distributed": {"ranks": "gpus"}})


def test_secrets_go_where_they_are_used_and_nowhere_else():
    services = {"llm": {"command": "x", "env": {"TOKEN": "${env:HF}"}}, "db": {"command": "db"}}
    secrets = {"HF": "hf/token", "KEY": "own/key"}
    (one,) = served({"secrets": secrets, "each": {"db": {"secrets": {"PW": "db/pw"}}}}, services=services)
    llm, db = one.services
    assert (llm.pod.secrets, db.pod.secrets) == ({"HF": "hf/token"}, {"PW": "db/pw"})
    assert one.pod.secrets == secrets


def test_a_job_needs_the_secrets_of_its_definition_but_not_those_of_services_elsewhere():
    services = {"llm": {"command": "x", "env": {"TOKEN": "${env:HF}"}}}
    target = {**SERVED, "headers": {"a": "${env:KEY}"}}
    (job,), benchmark = planned(
        {"secrets": {"HF": "a/b", "KEY": "a/c"}},
        services=services,
        target=target,
        load={"concurrency": 8, "duration": "4s"},
    )
    section = benchmark.place.kubernetes
    assert needed_secrets(job, section) == {"KEY"}
    assert needed_secrets(job, section.model_copy(update={"services": "pod"})) == {"KEY", "HF"}


def test_what_the_scheduler_has_met_does_not_travel_with_the_job():
    (job,), _ = planned(needs={"labels": {"gpu": "h200"}, "agent": "node-7", "memory": "1GiB"})
    bare = shipped(job)
    assert (bare.definition.needs.labels, bare.definition.needs.agent) == ({}, None)
    assert bare.definition.needs.memory == 2**30
    assert bare.digest == job.digest
    (plain,), _ = planned()
    assert shipped(plain) is plain


def test_every_job_is_in_exactly_one_group():
    made = served(matrix={"load.concurrency": [4, 8], "measure.runs": [1, 2], "load.hosts": [1, 2]})
    indexes = [index for one in made for index in one.jobs]
    assert sorted(indexes) == list(range(12))
    assert len({one.name for one in made}) == len(made) == 8


def test_the_options_of_jobs_are_those_of_the_section_alone():
    assert job_pod(Kubernetes(image="i", namespace="n", cpus=2.0)) == Pod(image="i", cpus=2.0)
    assert job_pod(Kubernetes()) == Pod()
