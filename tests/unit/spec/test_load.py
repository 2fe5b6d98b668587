import json

import jsonschema
import pytest

from assay.errors import SpecError
from assay.spec.load import load
from assay.spec.schema import benchmark_schema
from assay.spec.target import CommandTarget, EndpointTarget, ModelTarget, ServiceTarget

BAD = """\
benchmark: bad
target:
  modle: x.onnx
  model: y.onnx
  threads: two
workload: {batch: 0}
measure:
  runs: 500
  warmup: soon
  until: {interval: 2%, at_mst: 30s}
load: {scenario: singlestream}
matrix:
  workload.batchh: [1, 8]
extra: 1
"""

CHAT = """\
benchmark: chat capacity
services:
  llm:
    image: docker://ollama/ollama:0.6.2
    command: ollama serve
    ready: {http: /api/tags, within: 5m}
    needs: {gpus: 1, memory: 16GiB}
target: {service: llm, api: openai-chat, model: llama3.1}
workload: {task: wikipedia-summary, output_tokens: 128}
load: {arrivals: poisson, duration: 60s}
objective: {ttft_ms.p99: 500, itl_ms.p99: 50}
matrix: {load.rate: [1, 2, 4, 8]}
place: {engine: slurm, slurm: {partition: gpu, account: p200981, time: 30m}}
schedule: "0 3 * * *"
alerts:
  - {metric: ttft_ms.p99, when: worse, by: 5%, notify: [team-chat]}
"""


def write(tmp_path, text, name="b.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def problems(tmp_path, text):
    with pytest.raises(SpecError) as caught:
        load(write(tmp_path, text))
    return caught.value.problems


def test_all_problems_come_at_once_with_line_value_and_advice(tmp_path):
    found = {problem.at.rpartition(":")[2]: problem for problem in problems(tmp_path, BAD)}
    assert set(found) == {"3", "5", "6", "8", "9", "10", "11", "13", "14"}
    assert "did you mean model?" in found["3"].try_
    assert '"two"' in found["5"].message
    assert "did you mean at_most?" in found["10"].try_
    assert "did you mean single-stream?" in found["11"].try_
    assert "did you mean batch?" in found["13"].try_
    assert all(problem.try_ for problem in found.values())


def test_problems_come_in_the_order_of_the_file(tmp_path):
    lines = [int(problem.at.rpartition(":")[2]) for problem in problems(tmp_path, BAD)]
    assert lines == sorted(lines)


def test_units_are_parsed(tmp_path):
    text = "benchmark: u\ntarget: {model: m}\nmeasure: {timeout: 5m, until: {interval: 2%, at_most: 500ms}}\n"
    text += "needs: {memory: 16GiB}"
    benchmark = load(write(tmp_path, text)).benchmark
    assert benchmark.measure.timeout == 300
    assert benchmark.measure.until.interval == pytest.approx(0.02)
    assert benchmark.needs.memory == 16 * 2**30


def test_the_services_example_is_valid(tmp_path):
    benchmark = load(write(tmp_path, CHAT)).benchmark
    assert isinstance(benchmark.target, ServiceTarget)
    assert benchmark.services["llm"].ready.within == 300
    assert benchmark.place.slurm is not None
    assert benchmark.place.slurm.time == 1800


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ({"model": "m.onnx"}, ModelTarget),
        ({"command": "echo 1"}, CommandTarget),
        ({"endpoint": "http://x/v1", "api": "openai-chat", "model": "m"}, EndpointTarget),
    ],
)
def test_the_kind_of_target_follows_from_its_key(target, kind):
    assert isinstance(load({"benchmark": "k", "target": target}).benchmark.target, kind)


@pytest.mark.parametrize("name", ["GPU (ONNX)", "gpu", "cuda", "CUDA"])
def test_device_aliases_have_one_meaning(name):
    target = load({"benchmark": "d", "target": {"model": "m", "device": name}}).benchmark.target
    assert target.device == "cuda"


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ({"load": {"rate": 3}}, "load.rate"),
        ({"workload": {"output_tokens": 3}}, "workload.output_tokens"),
        ({"objective": {"latency": 3}}, "statistic"),
        ({"schedule": "every day"}, "cron"),
        ({"measure": {"until": {"at_least": "5s", "at_most": "1s"}}}, "shorter"),
        ({"measure": {"runs": 0}}, "runs"),
        ({"measure": {"runs": "5"}}, "whole number"),
        ({"target": {"model": "m", "device": "quantum"}}, "quantum"),
        ({"target": {"model": "m", "sha256": "abc"}}, "SHA-256"),
        ({"target": {"command": "x", "metrics": [{"name": "a b"}]}}, "metric name"),
        ({"target": {"command": "x", "metrics": [{"name": "a", "pattern": "no group"}]}}, "group"),
        ({"target": {"command": "x", "metrics": [{"name": "a", "pattern": "("}]}}, "regular expression"),
        ({"target": {"command": "  "}}, "empty"),
        ({"target": {"service": "s", "api": "x"}}, "services"),
        ({"services": {"s": {}}}, "a command or an image"),
        ({"services": {"s": {"command": "serve", "mounts": {"a": "/a"}}}}, "mounts would do nothing"),
        ({"services": {"s": {"image": "i", "cwd": "here"}}}, "absolute"),
        ({"services": {"a b": {"command": "serve"}}}, "not a valid service name"),
        ({"target": {"endpoint": "u", "api": "http"}, "load": {"rate": "search"}}, "no objective"),
        ({"target": {"endpoint": "u", "api": "http"}, "load": {"arrivals": "poisson"}}, "belong to a rate"),
        ({"target": {"endpoint": "u", "api": "http"}, "load": {"rate": 1, "concurrency": 2}}, "different loads"),
        ({"target": {"endpoint": "u", "api": "http"}, "load": {"rate": 1, "think": "1s"}}, "does not wait for answers"),
        ({"target": {"endpoint": "u", "api": "http"}, "load": {"rate": 1, "burstiness": 2}}, "gamma"),
        ({"target": {"endpoint": "u", "api": "http"}, "objective": {"tttft_ms.p9": 1}}, "statistic"),
        ({"target": {"endpoint": "u", "api": "http"}, "objective": {"tttft_ms.p99": 1}}, "did you mean ttft_ms"),
        ({"target": {"endpoint": "u", "api": "http", "device": "cpu"}}, "device"),
        ({"workload": {"input_tokens": {"mean": 5, "shape": "uniform"}}}, "needs max"),
        ({"matrix": {"workload.batch": 3}}, "list"),
        ({"matrix": {"workload.batch": [1], "exclude": [{"target.threads": 1}]}}, "not an axis"),
    ],
)
def test_what_cannot_mean_anything_is_refused(section, word):
    with pytest.raises(SpecError, match=word):
        load({"benchmark": "w", "target": {"model": "m"}, **section})


def test_required_keys_may_come_from_the_matrix():
    loaded = load({"benchmark": "m", "matrix": {"target.model": ["a.onnx", "b.onnx"]}})
    assert loaded.benchmark.target.model == "a.onnx"


def test_a_missing_target_is_named():
    with pytest.raises(SpecError, match="target"):
        load({"benchmark": "m"})


def test_the_schema_accepts_what_the_loader_accepts(tmp_path):
    schema = benchmark_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    loaded = load(write(tmp_path, CHAT))
    assert not list(validator.iter_errors(loaded.source.document))
    assert list(validator.iter_errors({"benchmark": "x", "target": {"model": "m"}, "extra": 1}))


def test_the_schema_reports_what_keys_mean():
    assert "fresh processes" in json.dumps(benchmark_schema()).lower()


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(SpecError, match="assay init"):
        load(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("ids.npy", {"file": "ids.npy"}),
        ("IN.PB", {"file": "IN.PB"}),
        (1, {"value": 1}),
        ([[1, 2]], {"value": [[1, 2]]}),
        ("some text", {"value": "some text"}),
        ({"range": [0, 5]}, {"range": [0.0, 5.0]}),
    ],
)
def test_inputs_have_a_short_form(short, whole):
    document = {"benchmark": "i", "target": {"model": "m"}, "workload": {"inputs": {"x": short}}}
    found = load(document).benchmark.workload.inputs["x"]
    assert found.model_dump(mode="json", exclude_defaults=True) == whole
    assert not list(jsonschema.Draft202012Validator(benchmark_schema()).iter_errors(document))


def test_a_wrong_input_is_reported_by_its_key():
    document = {"benchmark": "i", "target": {"model": "m"}, "workload": {"inputs": {"x": {"fill": 1}}}}
    with pytest.raises(SpecError, match=r"workload\.inputs\.x\.fill"):
        load(document)
