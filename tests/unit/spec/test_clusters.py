"""The section for batch clusters: what it takes, what it refuses, and how sections are merged."""

import pytest

from assay.errors import SpecError
from assay.plan.plan import make_plan
from assay.spec.benchmark import Benchmark
from assay.spec.load import load
from assay.spec.slurm import Batch, Clients, Slurm, merged, modest

SERVICES = {"llm": {"command": "serve"}}
TARGET = {"service": "llm", "api": "openai-chat", "model": "m"}


def document(slurm, engine="slurm", load=None, **more):
    shared = {"concurrency": 8, "duration": "4s"}
    return {
        "benchmark": "b",
        "services": SERVICES,
        "target": TARGET,
        "load": {**shared, **(load or {})},
        "place": {"engine": engine, "slurm": slurm},
        **more,
    }


def section(**slurm) -> Slurm:
    found = load(document(slurm)).benchmark.place.slurm
    assert found is not None
    return found


def refused(slurm, **more) -> str:
    with pytest.raises(SpecError) as caught:
        load(document(slurm, **more))
    return str(caught.value)


def test_every_key_of_a_batch_job_is_read_with_its_unit():
    found = section(
        partition="gpu",
        account="p200981",
        qos="default",
        time="30m",
        nodes=2,
        tasks=4,
        cpus=8,
        memory="16GiB",
        gpus="h200:2",
        gres="shard:1",
        constraint="zen4&nvlink",
        exclusive=True,
        reservation="bench",
        modules=["CUDA/12.4"],
        prologue=["ulimit -l unlimited"],
        container="app.sif",
        options=["--mail-type=END"],
        folder="/shared",
        python="/opt/py",
        services="steps",
        at_once=4,
        parallel=True,
        cluster="meluxina",
        rest="http://slurm:6820",
        rest_token="${env:SLURM_JWT}",
        runtime="apptainer",
        node_exporter=9100,
    )
    assert (found.time, found.memory, found.gpu_count) == (1800.0, 16 * 2**30, 2)
    assert found.modules == ("CUDA/12.4",)
    assert section(gpus=3).gpu_count == 3
    assert section().gpu_count is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"partition": "gpu\n#SBATCH --uid=0"}, "cannot stand in a batch script"),
        ({"account": " "}, "it is empty"),
        ({"prologue": ["echo a\necho b"]}, "write one line"),
        ({"gpus": "two"}, "is no number of GPUs"),
        ({"gpus": 2, "gres": "gpu:h200:2"}, "keep one of them"),
        ({"options": ["mail-type=END"]}, "is no option of sbatch"),
        ({"options": ["--array=0-3"]}, "is set by assay itself"),
        ({"options": ["-d after:1"]}, "is set by assay itself"),
        ({"options": ["--time=5"]}, "has a key of its own: time"),
        ({"options": ["-p gpu"]}, "has a key of its own: partition"),
        ({"time": "0s"}, "greater than 0"),
        ({"memory": "0B"}, "greater than 0"),
        ({"rest_token": "eyJhbGciOi"}, "write ${env:NAME}"),
        ({"rest": "slurm:6820"}, "is no address of slurmrestd"),
        ({"clients": 0}, "1"),
        ({"clients": {"count": 65}}, "64"),
        ({"each": {"lmm": {"gpus": 1}}}, "did you mean llm?"),
        ({"partitoin": "gpu"}, "partition"),
    ],
)
def test_what_no_cluster_could_use_is_refused(given, said):
    assert said in refused(given)


def test_a_token_in_the_file_is_not_shown_in_the_error():
    assert "eyJhbGciOi" not in refused({"rest_token": "eyJhbGciOi"})


def test_names_that_assay_needs_for_its_own_jobs_are_refused_on_a_cluster():
    for name in ("monitor", "end", "clients"):
        services = {"services": {name: {"command": "x"}}, "target": {**TARGET, "service": name}}
        assert "assay names a batch job so" in refused({}, **services)
        assert load(document({}, engine="local", **services))


def test_each_may_name_the_monitor():
    assert section(each={"monitor": {"partition": "cpu"}}).each["monitor"].partition == "cpu"


@pytest.mark.parametrize("clients", [4, {"count": 4, "cpus": 2}])
def test_clients_become_the_machines_that_share_the_load(clients):
    plan = make_plan(load(document({"clients": clients})), lambda _: {})
    assert [job.definition.load.host for job in plan.jobs] == [0, 1, 2, 3]
    assert {job.definition.load.hosts for job in plan.jobs} == {4}


def test_clients_may_be_an_axis():
    axis = {"place.slurm.clients": [1, 2, 4]}
    plan = make_plan(load(document({}, matrix=axis)), lambda _: {})
    assert [job.definition.load.hosts for job in plan.jobs] == [1, 2, 2, 4, 4, 4, 4]


def test_clients_of_another_engine_change_nothing():
    plan = make_plan(load(document({"clients": 4}, engine="local")), lambda _: {})
    assert [job.definition.load.hosts for job in plan.jobs] == [1]


def test_two_numbers_of_clients_are_refused_and_equal_ones_are_not():
    assert "place.slurm.clients is 4 and load.hosts is 2" in refused({"clients": 4}, load={"hosts": 2})
    assert "load.hosts is 1" in refused({"clients": 4}, load={"hosts": 1})
    assert load(document({"clients": 4}, load={"hosts": 4}))


def test_a_benchmark_made_in_python_gets_its_clients_as_well():
    made = Benchmark.model_validate_json(__import__("json").dumps(document({"clients": 2})))
    assert len(make_plan(load(made), lambda _: {}).jobs) == 2


def test_services_of_several_machines_are_for_a_cluster_only():
    shared = {"load": {"hosts": 2}}
    assert len(make_plan(load(document({}, **shared)), lambda _: {}).jobs) == 2
    for engine in ("local", "fleet"):
        with pytest.raises(SpecError, match="each machine would start its own services"):
            make_plan(load(document({}, engine=engine, **shared)), lambda _: {})
    with pytest.raises(SpecError, match="each machine would start its own services"):
        make_plan(load(document({}, engine="fleet", matrix={"load.hosts": [1, 2]})), lambda _: {})


def test_what_a_job_says_goes_before_the_section_around_it():
    base = Slurm(partition="gpu", account="a", gpus=4, exclusive=True, modules=("m",))
    own = merged(base, Batch(partition="cpu", exclusive=False, gpus=0))
    assert (own.partition, own.account, own.gpus, own.exclusive, own.modules) == ("cpu", "a", 0, False, ("m",))
    assert isinstance(merged(base, Clients(count=3)), Clients)
    assert merged(base, Clients(count=3)).count == 3
    assert merged(base, Batch(gres="gpu:a100:1")).gpus is None, "gres replaces gpus, it does not add to them"


def test_settings_of_a_cluster_fill_what_the_file_leaves_out():
    known = Slurm(partition="gpu", folder="/shared", at_once=5)
    assert merged(known, Slurm(partition="cpu")) == Slurm(partition="cpu", folder="/shared", at_once=5)


def test_jobs_that_only_wait_ask_for_no_resources():
    light = modest(Slurm(partition="gpu", account="a", gpus=4, nodes=2, memory=2**30, exclusive=True, time=60.0))
    assert light == Batch(partition="gpu", account="a", time=60.0)
