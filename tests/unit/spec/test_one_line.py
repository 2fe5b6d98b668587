"""Options that stand for keys: what each sets, what it replaces, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import SpecError
from assay.plan.plan import make_plan
from assay.spec.flags import FLAGS
from assay.spec.load import check
from assay.spec.one_line import kind_of_document, with_flags
from assay.spec.problems import valid_keys
from assay.spec.source import from_mapping, parse

MODEL = {"benchmark": "b", "target": {"model": "squeezenet"}}
CHAT = {
    "benchmark": "b",
    "target": {"endpoint": "http://h/v1", "api": "openai-chat", "model": "m"},
    "load": {"concurrency": 8, "duration": "60s"},
}
COMMAND = {"benchmark": "b", "target": {"command": "true"}}


def changed(document, quick=False, **given):
    source = from_mapping(document)
    return with_flags(source, kind_of_document(document), given, quick=quick).document


@pytest.mark.parametrize(
    ("document", "given", "section", "value"),
    [
        (MODEL, {"device": "GPU (ONNX)"}, "target", {"model": "squeezenet", "device": "GPU (ONNX)"}),
        (MODEL, {"threads": "2", "runtime": "torch"}, "target", {**MODEL["target"], "threads": 2, "runtime": "torch"}),
        (MODEL, {"batch": "8"}, "workload", {"batch": 8}),
        (MODEL, {"batch": "1,8"}, "matrix", {"workload.batch": [1, 8]}),
        (MODEL, {"batch": "1, 8", "device": "cpu,cuda"}, "matrix",
         {"target.device": ["cpu", "cuda"], "workload.batch": [1, 8]}),
        (COMMAND, {"runs": "7"}, "measure", {"runs": 7}),
        (CHAT, {"model": "7"}, "target", {**CHAT["target"], "model": "7"}),  # a name, however it looks
        (CHAT, {"input_tokens": "512", "output_tokens": "128"}, "workload",
         {"input_tokens": 512, "output_tokens": 128}),
        (CHAT, {"input_tokens": "{mean: 512, std: 20}"}, "workload", {"input_tokens": {"mean": 512, "std": 20}}),
        # A level takes the place of another, and an end that of another.
        (CHAT, {"rate": "5"}, "load", {"rate": 5, "duration": "60s"}),
        (CHAT, {"rate": "5", "requests": "300"}, "load", {"rate": 5, "requests": 300}),
        (CHAT, {"concurrency": "4", "duration": "5s"}, "load", {"concurrency": 4, "duration": "5s"}),
        (CHAT, {"rate": "1,2.5"}, "matrix", {"load.rate": [1, 2.5]}),
        ({**MODEL, "matrix": {"workload.batch": [1, 8], "target.threads": [1, 2]}}, {"batch": "4"}, "matrix",
         {"target.threads": [1, 2]}),
    ],
)  # fmt: skip
def test_what_an_option_sets(document, given, section, value):
    assert changed(document, **given)[section] == value


def test_every_option_stands_for_a_key_of_the_file():
    for flag in FLAGS:
        *section, key = flag.path.split(".")
        assert key in valid_keys(tuple(section)), flag.name


def test_what_was_typed_can_be_measured():
    benchmark = check(
        with_flags(from_mapping(CHAT), "endpoint", {"rate": "5", "requests": "300", "output_tokens": "128"}), Path()
    ).benchmark
    assert (benchmark.load.rate, benchmark.load.requests, benchmark.load.duration) == (5, 300, None)


@pytest.mark.parametrize(
    ("document", "flag", "said"),
    [
        (MODEL, "rate", "an endpoint; this is a model"),
        (COMMAND, "batch", "this is a command"),
        (CHAT, "device", "a model and a language model; this is an endpoint"),
        (CHAT, "threads", "this is an endpoint"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(document, flag, said):
    with pytest.raises(SpecError) as caught:
        changed(document, **{flag: "1"})
    problem = caught.value.problem
    assert (problem.code, problem.at) == ("option", f"--{flag}")
    assert said in problem.message
    assert "--runs" in problem.try_


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ({"batch": "x"}, "--batch"),
        ({"batch": "1,0"}, "--batch"),
        ({"device": "gpuu"}, "--device"),
        ({"runs": ""}, "--runs"),
    ],
)
def test_a_wrong_value_is_at_its_option(given, at):
    source = parse("benchmark: b\ntarget: {model: m}\nworkload: {batch: 2}\n", ".yaml", "b.yaml")
    with pytest.raises(SpecError) as caught:
        make_plan(check(with_flags(source, "model", given), Path()), lambda _: {})
    assert caught.value.problem.at == at


@pytest.mark.parametrize(
    ("document", "given", "section", "value"),
    [
        (MODEL, {}, "measure", {"runs": 1, "until": {"at_most": "2s"}}),
        (MODEL, {"runs": "2"}, "measure", {"runs": 2, "until": {"at_most": "2s"}}),
        (COMMAND, {}, "measure", {"runs": 1}),
        (CHAT, {}, "load", {"concurrency": 8, "duration": "5s"}),
        (CHAT, {"requests": "20"}, "load", {"concurrency": 8, "requests": 20}),
        (CHAT, {"duration": "1s"}, "load", {"concurrency": 8, "duration": "1s"}),
        ({**CHAT, "load": {"trace": "t.csv"}}, {}, "load", {"trace": "t.csv"}),
        ({**CHAT, "load": {"rate": "search"}}, {}, "load",
         {"rate": "search", "search": {"probe": "2s", "probes": 5}}),
        ({**COMMAND, "matrix": {"target.cwd": ["a", "b"], "measure.runs": [1, 2]}}, {}, "matrix",
         {"target.cwd": ["a", "b"]}),
    ],
)  # fmt: skip
def test_a_quick_look_is_one_short_run(document, given, section, value):
    made = changed(document, quick=True, **given)
    assert made[section] == value
    assert made["benchmark"] == "b (quick look)"  # so that no series of measurements has it
