"""Files from a run on an agent to the server and back to whoever asked; and their answers judged by the server."""

import io
import json
import os
import subprocess
import sys
import zipfile

import pytest
from tests.live.serve.setups import is_problem
from tests.support.leaving import document, install
from tests.support.running_server import wait_for

import assay
from assay.engines.fleet import read_file
from assay.place.fleet.client import FleetClient
from assay.run.scoring import OUTPUTS, read_outputs

pytestmark = pytest.mark.live

KEY = "a-key-that-must-not-travel"


@pytest.fixture
def with_agent(tmp_path, monkeypatch, serve):
    """A function that starts a server with one agent that has the package of the test."""
    install(tmp_path / "site", monkeypatch)
    monkeypatch.setenv("LEAVER_KEY", KEY)
    started = []

    def start(**settings):
        server = serve(**settings)
        with (tmp_path / "agent.log").open("wb") as log:
            words = [
                "agent",
                "start",
                "--server",
                server.url,
                "--state",
                str(tmp_path / "agent"),
                "--min-free",
                "1MB",
                "--allow-env",
                "LEAVER_KEY",
            ]
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "assay", *words],
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "ASSAY_STORE": str(tmp_path / "own")},
                )
            )
        wait_for(lambda: server.client.get("/agents").json()["items"], what="the agent")
        return server

    yield start
    for one in started:
        one.terminate()
        one.wait(120)


def on_fleet(**more):
    return {**document(**more), "place": {"engine": "fleet"}}


def test_answers_and_logs_come_back_through_a_fleet(with_agent, tmp_path):
    server = with_agent()
    result = assay.run(on_fleet(echo=True), server=server.url)
    (job,) = result.jobs
    assert job.state == "done", job.error
    client = FleetClient(server.url)
    content = read_file(client, job.job, 1, OUTPUTS)
    (tmp_path / "answers.gz").write_bytes(content)
    assert [one.text for one in read_outputs(tmp_path / "answers.gz")] == [
        "a cat sat on the mat ***",
        " ***",
        "dogs bark ***",
    ]
    assert read_file(client, job.job, 0, "service-llm.err") == b"run 0 is up with ***\n"
    assert read_file(client, job.job, 0, "nothing") is None
    listed = server.client.get(f"/jobs/{job.job}/artefacts").json()["items"]
    assert [one["name"] for one in listed] == [
        "run-0-outputs.jsonl.gz",
        "run-0-service-llm.err",
        "run-1-outputs.jsonl.gz",
        "run-1-service-llm.err",
    ]
    assert {one["sha256"] for one in listed} == {digest for run in job.runs for digest in run.files.values()}
    everything = b"".join(path.read_bytes() for path in (tmp_path / "server").rglob("*") if path.is_file())
    assert KEY.encode() not in everything
    archive = zipfile.ZipFile(
        io.BytesIO(server.client.get("/results/export", params={"campaign": result.record.campaign}).content)
    )
    place = f"{result.record.campaign}/files/job-0-run-1-"
    assert archive.read(f"{place}service-llm.err") == b"run 1 is up with ***\n"
    assert archive.read(f"{place}outputs.jsonl.gz") == content


def test_a_failed_job_brings_its_logs(with_agent):
    server = with_agent()
    result = assay.run(on_fleet(runs=1, refuse=True), server=server.url)
    (job,) = result.jobs
    assert job.state == "failed"
    assert read_file(FleetClient(server.url), job.job, 0, "service-llm.err") == b"run 0 is up with ***\n"


def test_a_file_that_the_server_refuses_for_its_size_does_not_cost_the_result(with_agent):
    server = with_agent(max_artefact_mb=0.03)
    answers = [os.urandom(40_000).hex()]
    result = assay.run(on_fleet(runs=1, scorers=("length",), answers=answers, references=["x"]), server=server.url)
    (job,) = result.jobs
    assert job.state == "done"
    assert set(job.runs[0].files) == {"service-llm.err"}
    assert "the server did not take it" in job.runs[0].absent[OUTPUTS]
    assert job.metrics["answer_chars"].median == 80_000


def test_a_result_that_is_too_large_for_the_server_fails_its_job_once_with_the_true_reason(with_agent):
    server = with_agent(max_result_mb=0.005)
    result = assay.run(on_fleet(runs=1), server=server.url)
    (job,) = result.jobs
    assert job.state == "failed"
    assert job.error.code == "result-too-large"
    assert "larger than the 0.005 MB that are allowed" in job.error.message
    full = server.client.get(f"/jobs/{job.job}").json()
    assert [one["state"] for one in full["attempts"]] == ["delivered"]
    assert "agents in a row were lost" not in json.dumps(full)


def test_the_server_judges_answers_again_and_says_what_the_run_said(with_agent):
    server = with_agent()
    result = assay.run(on_fleet(failed=2), server=server.url)
    (job,) = result.jobs
    path = f"/jobs/{job.job}/scores"
    assert server.client.get(path).json()["items"] == []
    made = server.client.post(path, json={"scorers": ["rouge", "exact-match", "vowels"]})
    assert made.status_code == 201, made.text
    assert server.client.get(path).json() == made.json()
    by_scorer = {one["scorer"]: one for one in made.json()["items"]}
    own = json.loads(server.client.get(f"/jobs/{job.job}/result").text)["metrics"]
    for metric in ("rouge_1", "rouge_2", "rouge_l", "rouge_lsum"):
        assert by_scorer["rouge"]["metrics"][metric]["statistics"] == own[metric]
    assert by_scorer["exact-match"]["metrics"]["exact_match"]["statistics"]["mean"] == pytest.approx(1 / 3)
    assert by_scorer["vowels"]["version"] == "leaving 2.5"
    assert by_scorer["rouge"]["absent"]["0"] == "of 5 requests 2 failed and have no answer"
    assert by_scorer["rouge"]["outputs"]["0"] == job.runs[0].files[OUTPUTS]
    again = server.client.post(path, json={})  # those of the benchmark
    assert [one["scorer"] for one in again.json()["items"]] == ["rouge", "exact-match"]
    assert len(server.client.get(path).json()["items"]) == 5
    is_problem(server.client.post(path, json={"scorers": ["nobody"]}), 422, "scorer")
    is_problem(server.client.post(path, json={"scorers": ["x"] * 21}), 422, "request")
    is_problem(server.client.post("/jobs/none/scores", json={}), 404, "unknown-job")
    is_problem(server.client.get("/jobs/none/scores"), 404, "unknown-job")
    assert server.client.delete(f"/campaigns/{result.record.campaign}").status_code < 300
    assert not [one for one in (server.state.folder / "artefacts").rglob("*") if one.is_file()]


def test_a_model_that_names_another_file_of_the_user_sends_nothing(serve, tmp_path):
    import hashlib

    from onnx import TensorProto, helper, save

    from assay.errors import MeasureError

    secret = tmp_path / "secret" / "id_rsa"
    secret.parent.mkdir()
    secret.write_bytes(b"a key of the user")
    server = serve()
    for location, link in (("../secret/id_rsa", False), (str(secret), False), ("w.bin", True)):
        folder = tmp_path / f"cloned-{hashlib.sha256(location.encode()).hexdigest()[:4]}"
        folder.mkdir()
        if link:
            (folder / "w.bin").symlink_to(secret)
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [x], [tensor])
        save(helper.make_model(graph), folder / "m.onnx")
        wanted = {"benchmark": "b", "target": {"model": str(folder / "m.onnx")}, "place": {"engine": "fleet"}}
        with pytest.raises(MeasureError, match="outside its own folder"):
            assay.run(wanted, server=server.url)
    digest = hashlib.sha256(secret.read_bytes()).hexdigest()
    assert server.client.get(f"/artefacts/{digest}").status_code == 404
    assert server.client.get("/campaigns").json()["items"] == []
