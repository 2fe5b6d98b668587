import json
from dataclasses import replace

import pytest

from assay.errors import MeasureError
from assay.exec.machine import require_needs
from assay.place.needs import Profile, device_kind, missing, needs_in_words
from assay.plan.job import Job
from assay.spec.benchmark import Definition

HERE = Profile(
    name="here",
    os="linux",
    cpus=4,
    memory_bytes=8 * 2**30,
    runtimes={"onnxruntime": "1.30", "abacus": "1"},
    devices={"onnxruntime": {"cpu": "CPUExecutionProvider"}},
    gpus=1,
    gpu_model="NVIDIA H200",
    gpu_memory_bytes=140 * 10**9,
    labels={"rack": "7"},
)


def job(target=None, **needs):
    document = {"target": target or {"model": "m"}, "needs": needs}
    return Job("b", "d", 0, Definition.model_validate_json(json.dumps(document)))


@pytest.mark.parametrize(
    "needs",
    [
        {}, {"memory": "8GiB"}, {"cpus": 4}, {"gpus": 1}, {"gpu_model": "h200"}, {"os": "linux"},
        {"labels": {"rack": "7"}}, {"agent": "here"},
    ],
)  # fmt: skip
def test_what_the_machine_has(needs):
    assert missing(job(**needs), HERE) == ()


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"memory": "16GiB"}, "memory: 16.0 GiB needed, 8.0 GiB there"),
        ({"cpus": 8}, "cpus: 8 needed, 4 there"),
        ({"gpus": 2}, "gpus: 2 needed, 1 there"),
        ({"gpu_model": "A100"}, "a GPU named like 'A100' is needed, here has NVIDIA H200"),
        ({"os": "macos"}, "macos is needed, here runs linux"),
        ({"labels": {"rack": "8"}}, "the label rack=8 is needed, here does not carry it"),
        ({"agent": "there"}, "only there may take it, this is here"),
        ({"runtime": "tensorrt-llm"}, "the runtime tensorrt-llm is needed, here has onnxruntime, abacus"),
        ({"device": "gpu"}, "the device cuda is needed, here has cpu (CPUExecutionProvider)"),
    ],
)
def test_what_is_missing_is_said_in_words(needs, words):
    assert missing(job(**needs), HERE) == (words,)


def test_a_machine_is_known_by_name_and_by_id():
    here = replace(HERE, id="agent-1")
    assert missing(job(agent="agent-1"), here) == missing(job(agent="here"), here) == ()
    assert missing(job(agent="agent-2"), here) == ("only agent-2 may take it, this is here",)


def test_commands_run_only_where_they_are_allowed():
    careful = replace(HERE, commands=False)
    assert missing(job({"command": "x"}), careful) == (
        "a command is to run, here was not started with --allow command",
    )
    assert missing(job(), careful) == ()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"model": "m", "runtime": "transformers", "remote_code": True}, "code beside the model (target.remote_code)"),
        ({"model": "m.pt", "runtime": "torch"}, "a PyTorch program"),
        ({"model": "m.pt2", "runtime": "torch"}, "a PyTorch program"),
        ({"model": "m.onnx", "runtime": "torch"}, "a PyTorch program"),
        (
            {"model": "m", "device": "tensorrt", "provider_options": {"trt_extra_plugin_lib_paths": "x.so"}},
            "target.provider_options.trt_extra_plugin_lib_paths",
        ),
        (
            {"model": "m", "session_options": {"ep.context_file_path": "x"}},
            "target.session_options.ep.context_file_path",
        ),
        (
            {"model": "m", "runtime": "transformers", "session_options": {"attn_implementation": "somebody/kernel"}},
            "target.session_options.attn_implementation",
        ),
    ],
)
def test_a_model_that_can_run_code_needs_an_agent_that_allows_commands(target, said):
    ready = replace(
        HERE,
        runtimes={**HERE.runtimes, "torch": "2", "transformers": "5"},
        devices={"onnxruntime": {"cpu": "x", "tensorrt": "x"}},
    )
    (lacking,) = missing(job(target), replace(ready, commands=False))
    assert said in lacking
    assert lacking.endswith("here was not started with --allow command")
    assert missing(job(target), ready) == ()
    assert said in needs_in_words(job(target))


def test_a_model_that_is_data_alone_needs_no_command():
    careful = replace(HERE, commands=False, runtimes={**HERE.runtimes, "transformers": "5"})
    options = {"session.intra_op.allow_spinning": "0", "session.disable_prepacking": "1"}
    assert missing(job({"model": "m", "session_options": options}), careful) == ()
    plain = {"model": "m", "runtime": "transformers", "session_options": {"attn_implementation": "sdpa"}}
    assert missing(job(plain), careful) == ()


@pytest.mark.parametrize(
    ("target", "needs", "kind"),
    [
        ({"model": "m"}, {}, "cpu"),
        ({"model": "m", "device": "cuda:1"}, {}, "cuda"),
        ({"command": "x"}, {}, "cpu"),
        ({"command": "x"}, {"device": "gpu"}, "cuda"),
    ],
)
def test_the_kind_of_device_a_job_measures(target, needs, kind):
    assert device_kind(job(target, **needs)) == kind


def test_everything_missing_is_said_at_once():
    assert len(missing(job(memory="1TiB", cpus=99, os="windows"), HERE)) == 3


def test_a_device_with_an_index_is_of_its_kind():
    assert missing(job({"model": "m", "device": "cuda:1"}), HERE)
    assert not missing(job({"model": "m", "runtime": "abacus", "device": "cuda:1"}), HERE)


def test_a_command_needs_no_runtime():
    assert missing(job({"command": "x"}), HERE) == ()
    assert needs_in_words(job({"command": "x"}, gpus=2)) == "a command, 2 GPUs"


def test_a_machine_that_lacks_what_a_job_needs_refuses_it():
    with pytest.raises(MeasureError, match="cuda") as caught:
        require_needs(job({"model": "m", "device": "gpu"}), HERE)
    assert caught.value.problem.code == "device"
    assert "onnxruntime-gpu" in caught.value.problem.try_
    require_needs(job(), HERE)
