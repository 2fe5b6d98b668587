"""Jobs taken from a real Redis, and confirmed by the server."""

import subprocess
import sys
import threading

import pytest

from assay.agent.identity import RedisAddress

pytest.importorskip("redis", reason="the package for Redis is not installed")
pytestmark = pytest.mark.live

ALL = {"allow": frozenset({"command"})}


@pytest.fixture
def queue(redis_server, monkeypatch):
    import assay.agent.slots as module
    from assay.place.redis_broker import RedisBroker

    monkeypatch.setattr(module, "_RETRY_S", 0.5)
    _wait_for_slots()
    broker = RedisBroker(redis_server.fresh())
    yield broker, RedisAddress("127.0.0.1", redis_server.port)
    broker.close()


def _wait_for_slots():
    """An agent of the test before must not take jobs of this one."""
    for thread in threading.enumerate():
        if thread.name.startswith("slot"):
            thread.join(120)
            assert not thread.is_alive()


def offer(broker, server, *jobs, queue="q"):
    from assay.place.leasing import JobOffer

    server.add(*jobs)
    broker.offer(JobOffer(job.id, queue, job.campaign) for job in jobs)


def leases_asked(server):
    return sum(path.endswith("/lease") for _, path in server.requests)


def test_jobs_come_from_the_queue_and_everything_else_goes_to_the_server(server, run_agent, make_job, queue):
    broker, place = queue
    server.queues = ["q"]
    offer(broker, server, *(make_job(index) for index in range(20)))
    run_agent(server, redis=place, **ALL)
    server.wait(lambda: len(server.accepted()) == 20, what="all results")
    assert leases_asked(server) == 0
    assert broker.sizes() == {}


def test_a_job_that_arrives_later_wakes_the_agent(server, run_agent, make_job, queue):
    broker, place = queue
    server.queues = ["q"]
    run_agent(server, redis=place, **ALL)
    server.wait(lambda: any(path.endswith("/queues") for _, path in server.requests), what="a waiting agent")
    offer(broker, server, make_job())
    server.wait(server.accepted, what="the result")


def test_a_job_that_the_server_does_not_confirm_is_not_measured(server, run_agent, make_job, queue, fast):
    from assay.place.leasing import JobOffer

    broker, place = queue
    server.queues, executor = ["q"], fast()
    broker.offer([JobOffer("gone-job-0", "q", "gone")])
    run_agent(server, executor, redis=place, **ALL)
    server.wait(lambda: any(path.endswith("/claim") for _, path in server.requests), what="a claim")
    offer(broker, server, make_job())
    server.wait(server.accepted, what="the result")
    assert [entry.job for entry in executor.started] == ["campaign-1-job-0"]


def test_a_server_that_is_away_when_a_job_is_claimed_loses_nothing(server, run_agent, make_job, queue):
    broker, place = queue
    server.queues = ["q"]
    server.misbehave("/claim", 500, 3)
    offer(broker, server, make_job())
    run_agent(server, redis=place, **ALL)
    server.wait(server.accepted, what="the result")


def test_redis_may_be_started_anew(server, run_agent, make_job, queue, redis_server):
    broker, place = queue
    server.queues = ["q"]
    run_agent(server, redis=place, **ALL)
    offer(broker, server, make_job(0))
    server.wait(server.accepted, what="the first result")
    redis_server.restart()
    offer(broker, server, make_job(1))
    server.wait(lambda: len(server.accepted()) == 2, what="the second result")


def test_an_agent_that_suits_no_queue_asks_the_server(server, run_agent, make_job, queue):
    server.queues = []
    server.add(make_job())
    run_agent(server, redis=queue[1], **ALL)
    server.wait(server.accepted, what="the result")


def test_a_server_without_queues_is_asked_itself(server, run_agent, make_job, queue):
    server.add(make_job())
    run_agent(server, redis=queue[1], **ALL)
    server.wait(server.accepted, what="the result")


def test_reachability_of_redis_is_reported_and_its_password_is_not(server, redis_server, monkeypatch):
    redis_server.fresh()
    monkeypatch.setenv("REDIS_SECRET", "hunter2-hunter2")
    command = [sys.executable, "-m", "assay", "agent", "test", "--server", server.url, "--redis-host", "127.0.0.1"]
    good = subprocess.run([*command, "--redis-port", str(redis_server.port)], capture_output=True, text=True)
    assert good.returncode == 0, good.stdout
    assert f"127.0.0.1:{redis_server.port} answers" in good.stdout
    bad = subprocess.run(
        [*command, "--redis-port", "9", "--redis-password-env", "REDIS_SECRET"],
        capture_output=True,
        text=True,
    )
    assert bad.returncode == 1
    assert "hunter2" not in bad.stdout + bad.stderr


def test_the_missing_package_is_named(server, tmp_path):
    code = "import sys; sys.modules['redis'] = None; from assay.cli.main import main; main()"
    command = [sys.executable, "-c", code, "agent", "start", "--server", server.url, "--state", str(tmp_path)]
    done = subprocess.run([*command, "--redis-host", "127.0.0.1"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "pip install 'assay-bench[redis]'" in done.stderr


def test_a_local_redis_for_a_remote_server_is_used_as_given_with_a_warning(tmp_path):
    command = [sys.executable, "-m", "assay", "agent", "test", "--server", "http://192.0.2.1:1"]
    done = subprocess.run([*command, "--redis-host", "localhost"], capture_output=True, text=True, timeout=120)
    assert "Redis is looked for on this machine" in done.stderr
