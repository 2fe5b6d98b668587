"""A benchmark file while it is written: what it says, what is wrong and where, what would happen."""

import json

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem

pytestmark = pytest.mark.live

YAML = """\
benchmark: speed
target:
  model: squeezenet
measure:
  runs: 3
matrix:
  workload.batch: [1, 2]
"""


def read(client, text, form="yaml", **more):
    answer = client.post("/benchmarks/read", json={"text": text, "format": form, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(("form", "text"), [
    ("yaml", YAML),
    ("json", json.dumps(benchmark(), indent=2)),
    ("toml", 'benchmark = "speed"\n[target]\nmodel = "squeezenet"\n[measure]\nruns = 3\n[matrix]\n"workload.batch" = [1, 2]'),  # noqa: E501
])  # fmt: skip
def test_a_file_that_is_right_reports_what_would_happen(server, form, text):
    Agent(server.client)
    told = read(server.client, text, form)
    assert (told["document"], told["errors"]) == (benchmark(), [])
    assert told["preview"] == server.client.post("/benchmarks/check", json={"document": benchmark()}).json()
    assert told["preview"]["placement"]["groups"][0]["agents"] == ["box"]
    assert server.client.get("/campaigns").json()["items"] == []


def test_every_error_has_its_place(server):
    text = YAML.replace("runs: 3", "rnus: 3\n  confidence: 2")
    told = read(server.client, text)
    assert told["preview"] is None
    assert told["document"]["measure"] == {"rnus": 3, "confidence": 2}
    first, second = told["errors"]
    assert (first["code"], first["line"], first["column"], first["path"]) == ("unknown-key", 5, 3, "measure.rnus")
    assert (first["try"], first["message"][:12]) == ("did you mean runs?", "measure.rnus")
    assert (second["line"], second["path"]) == (6, "measure.confidence")


def test_an_error_in_a_line_of_several_keys_is_found_in_it(server):
    told = read(server.client, "benchmark: speed\ntarget: {model: squeezenet, colour: red}\n")
    (error,) = told["errors"]
    assert (error["line"], error["column"], error["path"]) == (2, 29, "target.colour")


def test_an_error_at_one_point_of_the_matrix_stands_at_its_axis(server):
    told = read(server.client, YAML.replace("[1, 2]", "[1, -2]"))
    (error,) = told["errors"]
    assert (error["line"], error["path"]) == (7, "matrix.workload.batch")


def test_a_missing_key_is_reported_at_its_section(server):
    told = read(server.client, "benchmark: speed\ntarget:\n  url: http://127.0.0.1:1\n")
    assert told["errors"]
    assert all(error["line"] in (None, 2, 3) for error in told["errors"])


@pytest.mark.parametrize(("form", "text", "line"), [("yaml", "benchmark: speed\n  a: [", 2), ("json", '{\n"a": }', 2),
                                                    ("toml", "a = ", None), ("yaml", "", None),
                                                    ("yaml", "- a\n- b\n", None)])  # fmt: skip
def test_text_that_is_no_file_is_reported_too(server, form, text, line):
    told = read(server.client, text, form)
    assert (told["document"], told["preview"]) == (None, None)
    (error,) = told["errors"]
    assert (error["code"], error["line"]) == ("syntax", line)


def test_a_file_that_only_the_writer_has_must_be_uploaded(server):
    text = YAML.replace("squeezenet", "./mine.onnx")
    (error,) = read(server.client, text)["errors"]
    assert (error["code"], error["line"]) == ("local-path", None)
    digest = Agent(server.client).upload(b"a model", "mine.onnx")
    files = {"./mine.onnx": [{"name": "mine.onnx", "sha256": digest, "size_bytes": 7}]}
    told = read(server.client, text, files=files)
    assert (told["errors"], told["preview"]["files_missing"]) == ([], [])
    files["./mine.onnx"][0]["sha256"] = "0" * 64
    assert read(server.client, text, files=files)["preview"]["files_missing"] == ["0" * 64]


def test_what_could_not_run_on_a_fleet_is_reported(server):
    told = read(server.client, YAML.replace("squeezenet", "squeezenet\nplace: {engine: slurm}"))
    assert told["preview"] is None
    assert told["errors"]


def test_markup_stays_text(server):
    told = read(server.client, YAML.replace("speed", "'<script>alert(1)</script>'"))
    assert told["preview"]["benchmark"] == "<script>alert(1)</script>"


def test_too_much_text_is_refused_before_it_is_read(server):
    is_problem(server.client.post("/benchmarks/read", json={"text": "#" * 500_001, "format": "yaml"}), 422, "request")
    is_problem(server.client.post("/benchmarks/read", json={"text": "", "format": "xml"}), 422, "request")


def test_a_small_file_that_unfolds_to_a_large_one_is_reported(server):
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{key}: &{key} [{', '.join([f'*{before}'] * 10)}]" for before, key in zip("abcdef", "bcdefg", strict=True)
    ]
    (error,) = read(server.client, "\n".join(lines))["errors"]
    assert error["code"] == "syntax"
