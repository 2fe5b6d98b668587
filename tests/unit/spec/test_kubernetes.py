"""The section for Kubernetes: what it takes, what it refuses, and how sections are merged."""

import pytest

from assay.analyse.series.identity import identity
from assay.errors import SpecError
from assay.plan.plan import make_plan
from assay.spec.benchmark import Benchmark
from assay.spec.kubernetes import Kubernetes, KubernetesClients, Pod, Toleration, merged_pod, taint_of
from assay.spec.load import load
from assay.spec.schema import benchmark_schema
from assay.spec.target import Together

SERVICES = {"llm": {"command": "serve"}}
TARGET = {"service": "llm", "api": "openai-chat", "model": "m"}


def document(kubernetes, engine="kubernetes", load=None, **more):
    shared = {"concurrency": 8, "duration": "4s"}
    return {
        "benchmark": "b",
        "services": SERVICES,
        "target": TARGET,
        "load": {**shared, **(load or {})},
        "place": {"engine": engine, "kubernetes": kubernetes},
        **more,
    }


def section(**kubernetes) -> Kubernetes:
    found = load(document(kubernetes)).benchmark.place.kubernetes
    assert found is not None
    return found


def refused(kubernetes, **more) -> str:
    with pytest.raises(SpecError) as caught:
        load(document(kubernetes, **more))
    return str(caught.value)


def test_every_key_of_a_pod_is_read_with_its_unit():
    found = section(
        namespace="bench",
        context="prod",
        image="docker://ghcr.io/team/bench:1",
        pull="never",
        pull_secret="login",
        node_selector={"gpu": "h200"},
        tolerations=["nvidia.com/gpu:NoSchedule", {"key": "spot", "effect": "NoExecute"}],
        one_per_node="namespace",
        cpus=0.5,
        memory="16GiB",
        storage="2GiB",
        gpus=2,
        gpu_resource="amd.com/gpu",
        resources={"rdma/hca": 1, "hugepages-2Mi": "512Mi"},
        limits="none",
        shm="8GiB",
        priority_class="high",
        runtime_class="nvidia",
        scheduler="volcano",
        service_account="bench",
        env={"A": "b"},
        volumes={"data": "/data"},
        secrets={"HF_TOKEN": "hf/token", "OWN": "${env:OWN}"},
        labels={"team": "ml"},
        annotations={"team/why": "a b"},
        privileged=False,
        restricted=True,
        deadline="30m",
        queue="lane",
        python="/opt/py",
        services="deployments",
        clients=2,
        at_once=4,
        parallel=True,
        unschedulable="5m",
        keep="2h",
    )
    assert (found.image, found.memory, found.deadline) == ("ghcr.io/team/bench:1", 16 * 2**30, 1800.0)
    assert (found.shm, found.unschedulable, found.keep) == (8 * 2**30, 300.0, 7200.0)
    assert found.pull_secrets == ("login",)
    assert section(pull_secret=["a", "b"]).pull_secrets == ("a", "b")
    assert section(shm="unlimited").shm == "unlimited"
    assert section().pull_secrets == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"namespace": "Bench"}, "small letters"),
        ({"namespace": "a" * 64}, "at most 63"),
        ({"image": "a b"}, "is no image"),
        ({"node_selector": {"a/b/c": "x"}}, "is no key for Kubernetes"),
        ({"node_selector": {"a": "ä"}}, "is no value of the label a"),
        ({"labels": {"assay/job": "1"}}, "set by assay or Kubernetes itself"),
        ({"labels": {"a": "x" * 64}}, "at most 63"),
        ({"tolerations": ["a b"]}, "is no taint"),
        ({"tolerations": ["gpu:Sometimes"]}, "is no taint"),
        ({"tolerations": [{"value": "x"}]}, "without a key"),
        ({"tolerations": [{"key": "x", "within": "1m"}]}, "NoExecute alone"),
        ({"cpus": 0}, "greater than 0"),
        ({"resources": {"cpu": 2}}, "has a key of its own: cpus"),
        ({"resources": {"rdma/hca": "many"}}, "is no amount"),
        ({"env": {"A-B": "x"}}, "is not a valid name of an environment variable"),
        ({"env": {"ASSAY_POD_JOB": "x"}}, "set by assay"),
        ({"env": {"TOKEN": "Bearer ${env:TOKEN}"}}, "write it under secrets"),
        ({"volumes": {"data": "data"}}, "is no folder"),
        ({"volumes": {"data": "/assay/work"}}, "which assay uses itself"),
        ({"volumes": {"a": "/data", "b": "/data/"}}, "same folder"),
        ({"privileged": True, "restricted": True}, "opposites"),
        ({"deadline": "100ms"}, "1"),
        ({"results": "server"}, "server must be its URL"),
        ({"server": "http://h"}, "would do nothing"),
        ({"results": "server", "server": "h:8080"}, "is no URL"),
        ({"distributed": {"pods": 1}}, "2"),
        ({"distributed": {"others": "sshd"}}, "others would do nothing"),
        ({"distributed": {"launch": "first"}}, "others must say"),
        ({"distributed": {}, "clients": 2}, "keep one of them"),
        ({"distributed": {"ranks": "gpus"}, "gpus": 0}, "gpus is 0"),
        ({"services": "pod", "each": {"llm": {"cpus": 1}}}, "each would do nothing"),
        ({"each": {"llm": {"deadline": "5m"}}}, "services last as long as their clients"),
        ({"each": {"lmm": {"gpus": 1}}}, "did you mean llm?"),
        ({"clients": 0}, "1"),
        ({"nodeselector": {}}, "node_selector"),
    ],
)
def test_what_no_cluster_could_use_is_refused(given, said):
    assert said in refused(given)


@pytest.mark.parametrize(
    "where",
    [
        lambda wrong: wrong,
        lambda wrong: {"each": {"llm": wrong}},
        lambda wrong: {"clients": {"count": 1, **wrong}},
    ],
)
@pytest.mark.parametrize("name", ["HF_TOKEN", "not-a-name"])
def test_a_secret_in_the_file_is_refused_and_not_shown(where, name):
    text = refused(where({"secrets": {name: "hf_abcdefghijklm", "OTHER": "hf_another_one"}}))
    assert "is no reference" in text
    assert "hf_a" not in text


def test_a_secret_under_a_name_that_is_none_is_refused():
    assert "is not a valid name of an environment variable" in refused({"secrets": {"a-b": "hf/token"}})
    assert "is set by assay" in refused({"secrets": {"ASSAY_POD_JOB": "hf/token"}})
    assert section(secrets={"ASSAY_TOKEN": "server/token"}).wrong_secrets == ""


def test_a_taint_is_read_as_kubectl_writes_it():
    assert taint_of("gpu=a100:NoSchedule") == Toleration(key="gpu", value="a100", effect="NoSchedule")
    assert taint_of("gpu:NoExecute") == Toleration(key="gpu", effect="NoExecute")
    assert taint_of("gpu=") == Toleration(key="gpu", value="")
    assert taint_of("gpu") == Toleration(key="gpu")


def test_clients_become_the_machines_that_share_the_load():
    plan = make_plan(load(document({"image": "i", "clients": {"count": 3, "cpus": 1}})), lambda _: {})
    assert [job.definition.load.host for job in plan.jobs] == [0, 1, 2]
    assert {job.definition.load.hosts for job in plan.jobs} == {3}
    assert load(document({"clients": 3}, engine="local")).benchmark.load.hosts == 1, "only on its own engine"
    assert "keep one of them" in refused({"clients": 3}, load={"hosts": 2})


COMMAND = {"command": "true", "metrics": [{"name": "x", "pattern": "x=(.*)"}]}


def commanded(kubernetes, engine="kubernetes", **more):
    """A file whose target is a command."""
    return {"benchmark": "b", "target": COMMAND, "place": {"engine": engine, "kubernetes": kubernetes}, **more}


def refused_command(kubernetes, **more) -> str:
    with pytest.raises(SpecError) as caught:
        load(commanded(kubernetes, **more))
    return str(caught.value)


def jobs_of(kubernetes, **more):
    return make_plan(load(commanded({"image": "i", **kubernetes}, **more)), lambda _: {}).jobs


def test_how_many_pods_run_a_command_is_part_of_what_is_measured():
    asked = [
        {},
        {"distributed": {}},
        {"distributed": {"pods": 4}},
        {"distributed": {"pods": 4, "ranks": 2}},
        {"distributed": {"pods": 2, "launch": "first", "others": "sshd -D"}},
    ]
    found = [jobs_of(one)[0] for one in asked]
    assert [job.definition.target.distributed for job in found] == [
        None,
        Together(pods=2),
        Together(pods=4),
        Together(pods=4, ranks=2),
        Together(pods=2, launch="first"),
    ]
    assert len({job.digest for job in found}) == len(asked)
    assert found[1].digest == jobs_of({"distributed": {"pods": 2, "port": 1234}})[0].digest, "where they meet is not"
    results = [job.definition.model_dump(mode="json", exclude_defaults=True) for job in found]
    names = {identity("b", one, {}, {"cores": 8}, "x", {}) for one in results}
    assert len(names) == len(asked), "results of two sizes are never in one series"


def test_processes_on_each_gpu_are_counted_where_the_file_says_how_many_there_are():
    (by_needs,) = jobs_of({"distributed": {"ranks": "gpus"}}, needs={"gpus": 4})
    (by_section,) = jobs_of({"distributed": {"ranks": "gpus"}, "gpus": 8}, needs={"gpus": 4})
    assert by_needs.definition.target.distributed == Together(pods=2, ranks=4)
    assert by_section.definition.target.distributed == Together(pods=2, ranks=8)


def test_a_matrix_of_sizes_is_one_job_each():
    found = jobs_of({}, matrix={"place.kubernetes.distributed.pods": [2, 4, 8]})
    assert [job.definition.target.distributed.pods for job in found] == [2, 4, 8]


def test_pods_go_together_on_kubernetes_alone_and_are_counted_once():
    assert load(commanded({"distributed": {}}, engine="local")).benchmark.target.distributed is None
    given = {**COMMAND, "distributed": {"pods": 4}}
    assert "target.distributed asks for 4 pods" in refused_command({}, engine="local", target=given)
    assert "keep the latter alone" in refused_command({"image": "i", "distributed": {}}, target=given)
    assert refused_command({"distributed": {"pods": 1}}).count("it must be 2 or more") == 1


def test_what_a_pod_leaves_open_comes_from_the_section_around_it():
    around = Kubernetes(image="i", cpus=2.0, env={"A": "1", "B": "1"}, node_selector={"zone": "a"}, gpus=1)
    own = merged_pod(around, Pod(cpus=4.0, env={"B": "2"}))
    assert (own.image, own.cpus, own.gpus) == ("i", 4.0, 1)
    assert own.env == {"A": "1", "B": "2"}
    assert own.node_selector == {"zone": "a"}
    assert type(own) is Pod
    clients = merged_pod(around, KubernetesClients(count=3, gpus=0))
    assert (clients.count, clients.gpus, clients.cpus) == (3, 0, 2.0)
    assert merged_pod(Kubernetes(), Pod()) == Pod()


def test_the_engine_that_is_used_reports_the_settings():
    both = {"engine": "kubernetes", "kubernetes": {"image": "i"}, "slurm": {"partition": "p"}}
    found = Benchmark.model_validate_json(
        '{"benchmark": "b", "target": {"command": "true"}, "place": ' + str(both).replace("'", '"') + "}"
    )
    assert found.place.cluster is found.place.kubernetes
    assert found.place.model_copy(update={"engine": "slurm"}).cluster is found.place.slurm
    assert found.place.model_copy(update={"engine": "local"}).cluster is None


def test_the_schema_describes_every_key():
    kinds = benchmark_schema()["$defs"]
    for kind in ("Kubernetes", "Distributed", "Toleration", "KubernetesClients"):
        bare = [name for name, key in kinds[kind]["properties"].items() if not key.get("description")]
        assert not bare, f"{kind} has keys without a description"
