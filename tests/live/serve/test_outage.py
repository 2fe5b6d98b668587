"""What the server stands on goes away and comes back: requests are told to wait, and nothing is lost."""

import threading

import pytest
from redis import Redis
from tests.live.serve.setups import Agent, benchmark, is_problem, submit
from tests.support.running_server import PATIENCE_S, wait_for

pytestmark = pytest.mark.live


@pytest.fixture
def own_postgresql(tmp_path_factory):
    """A PostgreSQL of this test alone, because it is stopped."""
    import shutil
    import tempfile
    from pathlib import Path

    from tests.support.postgresql_server import PostgresqlServer, programs

    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server found")
    folder = Path(tempfile.mkdtemp(prefix="assay-postgresql-"))
    server = PostgresqlServer(found, folder)
    yield server
    server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


def test_a_database_that_goes_away_and_comes_back(serve, own_postgresql):
    server = serve(database_url=own_postgresql.migrated(), lease_s=60)
    client = server.client
    agent = Agent(client)
    campaign = submit(client, benchmark(batches=(1, 2, 3)))["id"]
    lease = agent.lease()
    own_postgresql.stop("immediate")
    answers = (
        client.get("/campaigns"),
        agent.beat(lease),
        agent.deliver(lease),
        client.get(f"/jobs/{lease.job.id}"),
        client.post("/campaigns", json={"document": benchmark()}),
    )
    for answer in answers:
        is_problem(answer, 503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert "postgres" not in answer.text
    assert client.get("/ready").status_code == 503
    assert client.get("/ready").json()["database"] == "away"
    assert client.get("/health").status_code == 200
    own_postgresql.start()
    wait_for(lambda: client.get("/ready").status_code == 200, what="recovery")
    assert agent.beat(lease).json()["lost"] == []
    assert agent.deliver(lease).json() == {"delivery": "accepted"}
    assert agent.work() == 2
    wait_for(lambda: client.get(f"/campaigns/{campaign}").json()["state"] == "done", what="the end")


def test_agents_that_wait_while_the_database_is_away_get_their_jobs_after(serve, own_postgresql):
    server = serve(database_url=own_postgresql.migrated())
    agent = Agent(server.client)
    found = []
    waiting = threading.Thread(target=lambda: found.append(agent.lease(wait_s=60)))
    waiting.start()
    wait_for(lambda: server.state.dispatcher.waiting == 1)
    own_postgresql.stop("immediate")
    wait_for(lambda: server.client.get("/ready").status_code == 503)
    own_postgresql.start()
    wait_for(lambda: server.client.get("/ready").status_code == 200, what="recovery")
    submit(server.client)
    waiting.join(PATIENCE_S)
    assert found[0] is not None


def test_a_server_starts_without_its_database_and_finds_it_later(serve, own_postgresql):
    url = own_postgresql.migrated()
    own_postgresql.stop("fast")
    server = serve(database_url=url)
    assert server.client.get("/health").status_code == 200
    assert server.client.get("/ready").status_code == 503
    is_problem(server.client.get("/campaigns"), 503, "unavailable")
    own_postgresql.start()
    wait_for(lambda: server.client.get("/ready").status_code == 200, what="recovery")
    assert server.client.get("/campaigns").status_code == 200


@pytest.fixture
def own_redis(tmp_path):
    """A Redis of this test alone, because it is stopped."""
    from tests.support.redis_server import RedisServer, program

    found = program()
    if found is None:
        pytest.skip("no Redis server found")
    server = RedisServer(found, tmp_path)
    server.fresh()
    yield server
    server.stop()


def test_jobs_go_through_redis(serve, own_redis):
    server = serve(redis_url=own_redis.url)
    client = server.client
    assert client.get("/ready").json()["queue"] == "redis"
    agents = [Agent(client, f"box {number}") for number in range(3)]
    campaign = submit(client, benchmark(batches=tuple(range(1, 13))))["id"]
    done = []

    def work(agent):
        while len(done) < 12:
            if (lease := agent.lease(wait_s=1)) is not None:
                assert agent.deliver(lease).json() == {"delivery": "accepted"}
                done.append(lease.job.id)

    threads = [threading.Thread(target=work, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(done) == sorted({f"{campaign}-job-{number}" for number in range(12)})
    wait_for(lambda: client.get(f"/campaigns/{campaign}").json()["state"] == "done", what="the end")


def test_a_redis_that_lost_everything_is_filled_again(serve, own_redis):
    server = serve(redis_url=own_redis.url)
    client = server.client
    agent = Agent(client)
    campaign = submit(client, benchmark(batches=(1, 2, 3)))["id"]
    first = agent.lease()
    agent.deliver(first)
    own_redis.kill()
    wait_for(lambda: client.get("/ready").json()["queue"] == "away", what="the outage")
    assert client.get(f"/campaigns/{campaign}").status_code == 200
    assert agent.beat().status_code == 200
    own_redis.start(appendonly=False)
    wait_for(lambda: client.get("/ready").json()["queue"] == "redis", what="recovery")
    for _ in range(2):
        lease = wait_for(lambda: agent.lease(wait_s=5), what="a job")
        assert agent.deliver(lease).json() == {"delivery": "accepted"}
    wait_for(lambda: client.get(f"/campaigns/{campaign}").json()["state"] == "done", what="the end")


def test_what_is_cancelled_or_retried_is_so_in_redis_too(serve, own_redis):
    server = serve(redis_url=own_redis.url)
    client = server.client
    agent = Agent(client)
    campaign = submit(client, benchmark(batches=(1, 2)))["id"]
    client.post(f"/jobs/{campaign}-job-0/cancel")
    lease = agent.lease()
    assert lease.job.id == f"{campaign}-job-1"
    client.post(f"/jobs/{lease.job.id}/attempts/{lease.fence}/release", json={"agent": agent.id, "reason": "later"})
    again = agent.lease()
    assert (again.job.id, again.fence) == (lease.job.id, 2)
    client.post(f"/jobs/{campaign}-job-0/retry")
    agent.deliver(again)
    assert agent.lease().job.id == f"{campaign}-job-0"


def test_an_agent_that_takes_from_redis_itself_claims_at_the_server(serve, own_redis):
    from assay.place.redis_broker import RedisBroker

    server = serve(redis_url=own_redis.url)
    client = server.client
    agent = Agent(client)
    submit(client, benchmark(batches=(1,)))
    queues = server.state.kept.control.suitable(agent.id)
    broker = RedisBroker(own_redis.url)
    taken = wait_for(lambda: broker.take(agent.id, queues), what="the offer")[0]
    claim = {"job": taken.job, "fence": taken.fence}
    given = client.post(f"/agents/{agent.id}/claim", json=claim)
    assert given.status_code == 200
    assert given.json()["fence"] == taken.fence
    with Redis.from_url(own_redis.url) as redis:
        assert not redis.exists(f"assay:job:{taken.job}")
    broker.close()
