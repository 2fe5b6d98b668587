"""team9's recipes become benchmarks: every field is read, or said to mean nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.engines.slurm.plan import group
from assay.errors import Problem, SpecError
from assay.plan.plan import make_plan
from assay.spec.importers import Imported, own_source
from assay.spec.importers.team9 import imported, recognises
from assay.spec.load import load
from assay.spec.source import parse

# As their program acts on it, with every field that it reads.
RECIPE: dict[str, Any] = {
    "job": {
        "name": "ollama_inference_job",
        "infrastructure": {
            "partition": "gpu-long", "account": "p1", "nodes": 1, "mem_gb": 32, "time": "01:30:00",
            "client_partition": "small", "client_time": "00:20:00", "client_mem_gb": 4,
        },
        "service": {"type": "inference", "model": "mistral", "n_clients": 8, "n_requests_per_client": 10},
    }
}  # fmt: skip
# As their pages describe it.
DESCRIBED: dict[str, Any] = {
    "username": "u1",
    "job": {
        "scenario": "benchmark_run_v1", "partition": "gpu", "account": "p2", "service": "inference", "n_services": 2,
        "resources": {"nodes": 2, "gpus": 2, "cpus_per_task": 16, "mem_gb": 48, "processing-unit": "gpu"},
        "workload": {
            "model": "deepseek", "precision": "fp16", "context_length": 4096, "batchSize": 8, "n_services": 2,
            "numClients": 32, "prompt_len": [256, 1024], "max_tokens": 512, "temperature": 0.7,
        },
        "client": {"n_requests_per_client": 3, "test_duration": 60, "request_rate": 10, "prompt": "Why?"},
        "metadata": {"notes": "first try\nof many"},
    },
}  # fmt: skip


def changed(recipe: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    made = copy.deepcopy(recipe)
    *above, last = path.split(".")
    place = made
    for part in above:
        place = place.setdefault(part, {})
    place[last] = value
    return made


def said(recipe: dict[str, Any], path: str) -> list[str]:
    return [line for line in imported(recipe).remarks if line.startswith(f"{path} is ")]


def test_what_their_program_reads_becomes_a_benchmark() -> None:
    assert imported(RECIPE).document == {
        "benchmark": "ollama_inference_job",
        "services": {
            "ollama": {
                "recipe": "ollama",
                "env": {"OLLAMA_NUM_PARALLEL": "8", "OLLAMA_MAX_LOADED_MODELS": "8"},
                "needs": {"gpus": 1, "memory": "32GiB"},
            }
        },
        "target": {"service": "ollama", "api": "ollama", "model": "mistral"},
        "load": {"concurrency": 8, "requests": 80},
        "measure": {"runs": 5},
        "place": {
            "engine": "slurm",
            "slurm": {
                "partition": "gpu-long",
                "account": "p1",
                "time": "1h30m",
                "runtime": "apptainer",
                "clients": {"count": 1, "partition": "small", "memory": "4GiB", "time": "20m"},
            },
        },
        "monitoring": True,
    }
    assert not [line for line in imported(RECIPE).remarks if line.startswith("job.")]


def test_what_their_pages_describe_is_read_or_said() -> None:
    made = imported(DESCRIBED)
    document = made.document
    assert document["benchmark"] == "benchmark_run_v1"
    assert document["labels"] == {"scenario": "benchmark_run_v1"}
    assert document["description"] == "first try\nof many"
    assert document["target"] == {
        "service": "ollama",
        "api": "ollama",
        "model": "deepseek",
        "options": {"temperature": 0.7, "num_ctx": 4096},
    }
    assert document["workload"] == {"output_tokens": 512}
    assert document["load"] == {"concurrency": 32, "requests": 96}
    assert document["services"]["ollama"]["needs"] == {"gpus": 2, "memory": "48GiB"}  # type: ignore[index, call-overload]
    assert document["place"]["slurm"]["each"] == {"ollama": {"cpus": 16}}  # type: ignore[index, call-overload]
    # Each field that has no meaning here has its line, and only one.
    for path in (
        "username",
        "job.n_services",
        "job.resources.nodes",
        "job.workload.precision",
        "job.client.prompt",
        "job.workload.batchSize",
        "job.workload.n_services",
        "job.workload.prompt_len",
        "job.client.test_duration",
        "job.client.request_rate",
    ):
        assert len(said(DESCRIBED, path)) == 1, path


def test_the_smallest_recipe_has_their_defaults() -> None:
    recipe = {"job": {"service": {}}}
    assert recognises(recipe)
    document: Any = imported(recipe).document
    assert document["target"]["model"] == "llama2"
    assert document["load"] == {"concurrency": 1, "requests": 5}
    assert document["place"]["slurm"] == {
        "partition": "gpu",
        "time": "5m",
        "runtime": "apptainer",
        "clients": {"count": 1, "partition": "cpu", "memory": "8GiB", "time": "30m"},
    }
    assert document["services"]["ollama"]["needs"] == {"gpus": 1, "memory": "64GiB"}
    assert any("no account is named" in line for line in imported(recipe).remarks)


def test_the_first_recipes_had_their_sections_at_the_top() -> None:
    recipe = {"infrastructure": {"partition": "cpu"}, "service": {"model": "phi", "n_clients": 3}}
    assert recognises(recipe)
    document: Any = imported(recipe).document
    assert (document["target"]["model"], document["load"]["concurrency"]) == ("phi", 3)
    assert document["services"]["ollama"]["needs"]["gpus"] is None  # the partition has none


def test_where_two_places_disagree_the_one_that_was_acted_on_holds() -> None:
    recipe = changed(RECIPE, "job.workload.numClients", 99)
    assert imported(recipe).document["load"] == {"concurrency": 8, "requests": 80}
    assert said(recipe, "job.workload.numClients") == [
        "job.workload.numClients is 99: job.service.n_clients says it too, and holds"
    ]
    assert not said(changed(RECIPE, "job.workload.numClients", 8), "job.workload.numClients")


@pytest.mark.parametrize(
    ("client", "load_"),
    [
        ({"request_rate": 10, "test_duration": 60}, {"rate": 10, "duration": "60s"}),
        ({"request_rate": 2.5}, {"rate": 2.5, "requests": 5}),
        ({"test_duration": 60, "n_clients": 4}, {"concurrency": 4, "duration": "60s"}),
        ({"test_duration": 60, "n_clients": 4, "n_requests_per_client": 2}, {"concurrency": 4, "requests": 8}),
        ({"n_clients": "4"}, {"concurrency": 4, "requests": 20}),
    ],
)
def test_what_is_reported_of_the_load_decides_its_shape(client: dict[str, object], load_: dict[str, object]) -> None:
    recipe = {"job": {"service": {"model": "phi"}, "client": client}}
    assert imported(recipe).document["load"] == load_
    assert load(recipe).benchmark.load.requests == load_.get("requests")


@pytest.mark.parametrize(
    ("written", "time"),
    [("00:15:00", "15m"), ("1-00:00:00", "24h"), ("2-12", "60h"), ("1-01:30", "25h30m"), ("90", "1h30m"), (30, "30m"),
     ("10:30", "10m30s"), ("00:00:20", "20s")],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(written: object, time: str) -> None:
    document: Any = imported(changed(RECIPE, "job.infrastructure.time", written)).document
    assert document["place"]["slurm"]["time"] == time


def test_no_time_limit_is_the_partitions() -> None:
    recipe = changed(RECIPE, "job.infrastructure.time", "UNLIMITED")
    assert "time" not in imported(recipe).document["place"]["slurm"]  # type: ignore[operator, index, call-overload]
    assert "the partition's own holds" in said(recipe, "job.infrastructure.time")[0]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("job.infrastructure.partition", "", "text of 1 to 200 characters"),
        ("job.infrastructure.partition", "gpu\n#SBATCH --wrap=x", "on one line"),
        ("job.infrastructure.account", 7, "text of 1 to 200 characters"),
        ("job.infrastructure.nodes", 0, "whole number from 1"),
        ("job.infrastructure.mem_gb", True, "whole number"),
        ("job.infrastructure.mem_gb", "64G", "whole number"),
        ("job.infrastructure.mem_gb", 1.5, "whole number"),
        ("job.infrastructure.time", "soon", "time limit of Slurm"),
        ("job.infrastructure.time", "00:00:00", "time limit of Slurm"),
        ("job.infrastructure.client_time", 3.5, "time limit of Slurm"),
        ("job.infrastructure.client_mem_gb", -1, "whole number"),
        ("job.service.model", ["llama2"], "text of 1 to 200 characters"),
        ("job.service.n_clients", 65_537, "from 1 to 65,536"),
        ("job.service.n_requests_per_client", 1_000_000_000, "more than 1,000,000,000 requests"),
        ("job.service.type", "retrieval", "assay recipes show qdrant"),
        ("job.resources.processing-unit", "tpu", "cpu or gpu"),
        ("job.workload.temperature", "hot", "a number from 0 to 100"),
        ("job.workload.max_tokens", 0, "whole number from 1"),
        ("job.workload.prompt_len", [1024, 256], "the shortest and the longest"),
        ("job.workload.prompt_len", "long", "whole number"),
        ("job.client.request_rate", 0, "a number from"),
        ("job.metadata.notes", 3, "must be text"),
        ("job.metadata.notes", "\ud800", "must be text"),
        ("job.infrastructure", "gpu", "a section with keys"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_said_with_its_path(path: str, value: object, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        imported(changed(RECIPE, path, value))
    assert [problem.at for problem in caught.value.problems] == [path]
    assert words in caught.value.problem.message


def test_all_problems_come_at_once_with_their_lines() -> None:
    text = '{"job": {\n "service": {"n_clients": 0},\n "infrastructure": {\n  "time": "x"}}}'
    with pytest.raises(SpecError) as caught:
        own_source(parse(text, ".json", "recipe.json"))
    assert [problem.at for problem in caught.value.problems] == ["recipe.json:2", "recipe.json:4"]
    assert "job.infrastructure.time: must be" in caught.value.problems[1].message


def test_an_unknown_field_is_said() -> None:
    recipe = changed(changed(RECIPE, "job.infrastructure.qos", "short"), "job.colour", {"is": "red"})
    assert said(recipe, "job.infrastructure.qos") == [
        'job.infrastructure.qos is "short": no field of a recipe that is known; left out'
    ]
    assert said(recipe, "job.colour") == ['job.colour is {"is": "red"}: no field of a recipe that is known; left out']


def test_a_key_with_a_dot_is_no_path() -> None:
    remarks = imported({"job": {"service": {}}, "service.model": "phi", "job.service.model": "phi"}).remarks
    assert [line for line in remarks if line.startswith('"')] == [
        '"service.model" is "phi": no field of a recipe that is known; left out',
        '"job.service.model" is "phi": no field of a recipe that is known; left out',
    ]


@pytest.mark.parametrize("recipe", [RECIPE, DESCRIBED, {"job": {"service": "inference"}}])
def test_it_can_be_planned_for_a_cluster(recipe: dict[str, Any]) -> None:
    loaded = load(recipe)
    plan = make_plan(loaded, lambda _: {})
    (made,) = group(plan.jobs, loaded.benchmark)
    assert (made.kind, [service.name for service in made.services]) == ("services", ["ollama"])
    assert made.batch.partition != made.services[0].batch.partition  # the client has its own


@pytest.mark.parametrize("document", [{}, {"hello": 1}, {"benchmark": "b"}, {"job": "x"}, {"job": [1]}, []])
def test_what_is_no_recipe_is_refused(document: Any) -> None:
    with pytest.raises(SpecError, match=r"section with keys|object with the key job"):
        imported(document)


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_the_service_can_be_replaced(engine: str) -> None:
    document: Any = imported(RECIPE).document
    document["services"]["ollama"] |= {"image": None, "mounts": None, "command": "assay sim llm --port {port}"}
    document["place"]["engine"] = engine
    service = load(document).benchmark.services["ollama"]
    assert (service.image, service.command) == (None, "assay sim llm --port {port}")
    assert service.ready.http == "/api/tags"


@pytest.mark.parametrize(
    "document",
    [{"job": "x"}, {"job": {"name": "y"}}, {"service": {"model": "a"}}, {"benchmark": "b", "job": {"service": {}}}, {}],
)
def test_other_documents_are_not_taken_for_recipes(document: dict[str, Any]) -> None:
    assert not recognises(document)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12))
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3),
    max_leaves=6,
)
FIELDS = {
    part: st.dictionaries(st.sampled_from(names) | st.text(max_size=4), VALUES, max_size=4) | VALUES
    for part, names in {
        "infrastructure": ["partition", "account", "nodes", "mem_gb", "time", "client_partition", "client_time"],
        "service": ["type", "model", "precision", "n_clients", "n_requests_per_client", "prompt"],
        "resources": ["nodes", "gpus", "cpus_per_task", "processing-unit", "mem_gb"],
        "workload": ["model", "context_length", "batchSize", "prompt_len", "max_tokens", "temperature", "numClients"],
        "client": ["n_clients", "test_duration", "request_rate", "prompt"],
        "metadata": ["notes"],
    }.items()
}
JOBS = st.fixed_dictionaries({}, optional={**FIELDS, "name": VALUES, "scenario": VALUES, "partition": VALUES})


@settings(max_examples=150)
@given(
    st.one_of(
        st.fixed_dictionaries({"job": JOBS | VALUES}, optional=FIELDS), st.fixed_dictionaries({}, optional=FIELDS)
    )
)
def test_any_document_gives_a_benchmark_or_a_clear_error(document: dict[str, Any]) -> None:
    before = json.dumps(document)
    made, problems = outcome(document)
    assert json.dumps(document) == before
    assert all(problem.message and problem.code == "import" for problem in problems)
    if made is None:
        assert problems
        return
    assert load(made.document).benchmark.services["ollama"].image
    assert all(line.isprintable() for line in made.remarks)
    # What a document says is in the benchmark or in a remark: no field that does nothing vanishes.
    service = document.get("job", {}).get("service", {})
    for key in ("precision", "prompt"):
        if isinstance(service, dict) and service.get(key):
            assert any(line.startswith(f"job.service.{key} is ") for line in made.remarks)


def outcome(document: dict[str, Any]) -> tuple[Imported | None, tuple[Problem, ...]]:
    try:
        return imported(document), ()
    except SpecError as wrong:
        return None, wrong.problems


@settings(max_examples=100)
@given(VALUES)
def test_any_value_at_all_can_be_checked(document: Any) -> None:
    if isinstance(document, dict):
        assert recognises(document) in (True, False)
