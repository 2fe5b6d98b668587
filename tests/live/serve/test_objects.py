"""A server with a bucket: files go there by themselves, a second server reads them, an outage blocks nothing."""

import hashlib
import io
import signal
import socket
import zipfile

import httpx
import pytest
from tests.live.serve.setups import Agent, is_problem, result_of, samples_file, submit
from tests.support.running_server import PATIENCE_S, wait_for

from assay.errors import UsageError
from assay.serve.settings import ServerSettings, read_settings

pytestmark = pytest.mark.live

ANSWERS = b"what the model said"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    """Uploads settle at once, and a bucket that is away is told soon and asked again soon."""
    from datetime import timedelta

    import assay.serve.live.loops as object_upload
    from assay.store.objects import backing, s3

    monkeypatch.setattr(object_upload, "_SETTLED_S", 0.3)
    monkeypatch.setattr(object_upload, "EVERY_S", 0.1)
    monkeypatch.setattr(s3, "_RETRY_WITHIN", timedelta(milliseconds=300))
    monkeypatch.setattr(backing, "_REST_S", 0.5)


def delivered(server, agent, seed=0):
    """One job's result, with samples and a file; its job and their hashes."""
    content, samples = samples_file(seed)
    agent.upload(content)
    left = agent.upload(ANSWERS, "answers.txt")
    lease = agent.lease()
    document = result_of(lease.job, samples=samples)
    document["runs"][0]["files"] = {"answers.txt": left}
    assert agent.deliver(lease, document).json() == {"delivery": "accepted"}
    return lease.job.id, samples, left


def expected(samples, left):
    return sorted([f"samples/{samples[:2]}/{samples}.parquet", f"artefacts/{left[:2]}/{left}"])


def waiting(server):
    text = httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith("assay_objects_waiting ")))


def test_what_agents_deliver_is_in_the_bucket_soon_and_once(serve, s3):
    server = serve(objects=s3.url())
    agent = Agent(server.client)
    submit(server.client)
    _job, samples, left = delivered(server, agent)
    wait_for(lambda: s3.keys() == expected(samples, left), what="both objects")
    wait_for(lambda: waiting(server) == 0, what="an empty outbox")
    assert (s3.bucket / expected(samples, left)[1]).read_bytes() == samples_file()[0]


def test_a_second_server_with_a_folder_of_its_own_has_the_same_files(serve, s3, tmp_path):
    database = f"sqlite:///{tmp_path / 'shared.db'}"
    first = serve(objects=s3.url(), database_url=database)
    campaign = submit(first.client)["id"]
    job, samples, left = delivered(first, Agent(first.client))
    wait_for(lambda: len(s3.keys()) == 2, what="both objects")
    second = serve(objects=s3.url(), database_url=database, folder=tmp_path / "second")
    answer = second.client.get(f"/jobs/{job}/runs/0/samples")
    assert hashlib.sha256(answer.content).hexdigest() == samples
    assert int(second.client.head(f"/artefacts/{left}").headers["Content-Length"]) == len(ANSWERS)
    assert second.client.get(f"/artefacts/{left}").content == ANSWERS
    third = serve(objects=s3.url(), database_url=database, folder=tmp_path / "third")
    exported = third.client.get("/results/export", params={"campaign": campaign})
    with zipfile.ZipFile(io.BytesIO(exported.content)) as archive:
        assert archive.read(f"{campaign}/files/job-0-run-0-answers.txt") == ANSWERS
        assert archive.read(f"{campaign}/samples/job-0-run-0.parquet") == samples_file()[0]
    # What the first server took, the second accepts in a result without asking for it again.
    agent = Agent(second.client, "other")
    lease = agent.lease()
    document = result_of(lease.job, samples=samples)
    document["runs"][0]["files"] = {"answers.txt": left}
    assert agent.deliver(lease, document).json() == {"delivery": "accepted"}


def test_while_the_bucket_is_away_agents_deliver_and_nothing_is_lost(serve, s3):
    server = serve(objects=s3.url())
    agent = Agent(server.client)
    submit(server.client)
    s3.stop(signal.SIGKILL)
    job, samples, left = delivered(server, agent)
    assert server.client.get(f"/jobs/{job}/runs/0/samples").status_code == 200
    assert server.client.head(f"/artefacts/{'0' * 64}").status_code == 404
    is_problem(server.client.get(f"/artefacts/{'0' * 64}"), 503, "unavailable")
    wait_for(lambda: waiting(server) == 2, what="two files that wait")
    s3.start()
    wait_for(lambda: s3.keys() == expected(samples, left), what="both objects")
    is_problem(server.client.get(f"/artefacts/{'0' * 64}"), 404, "unknown-artefact")


def test_a_server_that_is_killed_sends_after_its_start(serve_process, s3):
    s3.stop(signal.SIGKILL)
    server = serve_process("--objects", s3.url())
    with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=PATIENCE_S) as client:
        agent = Agent(client)
        submit(client)
        _, samples, left = delivered(server, agent)
        server.kill()
        s3.start()
        assert s3.keys() == []
        server.start()
        wait_for(lambda: s3.keys() == expected(samples, left), what="both objects")
    assert server.stop() == 0


def test_a_bucket_that_takes_a_connection_and_says_nothing_keeps_no_server_from_ending(serve_process, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(PATIENCE_S)
        server = serve_process("--objects", f"s3://results?endpoint=http://127.0.0.1:{silent.getsockname()[1]}")
        with httpx.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=PATIENCE_S) as client:
            Agent(client).upload(ANSWERS)
        held, _ = silent.accept()  # the server is sending now
        with held:
            assert server.stop() == 0


def test_a_removed_campaign_leaves_nothing_in_the_bucket(serve, s3):
    server = serve(objects=s3.url())
    agent = Agent(server.client)
    campaign = submit(server.client)["id"]
    delivered(server, agent)
    agent.work()
    wait_for(lambda: len(s3.keys()) == 2, what="both objects")
    wait_for(lambda: server.client.delete(f"/campaigns/{campaign}").status_code < 300, what="the campaign's end")
    wait_for(lambda: s3.keys() == [], what="an empty bucket")


def test_copies_make_room_and_come_back(serve, s3, monkeypatch):
    from assay.store.objects import transfer

    monkeypatch.setattr(transfer, "_IN_USE_S", 0.0)
    monkeypatch.setattr("assay.serve.live.loops._TRIM_EVERY_S", 0.2)
    server = serve(objects=s3.url(), objects_cache_mb=0)
    submit(server.client)
    job, samples, _ = delivered(server, Agent(server.client))
    kept = server.state.kept.store
    wait_for(lambda: not list(kept.samples.here()) and not list(kept.artefacts.here()), what="an empty folder")
    assert hashlib.sha256(server.client.get(f"/jobs/{job}/runs/0/samples").content).hexdigest() == samples


@pytest.mark.parametrize(
    ("flags", "said"),
    [({"objects": "gs://bucket"}, "not supported"), ({"objects": "s3://a:hunter2@bucket"}, "password"),
     ({"objects_cache_mb": -1}, "objects_cache_mb")],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(flags, said):
    with pytest.raises(UsageError, match=said) as refused:
        read_settings(None, **flags)
    assert "hunter2" not in str(refused.value)


def test_the_setting_is_written_in_one_way():
    assert ServerSettings(objects="s3://bucket//a/").objects == "s3://bucket/a"
