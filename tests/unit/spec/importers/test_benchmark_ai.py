"""Descriptors of Benchmark AI become benchmarks: every field is read, or said to mean nothing."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import Problem, SpecError
from assay.spec.importers import own_source
from assay.spec.importers.benchmark_ai import imported, recognises
from assay.spec.load import load, read_with
from assay.spec.source import parse
from assay.spec.target import CommandTarget

FIXTURES = Path(__file__).parents[3] / "fixtures" / "benchmark_ai"
# Every field that their classes and documents know, none of them at its default.
FULL: dict[str, Any] = {
    "spec_version": "0.2.0",
    "info": {
        "description": "All of it\n at once", "task_name": "everything", "execution_engine": "aws.sagemaker",
        "scheduling": "0 3 ? * 1", "labels": {"team": "bench"},
    },
    "hardware": {
        "instance_type": "p3.8xlarge", "strategy": "inference", "aws_zone_id": "use1-az2",
        "availability_zone": "us-east-1a", "distributed": {"num_instances": 3, "processes_per_instance": "gpus"},
    },
    "env": {"docker_image": "team/client:1", "privileged": True, "extended_shm": False, "vars": {"A": "1"}},
    "ml": {
        "benchmark_code": "python3 $(BAI_SCRIPTS_PATH)/run.py $(INFERENCE_SERVER_HOST):$(INFERENCE_SERVER_PORT)",
        "args": "--a $(A) --also $(INFERENCE_SERVER_PORT_1)", "framework": "mxnet", "framework_version": "1.6",
        "script": {"script": "code.tar"},
    },
    "data": {"sources": [{"src": "s3://bucket/train.rec", "path": "/data/train.rec", "id": "t", "md5": "0" * 32}]},
    "output": {"metrics": [{"name": "img-rate", "units": "img/s", "pattern": r"Speed: (\S+)"}]},
    "custom_params": {
        "python_version": "3.6", "sagemaker_job_name": "j", "region": "us-east-1", "dashboard": "mine", "merge": True,
        "hyper_params": {"lr": 0.1},
    },
    "server": {
        "hardware": {"instance_type": "c5.4xlarge"},
        "env": {
            "docker_image": "team/server:1", "ports": [9000, 9001], "start_command": "serve", "privileged": True,
            "start_command_args": "--store /models", "extended_shm": False, "vars": {"B": "2"},
            "liveliness_probe": "http://localhost:9000/alive",
            "readiness_probe": {
                "path": "/ready", "port": 9001, "initial_delay_seconds": 400, "period_seconds": 5,
                "timeout_seconds": 2, "success_threshold": 2, "failure_threshold": 4,
            },
        },
        "models": [{"src": "https://models.example/m.mar", "path": "/models/m.mar", "id": "m", "md5": "1" * 32}],
        "output": {"metrics": [{"name": "served", "units": "requests", "pattern": r"served (\d+)"}]},
    },
}  # fmt: skip
SMALL: dict[str, Any] = {"hardware": {"instance_type": "t3.small"}, "env": {"docker_image": "x:1"}}


def leaves(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path that a value can be taken from."""
    if isinstance(value, dict) and above[-1:] not in (("labels",), ("vars",), ("hyper_params",)):
        for key, one in value.items():
            yield from leaves(one, (*above, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, one in enumerate(value):
            yield from leaves(one, (*above, index))
    else:
        yield above


LEAVES = sorted(leaves(FULL), key=str)


def changed(document: dict[str, Any], path: tuple[str | int, ...], *value: object) -> dict[str, Any]:
    """A document with another value at a path, or with none."""
    made = copy.deepcopy(document)
    place: Any = made
    for part in path[:-1]:
        place = place.setdefault(part, {}) if isinstance(part, str) else place[part]
    if value:
        place[path[-1]] = value[0]
    else:
        del place[path[-1]]
    return made


def problems(document: dict[str, Any]) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        imported(document)
    return list(caught.value.problems)


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((FIXTURES / name).read_text())


def test_hello_world_becomes_a_benchmark() -> None:
    made = imported(read("hello-world.toml"))
    assert made.document == {
        "benchmark": "hello_world",
        "description": "Says hello to whoever measures it",
        "labels": {"task_name": "hello_world", "team": "bench"},
        "target": {
            "image": "assay/benchmark-ai-fixtures:1",
            "command": "python3 hello_world.py --steps 4 --greeting hello",
            "env": {"GREETING": "hello"},
            "metrics": [
                {"name": "train_loss", "unit": "ratio", "pattern": r"train loss ([-+.\deE]+)"},
                {"name": "accuracy", "unit": "ratio", "pattern": r"accuracy=([-+]?\d*\.\d+|\d+)"},
            ],
        },
        "measure": {"runs": 5, "timeout": "24h"},
        "needs": {"cpus": 2, "memory": "1843MiB"},
        "place": {
            "engine": "kubernetes",
            "kubernetes": {
                "node_selector": {"node.kubernetes.io/instance-type": "t3.small"},
                "cpus": 0.1,
                "memory": "128MiB",
                "limits": "none",
                "shm": "unlimited",
            },
        },
    }
    assert [line.partition(",")[0] for line in made.remarks] == [
        "Benchmark AI ran on Kubernetes",
        "Benchmark AI measured one run; here there are 5",
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.toml")))
def test_every_sample_is_recognised_and_makes_a_valid_benchmark(name: str) -> None:
    assert recognises(read(name))
    # The code of script mode is named from outside, as their client names it.
    here = ["target.code=scripts"] if name == "script-mode.toml" else []
    loaded = read_with(FIXTURES / name, here)
    assert loaded.source.notes[0] == f"{FIXTURES / name} is a Benchmark AI descriptor, imported as a benchmark"
    assert isinstance(loaded.benchmark.target, CommandTarget)
    assert loaded.benchmark.place.engine == "kubernetes"


def test_a_server_becomes_a_service_and_its_client_gets_its_address() -> None:
    document: Any = imported(read("inference.toml")).document
    assert document["services"] == {
        "server": {
            "image": "assay/benchmark-ai-fixtures:1",
            "command": "python3 server.py --port 8080 --model-store /models",
            "port": 8080,
            "ready": {"http": "/ping"},
            "needs": {"cpus": 2, "memory": "1843MiB"},
            "fetch": [
                {
                    "src": "https://models.example/doubling.json",
                    "path": "/models/doubling.json",
                    "md5": "6decd7ab78362fb7e13d5c38cd50580e",
                }
            ],
        }
    }
    assert document["target"]["env"] == {
        "INFERENCE_SERVER_HOST": "{host:server}",
        "INFERENCE_SERVER_PORT": "8080",
        "INFERENCE_SERVER_PORT_1": "8081",
        "REQUESTS": "20",
    }
    assert document["target"]["metrics"][1] == {
        "name": "requests_2xx",
        "unit": "requests",
        "pattern": r"Requests2XX\.Count:(\d+)",
        "service": "server",
    }
    assert document["place"]["kubernetes"]["each"] == {
        "server": {"node_selector": {"node.kubernetes.io/instance-type": "t3.small"}, "one_per_node": True}
    }


def test_a_schedule_is_kept_and_a_single_run_has_none() -> None:
    assert imported(read("scheduled.toml")).document["schedule"] == "0 0 * * *"
    assert "schedule" not in imported(changed(SMALL, ("info",), {"scheduling": "single_run"})).document


@pytest.mark.parametrize(
    ("written", "becomes"),
    [("0 0 * * *", "0 0 * * *"), ("*/5 * * * *", "*/5 * * * *"), ("@daily", "@daily"), ("0 3 ? * ?", "0 3 * * *"),
     ("0 0 * * mon,fri", "0 0 * * mon,fri"), ("1-5 * * * *", "1-5 * * * *")],
)  # fmt: skip
def test_schedules_that_benchmark_ai_refused_are_fine_here(written: str, becomes: str) -> None:
    assert imported(changed(SMALL, ("info",), {"scheduling": written})).document["schedule"] == becomes


def test_nodes_that_train_together_become_pods() -> None:
    made = imported(read("horovod.toml"))
    document: Any = made.document
    assert document["needs"] == {
        "cpus": 32,
        "memory": "224870MiB",
        "gpus": 4,
        "gpu_model": "V100",
        "gpu_memory": "14745MiB",
    }
    assert document["target"]["command"] == ["/bin/bash", "-c", "mpirun -np 8 python3 train.py --epochs 8"]
    assert document["target"]["metrics"][0]["name"] == "images_s"
    assert document["place"]["kubernetes"] == {
        "node_selector": {"node.kubernetes.io/instance-type": "p3.8xlarge", "topology.k8s.aws/zone-id": "use1-az2"},
        "cpus": 0.1,
        "memory": "128MiB",
        "limits": "none",
        "shm": "unlimited",
        "privileged": True,
        "distributed": {"pods": 2, "ranks": "gpus", "launch": "first", "others": "/usr/sbin/sshd -D"},
    }
    assert any("Benchmark AI ran the command once" in line for line in made.remarks)


def test_everything_at_once() -> None:
    made = imported(FULL)
    document: Any = made.document
    assert document["benchmark"] == "everything"
    assert document["labels"] == {
        "task_name": "everything",
        "team": "bench",
        "dashboard-name": "mine",
        "region": "us-east-1",
        "framework": "mxnet",
        "framework_version": "1.6",
    }
    assert document["schedule"] == "0 3 * * 1"
    assert document["target"]["command"] == "python3 {code}/run.py {host:server}:9000 --a 1 --also 9001"
    assert document["target"]["code"] == "code.tar"
    assert document["target"]["fetch"] == [{"src": "s3://bucket/train.rec", "path": "/data/train.rec", "md5": "0" * 32}]
    server = document["services"]["server"]
    assert (server["command"], server["port"]) == ("serve --store /models", 9001)
    assert server["ready"] == {"http": "/ready", "within": "700s"}
    kubernetes = document["place"]["kubernetes"]
    assert kubernetes["node_selector"]["topology.kubernetes.io/zone"] == "us-east-1a"
    assert (kubernetes["privileged"], "shm" in kubernetes) == (True, False)
    assert kubernetes["each"]["server"] == {
        "node_selector": {"node.kubernetes.io/instance-type": "c5.4xlarge"},
        "one_per_node": True,
    }
    own = changed(FULL, ("server", "env", "extended_shm"), True)
    own = changed(own, ("server", "env", "privileged"), False)
    each: Any = imported(own).document["place"]["kubernetes"]["each"]["server"]  # type: ignore[index, call-overload]
    assert (each["shm"], each["privileged"]) == ("unlimited", False)
    assert "distributed" not in kubernetes
    load(document)


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_no_field_is_dropped_silently(path: tuple[str | int, ...]) -> None:
    """Without a field the result is another one, or the field is needed: so each of them is read."""
    whole = imported(FULL)
    assert not [line for line in whole.remarks if "no field of a descriptor" in line]
    try:
        less = imported(changed(FULL, path))
    except SpecError as refused:
        if "needed" not in str(refused):
            raise
        return
    assert (less.document, less.remarks) != (whole.document, whole.remarks)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("hardware", "instance_type"), None, "hardware.instance_type: it is needed"),
        (("hardware", "instance_type"), "p99.huge", "its GPUs are not known"),
        (("hardware", "strategy"), "mxnet_parameter_server", "was never run by anybody"),
        (("hardware",), 3, "hardware: a section with keys is needed here"),
        (("hardware", "distributed"), {"num_instances": 1}, "must be a whole number from 2"),
        (("env", "docker_image"), None, "env.docker_image: it is needed"),
        (("env", "privileged"), "yes", "env.privileged: must be true or false"),
        (("env", "vars"), {"A": [1]}, "env.vars: A must be text"),
        (("info", "scheduling"), "99 * * * *", "neither single_run nor a schedule: the minute is not right"),
        (("info", "scheduling"), "now and then", "neither single_run nor a schedule"),
        (("info", "execution_engine"), "slurm", "must be one of default, aws.sagemaker"),
        (("env", "vars"), {"A B": "1"}, "is not a valid name of an environment variable"),
        (("ml", "benchmark_code"), "'' x", "begins with an empty word"),
        (("hardware", "availability_zone"), "a zone", "must be a name of letters"),
        (("info", "labels"), ["a"], "info.labels: a table with keys is needed"),
        (("ml", "benchmark_code"), "sh -c 'echo", "ml.benchmark_code: cannot be split into words"),
        (("ml", "script"), {"script": "code.zip"}, "must be a file that ends with .tar"),
        (("data", "sources"), [{"src": "ftp://x/y", "path": "/d"}], "data.sources[0].src: 'ftp://x/y' cannot be"),
        (("data", "sources"), [{"path": "/d"}], "data.sources[0].src: it is needed"),
        (("data", "sources"), [{"src": "https://x/y", "path": "d"}], "data.sources[0].path: 'd' is no place"),
        (("data", "sources"), [{"src": "https://x/y", "path": "/d", "md5": "12"}], "data.sources[0].md5: '12' is no"),
        (("data", "sources"), ["https://x/y"], "data.sources[0]: a table with keys is needed"),
        (("output", "metrics"), [{"name": "a", "units": "s", "pattern": "a"}], "has no group"),
        (("output", "metrics"), [{"name": "a", "units": "s", "pattern": "("}], "is no regular expression"),
        (("output", "metrics"), [{"name": "a", "pattern": "(a)"}], "output.metrics[0].units: it is needed"),
    ],
)
def test_what_is_wrong_is_said_at_its_path(path: tuple[str, ...], value: object, words: str) -> None:
    document = changed(SMALL, ("hardware", "strategy"), "horovod") if "distributed" in path else SMALL
    found = problems(changed(document, path, value))
    assert any(words in problem.message for problem in found), found


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("server",), None, "server.env.docker_image: it is needed"),
        (("server", "env", "ports"), [], "must be a list with at least one port"),
        (("server", "env", "ports"), [70_000], "must be a whole number from 1 to 65,535"),
        (("server", "env", "start_command"), None, "server.env.start_command: it is needed"),
        (("server", "env", "readiness_probe"), {"port": 1}, "it is needed for a readiness probe"),
        (("server", "env", "readiness_probe", "scheme"), "ftp", "must be http or https"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(path: tuple[str, ...], value: object, words: str) -> None:
    assert any(words in problem.message for problem in problems(changed(FULL, path, value)))


def test_a_mistake_is_said_at_its_line() -> None:
    text = '[hardware]\ninstance_type = "t3.small"\n[env]\ndocker_image = "x"\n[[data.sources]]\nsrc = "s3://b/k"\n'
    text += 'path = "/d"\nmd5 = "not one"\n'
    with pytest.raises(SpecError) as caught:
        own_source(parse(text, ".toml", "d.toml"))
    assert caught.value.problem.at == "d.toml:8"


def test_a_script_without_a_first_line_of_its_own_goes_to_the_shell() -> None:
    document = changed(FULL, ("hardware", "strategy"), "horovod")
    document = changed(document, ("ml",), {"benchmark_code": "\n  cd /x\n  mpirun a.out\n", "args": "-v"})
    target: Any = imported(document).document["target"]
    assert (target["command"], target["shell"]) == ("cd /x\nmpirun a.out -v", True)


def test_gpus_for_processes_must_be_there() -> None:
    document = changed(FULL, ("hardware", "strategy"), "horovod")
    document = changed(document, ("hardware", "instance_type"), "c5.large")
    assert any("c5.large has none" in problem.message for problem in problems(document))


def test_what_is_unknown_is_said_and_left_out() -> None:
    document = changed(SMALL, ("alarms",), {"threshold": 3})
    document = changed(document, ("data",), {"id": "old", "sources": [{"uri": "https://x/y", "path": "/d", "mode": 1}]})
    made = imported(document)
    assert 'alarms is {"threshold": 3}: no field of a descriptor that is known; left out' in made.remarks
    assert "data.sources[0].mode is 1: no field of a descriptor that is known; left out" in made.remarks
    assert any(line.startswith("data.id is ") for line in made.remarks)
    assert made.document["target"]["fetch"] == [{"src": "https://x/y", "path": "/d"}]  # type: ignore[index, call-overload]


def test_a_server_without_its_strategy_is_said() -> None:
    made = imported(changed(FULL, ("hardware", "strategy"), "single_node"))
    assert "services" not in made.document
    assert any(line.startswith("server.env.docker_image is ") for line in made.remarks)
    assert any(line.startswith("server.models is ") for line in made.remarks)


def test_the_first_descriptors_had_a_url_for_a_probe() -> None:
    document = changed(FULL, ("hardware", "strategy"), "client_server")
    document = changed(document, ("server", "env", "readiness_probe"), "http://localhost:9001/iamok")
    server: Any = imported(document).document["services"]["server"]  # type: ignore[index, call-overload]
    assert (server["ready"], server["port"]) == ({"http": "/iamok"}, 9001)


def test_a_server_that_is_asked_over_https_or_not_at_all_is_said() -> None:
    https = imported(changed(FULL, ("server", "env", "readiness_probe", "scheme"), "https"))
    assert https.document["services"]["server"]["ready"] == {"tcp": True, "within": "700s"}  # type: ignore[index, call-overload]
    silent = imported(changed(FULL, ("server", "env", "readiness_probe")))
    assert silent.document["services"]["server"]["ready"] == {"tcp": True}  # type: ignore[index, call-overload]
    assert any("has no readiness probe" in line for line in silent.remarks)


def test_without_a_command_the_image_has_its_own() -> None:
    assert "command" not in imported(SMALL).document["target"]  # type: ignore[operator]
    target: Any = imported(changed(SMALL, ("ml",), {"args": "--fast 'two words'"})).document["target"]
    assert target["args"] == ["--fast", "two words"]
    load(imported(changed(SMALL, ("ml",), {"args": "--fast"})).document)


def test_code_that_nobody_named_is_requested() -> None:
    made = imported(read("script-mode.toml"))
    assert any("set target.code to what `--script` named" in line for line in made.remarks)
    with pytest.raises(SpecError, match="code is not set"):
        load(made.document)


def test_a_type_that_no_table_has_is_said() -> None:
    made = imported(changed(SMALL, ("hardware", "instance_type"), "z9.large"))
    assert "needs" not in made.document
    assert any('hardware.instance_type is "z9.large": no table has it' in line for line in made.remarks)


# A zero byte is refused in every document, with its place, before an importer's result is used.
TEXT = st.characters(exclude_characters="\0")
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(TEXT, max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(TEXT, max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300)
@given(path=st.sampled_from(LEAVES), junk=JUNK)
def test_whatever_stands_in_a_field_is_imported_whole_or_refused_with_reasons(
    path: tuple[str | int, ...], junk: object
) -> None:
    try:
        made = imported(changed(FULL, path, junk))
    except SpecError as refused:
        if not all(problem.message for problem in refused.problems):
            raise
        return
    target: Any = made.document["target"]
    target.setdefault("code", "src")  # without it the command names code that nobody named, which is refused
    load(made.document)
