"""Files that a result names: they must be there before it is taken, and go with their campaign."""

import gzip

import pytest
from tests.live.serve.setups import Agent, is_problem, result_of, submit
from tests.support.running_server import wait_for

pytestmark = pytest.mark.live

LINE = b'{"item": "a", "session": 0, "turn": 0, "text": "the cat", "reference": "the cat"}\n'
ANSWERS = gzip.compress(LINE, mtime=0)


def with_files(lease, files):
    document = result_of(lease.job)
    document["runs"][0]["files"] = files
    return document


def remove(server, campaign):
    wait_for(lambda: server.client.delete(f"/campaigns/{campaign}").status_code < 300, what="the campaign's end")


def test_a_result_waits_for_the_files_that_it_names(server):
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    document = with_files(lease, {"outputs.jsonl.gz": "a" * 64})
    refused = is_problem(agent.deliver(lease, document), 409, "missing-artefact")
    assert refused["errors"][0]["sha256"] == "a" * 64
    digest = agent.upload(ANSWERS, "outputs.jsonl.gz")
    assert agent.deliver(lease, with_files(lease, {"outputs.jsonl.gz": digest})).json() == {"delivery": "accepted"}
    (listed,) = server.client.get(f"/jobs/{lease.job.id}/artefacts").json()["items"]
    assert (listed["name"], listed["fence"], listed["size_bytes"]) == ("run-0-outputs.jsonl.gz", 1, len(ANSWERS))
    # An answer that got lost on its way: the same result again changes nothing.
    assert agent.deliver(lease, with_files(lease, {"outputs.jsonl.gz": digest})).json() == {"delivery": "repeated"}
    assert len(server.client.get(f"/jobs/{lease.job.id}/artefacts").json()["items"]) == 1


def test_a_name_never_becomes_a_path(server):
    agent = Agent(server.client)
    campaign = submit(server.client)["id"]
    lease = agent.lease()
    digest = agent.upload(ANSWERS)
    assert agent.deliver(lease, with_files(lease, {"../../x": digest, "a\nb": digest})).status_code == 200
    names = {one["name"] for one in server.client.get(f"/jobs/{lease.job.id}/artefacts").json()["items"]}
    assert names == {"run-0-x", "run-0-ab"}
    is_problem(agent.deliver(lease, with_files(lease, {"x": "../../etc"})), 400, "digest")
    answer = server.client.get("/results/export", params={"campaign": campaign})
    import io
    import zipfile

    assert all(".." not in name for name in zipfile.ZipFile(io.BytesIO(answer.content)).namelist())


def test_files_go_with_the_last_campaign_that_has_them(server):
    agent = Agent(server.client)
    campaigns = [submit(server.client, None)["id"] for _ in range(2)]
    digest = agent.upload(ANSWERS)
    while (lease := agent.lease(wait_s=0)) is not None:
        agent.deliver(lease, with_files(lease, {"outputs.jsonl.gz": digest}))
    remove(server, campaigns[0])
    assert server.client.head(f"/artefacts/{digest}").status_code == 200
    remove(server, campaigns[1])
    assert server.client.head(f"/artefacts/{digest}").status_code == 404


def test_an_uploaded_input_stays_when_a_campaign_goes(server):
    agent = Agent(server.client)
    campaign = submit(server.client)["id"]
    lease = agent.lease()
    digest = agent.upload(b"a model")
    path = f"/jobs/{lease.job.id}/attempts/{lease.fence}/artefacts/model.onnx"
    assert server.client.put(path, params={"agent": agent.id, "sha256": digest}).status_code == 204
    agent.work()
    server.client.post(f"/campaigns/{campaign}/cancel")
    remove(server, campaign)
    assert server.client.head(f"/artefacts/{digest}").status_code == 200


def test_scores_of_answers_that_were_replaced_are_not_shown(server):
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    digest = agent.upload(ANSWERS)
    agent.deliver(lease, with_files(lease, {"outputs.jsonl.gz": digest}))
    path = f"/jobs/{lease.job.id}/scores"
    is_problem(server.client.post(path, json={}), 400, "no-scorer")
    assert server.client.post(path, json={"scorers": ["exact-match"]}).status_code == 201
    assert len(server.client.get(path).json()["items"]) == 1
    state = server.state.kept.store
    from assay.store.tables import JobRow, RunRow

    other = agent.upload(gzip.compress(LINE * 2, mtime=0))
    with state._writing() as session:
        for row in (session.get(JobRow, lease.job.id), session.get(RunRow, (lease.job.id, 0))):
            column = "result" if isinstance(row, JobRow) else "document"
            setattr(row, column, getattr(row, column).replace(digest, other))
    assert server.client.get(path).json()["items"] == []


def test_a_job_without_answers_cannot_be_judged(server):
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    path = f"/jobs/{lease.job.id}/scores"
    is_problem(server.client.post(path, json={"scorers": ["rouge"]}), 400, "no-outputs")
    agent.deliver(lease)
    is_problem(server.client.post(path, json={"scorers": ["rouge"]}), 400, "no-outputs")
