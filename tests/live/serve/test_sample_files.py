"""Sample files of agents are looked at before they are taken: a small one may hold more than a server has room for."""

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.live.serve.setups import Agent, is_problem, result_of, submit

pytestmark = pytest.mark.live


def parquet(rows=10, **columns):
    """A Parquet file of constant columns: it takes next to no room, however many rows it has."""
    table = {
        "metric": pa.repeat(pa.scalar("latency_ms"), rows).dictionary_encode(),
        "phase": pa.repeat(pa.scalar("measure"), rows).dictionary_encode(),
        "sample": pa.repeat(pa.scalar(1, pa.int64()), rows),
        "at_ns": pa.repeat(pa.scalar(1, pa.int64()), rows),
        "value": pa.repeat(pa.scalar(1.0), rows),
        **columns,
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: one for name, one in table.items() if one is not None}), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def deliver(server, content):
    """Upload samples and deliver a result that names them."""
    submit(server.client)
    agent = Agent(server.client)
    lease = agent.lease()
    digest = agent.upload(content)
    return agent, lease, digest, agent.deliver(lease, result_of(lease.job, samples=digest))


BAD = {
    "no parquet between the marks": b"PAR1" + b"nothing of the kind" * 10 + b"PAR1",
    "no marks": b"x" * 100,
    "empty": b"",
    "a column is missing": parquet(value=None),
    "a column of another type": parquet(value=pa.repeat(pa.scalar("text"), 10)),
    "nested": parquet(value=pa.array([[1.0]] * 10)),
}


@pytest.mark.parametrize("name", BAD)
def test_samples_that_cannot_be_read_are_refused_at_delivery(server, name):
    content = BAD[name]
    agent, lease, digest, answer = deliver(server, content)
    refused = is_problem(answer, 422, "sample-file")
    assert digest in refused["detail"]
    assert server.state.kept.listing.job(lease.job.id).summary.state == "running"
    assert agent.deliver(lease).json() == {"delivery": "accepted"}


def test_more_rows_than_allowed_are_refused_before_they_are_decoded(serve):
    server = serve(max_samples=1000)
    _, _, _, answer = deliver(server, parquet(1001))
    refused = is_problem(answer, 422, "sample-file")
    assert "1001" in refused["detail"].replace(",", "")
    assert "1000" in refused["detail"].replace(",", "")


def test_a_bomb_is_refused_by_a_server_as_it_comes(server):
    bomb = parquet(20_000_000)
    assert len(bomb) < 10**6
    is_problem(deliver(server, bomb)[3], 422, "sample-file")


@pytest.mark.parametrize("name", [name for name in BAD if BAD[name]])
def test_pictures_of_samples_that_cannot_be_read_say_so(server, name):
    # Such a file may have been taken by a server that did not look.
    path = server.state.kept.store.samples.path(hashlib.sha256(BAD[name]).hexdigest())
    path.parent.mkdir(parents=True)
    path.write_bytes(BAD[name])
    submit(server.client)
    agent = Agent(server.client)
    lease = agent.lease()
    assert agent.deliver(lease, result_of(lease.job, samples=path.stem)).json() == {"delivery": "accepted"}
    panels = server.client.get(f"/jobs/{lease.job.id}/panels")
    assert panels.status_code == 200
    assert "can no longer be read" in panels.json()["absent"]["time"]
    assert server.client.get(f"/jobs/{lease.job.id}/runs/0/samples").status_code < 500
