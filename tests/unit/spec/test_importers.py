"""Documents of other tools become benchmarks, and what is wrong with them is said in their own words."""

import pytest

from assay.errors import UsageError
from assay.plan.plan import combine, make_plan
from assay.spec.importers.sark import benchmarks_of
from assay.spec.load import load

URL = "https://models.example/zoo/squeezenet1.1.onnx?download=1"


def body(*jobs, **more):
    return {"model_url": URL, "jobs": list(jobs) or [{"compute_unit": "CPU (ONNX)"}], **more}


def test_one_benchmark_for_each_job():
    made = benchmarks_of(
        body(
            {"compute_unit": "CPU (ONNX)", "num_inference_runs": 50},
            {"compute_unit": "Neural Engine (CoreML)", "worker_id": "worker-0123456789ab"},
        )
    )
    assert made == (
        {
            "benchmark": "squeezenet1.1.onnx",
            "labels": {},
            "target": {"model": URL, "device": "cpu"},
            "measure": {"runs": 5, "until": {"samples": 50}},
        },
        {
            "benchmark": "squeezenet1.1.onnx",
            "labels": {},
            "target": {"model": URL, "device": "coreml-ane"},
            "measure": {"runs": 5, "until": {"samples": 10}},
            "needs": {"agent": "worker-0123456789ab"},
        },
    )


@pytest.mark.parametrize(
    ("unit", "device"),
    [("CPU (ONNX)", "cpu"), ("GPU (ONNX)", "cuda"), ("GPU (CoreML)", "coreml-gpu"), ("DirectML (ONNX)", "directml"),
     ("OpenVINO (ONNX)", "openvino"), ("Neural Engine (CoreML)", "coreml-ane")],
)  # fmt: skip
def test_every_compute_unit_is_known(unit, device):
    (made,) = benchmarks_of(body({"compute_unit": unit}))
    assert load(made).benchmark.target.device == device


def test_names_and_labels_are_kept():
    (made,) = benchmarks_of(body(name=" nightly ", labels={"team": "vision"}))
    loaded = load(made)
    assert (loaded.benchmark.benchmark, loaded.benchmark.labels) == ("nightly", {"team": "vision"})
    assert benchmarks_of(body() | {"model_url": "https://models.example/"})[0]["benchmark"] == "models.example"


@pytest.mark.parametrize(
    ("wrong", "words", "at"),
    [
        ({"jobs": [{}]}, "missing required field: model_url", "model_url"),
        ({"model_url": URL}, "missing required field: jobs", "jobs"),
        ({}, "model_url and jobs", "model_url"),
        ([], "JSON object", "body"),
        (body() | {"model_url": ""}, "URL of a model", "model_url"),
        (body() | {"model_url": 3}, "URL of a model", "model_url"),
        (body() | {"model_url": "file:///etc/passwd"}, "http or https", "model_url"),
        (body() | {"jobs": []}, "at least one job", "jobs"),
        (body() | {"jobs": {"compute_unit": "CPU (ONNX)"}}, "at least one job", "jobs"),
        (body("CPU (ONNX)"), "an object with compute_unit", "jobs[0]"),
        (body({"num_inference_runs": 3}), "compute_unit is missing; use one of CPU (ONNX)", "jobs[0].compute_unit"),
        (body({"compute_unit": ""}), "compute_unit is missing", "jobs[0].compute_unit"),
        (body({"compute_unit": "TPU"}), "OpenVINO (ONNX)", "jobs[0].compute_unit"),
        (body({"compute_unit": ["CPU (ONNX)"]}), "unknown compute_unit", "jobs[0].compute_unit"),
        (body({"compute_unit": "CPU (ONNX)", "worker_id": 7}), "worker_id", "jobs[0].worker_id"),
        (body(name=""), "1 to 200 characters", "name"),
        (body(labels={"a": 1}), "labels", "labels"),
    ],
)
def test_what_is_wrong_is_said(wrong, words, at):
    with pytest.raises(UsageError) as caught:
        benchmarks_of(wrong)
    assert words in caught.value.problem.message
    assert caught.value.problem.at == at


@pytest.mark.parametrize("count", [0, -1, 1_000_001, 2.5, "10", True, None])
def test_a_number_of_inferences_that_is_none(count):
    with pytest.raises(UsageError, match="from 1 to 1,000,000"):
        benchmarks_of(body({"compute_unit": "CPU (ONNX)"}, {"compute_unit": "CPU (ONNX)", "num_inference_runs": count}))


def test_a_campaign_becomes_one_plan():
    jobs = [{"compute_unit": "CPU (ONNX)"}, {"compute_unit": "GPU (ONNX)"}, {"compute_unit": "CPU (ONNX)"}]
    plan = combine([make_plan(load(one), lambda _: {}) for one in benchmarks_of(body(*jobs))])
    assert [job.definition.target.device for job in plan.jobs] == ["cpu", "cuda", "cpu"]
    assert [job.index for job in plan.jobs] == [0, 1, 2]
