"""Which results belong to one series, and what is kept of their surroundings."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.histories import environment, result

from assay.analyse.series.identity import context, identity, machine_kind

DEFINITION = {
    "target": {"service": "llm", "api": "openai-chat", "model": "llama3.1"},
    "services": {"llm": {"image": "docker://ollama/ollama:0.6.2", "command": "ollama serve"}},
    "load": {"concurrency": 8},
    "measure": {"runs": 5},
}
KIND = {"processor": "EPYC", "cores": 8}


def name(definition=DEFINITION, *, benchmark="chat", point=None, kind=KIND, metric="ttft_ms", labels=None):
    return identity(benchmark, definition, point or {}, kind, metric, labels or {})


def changed(**parts):
    return {**DEFINITION, **parts}


def test_a_name_is_short_and_always_the_same():
    assert name() == name()
    assert len(name()) == 16
    assert int(name(), 16)
    reordered = dict(reversed(DEFINITION.items()))
    assert name(reordered) == name()


@pytest.mark.parametrize(
    "definition",
    [
        changed(measure={"runs": 9, "warmup": 20.0}),
        changed(needs={"agent": "gpu-01"}),
        changed(objective={"ttft_ms.p99": 500.0}),
        changed(prices={"*": {"per_hour": 2.0}}),
        changed(services={"llm": {"image": "docker://ollama/ollama:0.7.0", "command": "ollama serve"}}),
        changed(services={"llm": {"image": "docker://ollama/ollama@sha256:00ff", "command": "ollama serve"}}),
        changed(target={**DEFINITION["target"], "sha256": "0" * 64}),
        changed(target={**DEFINITION["target"], "price": {"input": 3.0}}),
    ],
)
def test_how_it_is_measured_and_what_files_hold_make_no_other_series(definition):
    assert name(definition) == name()


@pytest.mark.parametrize(
    "other",
    [
        {"definition": changed(load={"concurrency": 16})},
        {"definition": changed(target={**DEFINITION["target"], "model": "llama3.2"})},
        {"definition": changed(workload={"output_tokens": 9})},
        {"definition": changed(services={"llm": {"image": "docker://vllm/vllm:1", "command": "ollama serve"}})},
        {"benchmark": "other"},
        {"point": {"measure.runs": 3}},
        {"kind": {**KIND, "cores": 16}},
        {"metric": "ttft_ms.p99"},
        {"labels": {"team": "vision"}},
    ],
)
def test_what_is_measured_makes_another_series(other):
    assert name(**other) != name()


def test_an_image_with_a_port_keeps_its_name():
    first = changed(services={"llm": {"image": "registry:5000/team/llm:1"}})
    second = changed(services={"llm": {"image": "registry:5000/team/llm:2"}})
    third = changed(services={"llm": {"image": "registry:5001/team/llm:2"}})
    assert name(first) == name(second)
    assert name(second) != name(third)


@given(st.floats(0.9, 1.0), st.sampled_from([4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 1024]))
def test_machines_of_one_size_are_one_kind_whatever_the_kernel_keeps(share, size):
    whole = machine_kind({"machine": {"memory_bytes": size * 2**30}})
    assert machine_kind({"machine": {"memory_bytes": int(share * size * 2**30)}}) == whole
    assert whole["memory_gib"] == size


def test_a_kind_of_machine_is_neither_its_name_nor_its_software():
    first = machine_kind(environment(1, {"host": "a", "driver": "1", "kernel": "5"}))
    second = machine_kind(environment(2, {"host": "b", "driver": "2", "kernel": "6"}))
    assert first == second
    assert set(first) == {"processor", "cores", "memory_gib", "os"}
    assert machine_kind({}) == {}


def test_a_part_of_a_node_is_another_machine_than_the_whole():
    node = environment(1, {})
    whole, part, less = (
        machine_kind({**node, "kubernetes": {"pod": "p", **held}})
        for held in ({}, {"limit_cpus": 4.0}, {"limit_cpus": 2})
    )
    assert whole == machine_kind(node)
    assert len({str(one) for one in (whole, part, less)}) == 3
    served = [
        machine_kind({**node, "kubernetes": {"services": {"llm": {"pod": f"p-{gpus}", "gpus": gpus}}}})
        for gpus in (1, 1, 2)
    ]
    assert served[0] == served[1] != served[2], "services have machines too; which pod it was does not matter"
    assert machine_kind({"kubernetes": {"limit_cpus": 2}}) == {}, "a job that no machine took has none"


def test_a_process_that_may_not_use_all_processors_has_a_smaller_machine():
    node = environment(1, {})
    there = node["machine"]["cores"]
    whole, held, less = (
        machine_kind({**node, "machine": {**node["machine"], "usable_cores": usable}})
        for usable in (there, there - 1, there - 2)
    )
    assert whole == machine_kind(node)
    assert (held["limit_cpus"], less["limit_cpus"]) == (there - 1, there - 2)
    pod = machine_kind({"machine": {**node["machine"], "usable_cores": 2}, "kubernetes": {"limit_cpus": 1.5}})
    assert pod["limit_cpus"] == 1.5, "its limit is told more exactly than by cores"


def test_what_was_around_a_result_is_kept():
    found = context(result(10.0, 1, commit="c" * 40, model="d" * 64, driver="560", throttled=True, measure={"runs": 3}))
    assert found["commit"] == "c" * 40
    assert found["model"] == "d" * 64
    assert found["driver"] == "560"
    assert found["packages"] == {"numpy": "2.1.3"}
    assert found["assay"] == "0.1.0"
    assert found["throttled"] is True
    assert found["doubts"] == ["clocks not throttled"]
    assert found["method"] == {"measure": {"runs": 3}}
    assert found["control"]["integer_ms"] == pytest.approx(128.9, rel=0.05)
    assert (found["machine"], found["machine_id"], found["kernel"]) == ("bench-1", "id of bench-1", "6.1.0")


def test_what_is_not_known_is_absent():
    bare = replace(result(10.0, 1), environment={}, runs=(), checks=())
    assert set(context(bare)) == {"spec", "definition", "doubts"}
    assert "doubts" not in context(result(None, 1))


def test_images_are_reported_by_digest_where_a_run_read_one():
    service = {"name": "llm", "image": "x:1", "image_digest": "sha256:ab"}
    told = result(10.0, 1, definition={"services": {"llm": {"image": "x:1"}}})
    assert context(told)["image"] == "x:1"
    runs = tuple(replace(run, facts={"service": service}) for run in told.runs)
    assert context(replace(told, runs=runs))["image"] == "sha256:ab"


def test_data_is_reported_by_the_digest_of_what_was_fed():
    told = result(10.0, 1)

    def fed(digest):
        runs = tuple(replace(run, facts={"inputs": [{"name": "x", "sha256": digest}]}) for run in told.runs)
        return context(replace(told, runs=runs))["data"]

    assert fed("1") == fed("1") != fed("2")
    runs = tuple(replace(run, facts={"workload": {"digest": "abc"}}) for run in told.runs)
    assert context(replace(told, runs=runs))["data"] == "abc"
