"""Stored benchmarks, and what is refused before anything runs."""

import hashlib

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, submit

pytestmark = pytest.mark.live


def test_a_benchmark_has_a_history(server):
    client = server.client
    made = client.post("/benchmarks", json={"document": benchmark()})
    assert made.status_code == 201
    assert made.json()["version"] == 1
    is_problem(client.post("/benchmarks", json={"document": benchmark()}), 409, "exists")
    changed = client.put("/benchmarks/speed", json={"document": benchmark(batches=(4,))})
    assert changed.json()["version"] == 2
    same = client.put("/benchmarks/speed", json={"document": benchmark(batches=(4,))})
    assert same.json()["version"] == 2
    assert client.get("/benchmarks/speed").json()["document"]["matrix"] == {"workload.batch": [4]}
    assert client.get("/benchmarks/speed", params={"version": 1}).json()["document"] == benchmark()
    assert [one["version"] for one in client.get("/benchmarks/speed/versions").json()["items"]] == [2, 1]
    assert [one["name"] for one in client.get("/benchmarks", params={"text": "pee"}).json()["items"]] == ["speed"]
    assert client.delete("/benchmarks/speed").status_code == 204
    is_problem(client.get("/benchmarks/speed"), 404, "unknown-benchmark")
    is_problem(client.delete("/benchmarks/speed"), 404, "unknown-benchmark")
    assert client.get("/benchmarks").json()["items"] == []


def test_a_change_that_another_else_made_first_is_not_lost(server):
    client = server.client
    tag = client.post("/benchmarks", json={"document": benchmark()}).headers["etag"]
    assert client.get("/benchmarks/speed", headers={"If-None-Match": tag}).status_code == 304
    first = client.put("/benchmarks/speed", json={"document": benchmark(batches=(4,))}, headers={"If-Match": tag})
    assert first.status_code == 200
    assert first.headers["etag"] != tag
    second = client.put("/benchmarks/speed", json={"document": benchmark(batches=(8,))}, headers={"If-Match": tag})
    is_problem(second, 412, "precondition")
    odd = client.put("/benchmarks/speed", json={"document": benchmark(batches=(8,))}, headers={"If-Match": '"odd"'})
    is_problem(odd, 412, "precondition")
    assert client.get("/benchmarks/speed", headers={"If-None-Match": tag}).status_code == 200


def test_a_stored_benchmark_is_submitted_by_name(server):
    client = server.client
    client.post("/benchmarks", json={"document": benchmark()})
    client.put("/benchmarks/speed", json={"document": benchmark(batches=(1, 2, 3))})
    newest = client.post("/campaigns", json={"benchmark": "speed"}).json()
    first = client.post("/campaigns", json={"benchmark": "speed", "version": 1}).json()
    assert (newest["jobs"], first["jobs"]) == (3, 2)
    assert client.get(f"/campaigns/{first['id']}").json()["version"] == 1
    is_problem(client.post("/campaigns", json={"benchmark": "none"}), 404, "unknown-benchmark")
    is_problem(client.post("/campaigns", json={"benchmark": "speed", "document": benchmark()}), 400, "submission")
    is_problem(client.post("/campaigns", json={}), 400, "submission")


def test_names_that_do_not_fit_are_refused(server):
    client = server.client
    client.post("/benchmarks", json={"document": benchmark()})
    is_problem(client.put("/benchmarks/speed", json={"document": benchmark("other")}), 422, "name")
    is_problem(client.post("/benchmarks", json={"document": benchmark("a/b")}), 422, "name")
    is_problem(client.put("/benchmarks/none", json={"document": benchmark("none")}), 404, "unknown-benchmark")


def test_every_problem_of_a_document_is_reported(server):
    wrong = {"benchmark": "x", "target": {"model": "squeezenet", "devise": "cpu"}, "measure": {"runs": 1000}}
    for path, body in (
        ("/campaigns", {"document": wrong}),
        ("/benchmarks", {"document": wrong}),
        ("/benchmarks/check", {"document": wrong}),
    ):
        said = server.client.post(path, json=body)
        assert said.status_code == 422
        errors = said.json()["errors"]
        assert len(errors) == 2
        assert any("did you mean device?" in one["try"] for one in errors)
        assert all(one["at"] for one in errors)


def test_a_check_says_what_would_happen_and_keeps_nothing(server):
    client = server.client
    Agent(client)
    preview = client.post("/benchmarks/check", json={"document": benchmark()}).json()
    assert preview["jobs"] == 2
    assert [one["label"] for one in preview["job_list"]] == ["batch=1", "batch=2"]
    assert preview["placement"]["groups"][0]["agents"] == ["box"]
    assert client.get("/campaigns").json()["items"] == client.get("/benchmarks").json()["items"] == []


def test_files_of_the_client_must_be_uploaded(server):
    client = server.client
    document = benchmark(target={"model": "models/own.onnx"})
    said = is_problem(client.post("/campaigns", json={"document": document}), 422, "local-path")
    assert "models/own.onnx" in said["detail"]
    assert "--server" in said["try"]
    content = b"a model"
    digest = hashlib.sha256(content).hexdigest()
    files = {"models/own.onnx": [{"name": "own.onnx", "sha256": digest, "size_bytes": len(content)}]}
    said = is_problem(client.post("/campaigns", json={"document": document, "files": files}), 409, "missing-artefact")
    assert said["errors"][0]["sha256"] == digest
    assert client.post("/benchmarks/check", json={"document": document, "files": files}).json()["files_missing"] == [
        digest
    ]
    agent = Agent(client)
    agent.upload(content)
    submit(client, document, files=files)
    lease = agent.lease()
    assert lease.job.files["models/own.onnx"][0].sha256 == digest
    assert client.get(f"/artefacts/{digest}").content == content


def test_the_content_of_files_is_part_of_the_digest(server):
    agent = Agent(server.client)
    document = benchmark(target={"model": "own.onnx"}, batches=(1,))
    digests = set()
    for content in (b"one", b"two"):
        digest = agent.upload(content)
        files = {"own.onnx": [{"name": "own.onnx", "sha256": digest, "size_bytes": 3}]}
        submit(server.client, document, files=files)
        digests.add(agent.lease().job.digest)
        agent = Agent(server.client, f"box of {content}")
    assert len(digests) == 2


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "a\\b", "c:x", ".hidden", ""])
def test_names_of_files_never_leave_their_folder(server, name):
    files = {"own.onnx": [{"name": name, "sha256": "0" * 64, "size_bytes": 3}]}
    document = benchmark(target={"model": "own.onnx"})
    said = server.client.post("/campaigns", json={"document": document, "files": files})
    is_problem(said, 400, "file-name")


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (benchmark(place={"engine": "slurm"}), "engine"),
        ({"benchmark": "x", "target": {"endpoint": "https://api", "api": "carrier-pigeon"}}, "target"),
    ],
)
def test_what_no_agent_does_is_refused(server, document, code):
    is_problem(server.client.post("/campaigns", json={"document": document}), 422, code)


@pytest.mark.parametrize("more", [{"priority": 101}, {"deadline_s": 0}, {"deadline_s": -5}])
def test_options_out_of_range_are_refused(server, more):
    is_problem(server.client.post("/campaigns", json={"document": benchmark(), **more}), 400, "submission")


def test_the_options_of_a_submission_win_over_the_file(server):
    fleet = {"priority": 1, "unplaceable": "fail", "spread": "pack", "deadline": "1h"}
    document = benchmark(place={"engine": "fleet", "fleet": fleet}, labels={"a": "file", "b": "file"})
    one = server.client.get(f"/campaigns/{submit(server.client, document)['id']}").json()
    assert (one["priority"], one["spread"], one["labels"]) == (1, "pack", {"a": "file", "b": "file"})
    wishes = {"priority": 7, "unplaceable": "wait", "spread": "spread", "labels": {"b": "wish"}}
    other = server.client.get(f"/campaigns/{submit(server.client, document, **wishes)['id']}").json()
    assert (other["priority"], other["spread"], other["unplaceable"]) == (7, "spread", "wait")
    assert other["labels"] == {"a": "file", "b": "wish"}
    assert other["deadline"] is not None


def test_commands_and_their_scripts(server):
    agent = Agent(server.client)
    digest = agent.upload(b"print('speed: 1')")
    document = {"benchmark": "p", "target": {"command": "python train.py"}, "measure": {"runs": 1}}
    files = {"train.py": [{"name": "train.py", "sha256": digest, "size_bytes": 17}]}
    submit(server.client, document, files=files)
    assert agent.lease().job.files["train.py"][0].sha256 == digest
    broken = {"benchmark": "p", "target": {"command": "python 'train.py"}, "measure": {"runs": 1}}
    assert server.client.post("/campaigns", json={"document": broken}).status_code == 422
