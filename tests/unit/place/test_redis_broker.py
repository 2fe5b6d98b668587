"""The queue over a real Redis: order, numbers, loss and return."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis
from tests.support.running_server import PATIENCE_S, wait_for

from assay.errors import StoreError, UsageError
from assay.place.leasing import JobClaim, JobOffer
from assay.place.redis_broker import RedisBroker

pytestmark = pytest.mark.live


@pytest.fixture
def url(redis_server) -> str:
    return redis_server.fresh()


@pytest.fixture
def broker(url):
    made = RedisBroker(url)
    yield made
    made.close()


@pytest.fixture
def redis(url):
    with Redis.from_url(url, decode_responses=True) as client:
        yield client


def jobs(count: int, campaign: str = "c", queue: str = "q", **more) -> list[JobOffer]:
    return [JobOffer(f"{campaign}-{number}", queue, campaign, **more) for number in range(count)]


def known(redis: Redis, *jobs: str) -> set[str]:
    """Those of the jobs that are queued or taken."""
    return {job for job in jobs if redis.exists(f"assay:job:{job}")}


def names(taken: tuple[JobClaim, ...]) -> list[str]:
    return [one.job for one in taken]


def drain(broker: RedisBroker, *queues: str) -> list[str]:
    found = []
    while taken := broker.take("drain", queues):
        found += names(taken)
        assert broker.ack(*taken) == taken
    return found


def is_blocked(redis: Redis, count: int = 1) -> Callable[[], bool]:
    return lambda: redis.info("clients")["blocked_clients"] == count


def steps(redis: Redis) -> int:
    return redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]


# Order


def test_jobs_of_a_campaign_come_in_the_order_of_their_offers(broker):
    broker.offer(jobs(20))
    assert names(broker.take("a", ["q"], 5)) == [f"c-{number}" for number in range(5)]
    assert drain(broker, "q") == [f"c-{number}" for number in range(5, 20)]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_campaigns_take_turns_whatever_the_batch(broker, limit):
    broker.offer([*jobs(6, "big"), *jobs(2, "small"), *jobs(3, "late")])
    found = []
    while taken := broker.take("a", ["q"], limit):
        found += [one.job.partition("-")[0] for one in taken]
    assert found == ["big", "small", "late"] * 2 + ["big", "late", "big", "big", "big"]


def test_a_campaign_served_through_one_queue_waits_in_the_other(broker):
    broker.offer([*jobs(4, "x", "gpu"), *jobs(2, "y", "cpu")])
    broker.offer([JobOffer("x-cpu", "cpu", "x")])
    assert names(broker.take("a", ["gpu"], 3)) == ["x-0", "x-1", "x-2"]
    assert names(broker.take("b", ["cpu"], 3)) == ["y-0", "y-1", "x-cpu"]


def test_a_new_campaign_is_served_before_one_that_had_its_share(broker):
    broker.offer(jobs(10, "old"))
    broker.take("a", ["q"], 3)
    broker.offer(jobs(10, "new"))
    assert [job[:3] for job in names(broker.take("a", ["q"], 5))] == ["new", "new", "new", "old", "new"]


def test_higher_priority_goes_first_in_any_queue(broker):
    broker.offer([*jobs(2, "low", "a", priority=-5), *jobs(2, "mid", "b"), *jobs(2, "high", "c", priority=100)])
    assert drain(broker, "a", "b", "c") == ["high-0", "high-1", "mid-0", "mid-1", "low-0", "low-1"]


def test_an_agent_gets_only_what_it_suits(broker):
    broker.offer([*jobs(2, "x", "gpu"), *jobs(2, "y", "cpu")])
    assert broker.take("a", []) == ()
    assert broker.take("a", ["tpu"]) == ()
    assert drain(broker, "cpu") == ["y-0", "y-1"]
    assert broker.sizes() == {"gpu": 2}


def test_names_with_colons_do_not_mix_queues(broker):
    broker.offer([JobOffer("one", "a:b", "c"), JobOffer("two", "a", "b:c"), JobOffer("three", "a", "0:b:c")])
    assert broker.sizes() == {"a:b": 1, "a": 2}
    assert drain(broker, "a:b") == ["one"]
    assert drain(broker, "a") == ["two", "three"]


# Offers


def test_offering_again_changes_nothing(broker, redis):
    broker.offer(jobs(5))
    (first,) = broker.take("a", ["q"])
    assert broker.offer(jobs(5)) == 0
    assert broker.sizes() == {"q": 4}
    assert broker.ack(first) == (first,)
    assert drain(broker, "q") == ["c-1", "c-2", "c-3", "c-4"]
    assert redis.dbsize() == 0


def test_a_changed_offer_wins(broker, redis):
    broker.offer([*jobs(2), JobOffer("moved", "q", "c")])
    assert broker.offer([JobOffer("moved", "q", "c", priority=1)]) == 1
    later = time.time() + 3600
    assert broker.offer([JobOffer("c-0", "q", "c", not_before=later)]) == 1
    assert drain(broker, "q") == ["moved", "c-1"]
    assert known(redis, "c-0", "c-1") == {"c-0"}
    assert broker.offer([JobOffer("c-0", "q", "c", not_before=0)]) == 1
    assert drain(broker, "q") == ["c-0"]


def test_an_offer_that_knows_the_number_ends_a_delivery_that_was_never_acknowledged(broker):
    broker.offer(jobs(1))
    (lost,) = broker.take("a", ["q"])
    assert broker.offer(jobs(1, fence=lost.fence - 1)) == 0
    assert broker.offer(jobs(1, fence=lost.fence)) == 1
    assert broker.ack(lost) == ()
    (again,) = broker.take("b", ["q"])
    assert again.fence == lost.fence + 1


def test_delayed_jobs_wait_until_they_are_due(broker, redis):
    due = time.time() + 3
    broker.offer([JobOffer("soon", "q", "c", not_before=due), JobOffer("now", "q", "c")])
    assert names(broker.take("a", ["q"], 9)) == ["now"]
    assert known(redis, "soon") == {"soon"}
    assert names(broker.wait("a", ["q"], PATIENCE_S)) == ["soon"]
    assert time.time() >= due - 0.01
    broker.withdraw(["soon", "now"])
    assert redis.dbsize() == 0


def test_a_delay_is_meant_by_the_clock_of_who_offers(url):
    class Ahead:
        def monotonic_s(self) -> float:
            return time.monotonic()

        def utc(self) -> datetime:
            return datetime.now(UTC) + timedelta(hours=1)

    broker = RedisBroker(url, clock=Ahead())
    broker.offer([JobOffer("soon", "q", "c", not_before=Ahead().utc().timestamp() + 3)])
    assert broker.take("a", ["q"]) == ()
    assert names(broker.wait("a", ["q"], PATIENCE_S)) == ["soon"]


# Numbers


def test_numbers_rise_and_old_ones_are_refused(broker):
    broker.offer(jobs(1, fence=7))
    (first,) = broker.take("a", ["q"])
    assert broker.put_back(first)
    (second,) = broker.take("b", ["q"])
    assert (first.fence, second.fence) == (8, 9)
    assert broker.ack(first) == ()
    assert not broker.put_back(first)
    assert broker.ack(replace(second, fence=8), replace(second, ticket=first.ticket)) == ()
    assert broker.ack(second, first, second) == (second,)
    assert broker.ack(second) == ()


def test_a_ticket_is_of_one_delivery_even_under_the_same_number(broker):
    for _ in range(50):
        broker.offer(jobs(1))
        (old,) = broker.take("a", ["q"])
        broker.withdraw(["c-0"])
        broker.offer(jobs(1))
        (new,) = broker.take("b", ["q"])
        assert new.fence == old.fence
        assert broker.ack(old) == ()
        assert broker.ack(new) == (new,)


def test_what_was_put_back_waits_behind_the_others_or_for_its_delay(broker, redis):
    broker.offer(jobs(3))
    one, two = broker.take("a", ["q"], 2)
    assert broker.put_back(one)
    assert broker.put_back(two, delay_s=3600)
    assert broker.offer(jobs(3)) == 0, "the same offer does not undo the delay"
    assert drain(broker, "q") == ["c-2", "c-0"]
    assert known(redis, "c-0", "c-1") == {"c-1"}


def test_what_is_never_acknowledged_comes_back_under_a_higher_number(broker):
    broker.offer(jobs(3))
    taken = broker.take("a", ["q"], 2)
    assert broker.reclaim(60) == ()
    assert broker.reclaim(0) == ("c-0", "c-1")
    assert broker.ack(*taken) == ()
    again = broker.take("b", ["q"], 3)
    assert {one.job: one.fence for one in again} == {"c-0": 2, "c-1": 2, "c-2": 1}
    assert broker.ack(*again) == again
    assert broker.reclaim(0) == ()


def test_more_than_one_call_can_hold_is_reclaimed(broker, redis):
    broker.offer(jobs(1200))
    assert len(broker.take("a", ["q"], 1200)) == 1200
    assert len(broker.reclaim(0)) == 1200
    assert len(set(drain(broker, "q"))) == 1200
    assert redis.dbsize() == 0


def test_withdrawn_jobs_are_gone_in_every_state(broker, redis):
    broker.offer([*jobs(3), JobOffer("later", "q", "c", not_before=time.time() + 3600)])
    (taken,) = broker.take("a", ["q"])
    assert broker.withdraw(["c-0", "c-1", "later", "never"]) == {"c-0", "c-1", "later"}
    assert broker.ack(taken) == ()
    assert drain(broker, "q") == ["c-2"]
    assert redis.dbsize() == 0


# Waiting


def test_a_waiting_agent_sleeps_until_a_job_is_offered(broker, redis):
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(broker.wait, "a", ["x", "q"], 20)
        wait_for(is_blocked(redis))
        before = steps(redis)
        broker.offer(jobs(1))
        assert names(waiting.result(PATIENCE_S)) == ["c-0"]
    assert steps(redis) - before == 2, "the offer and one take"


def test_a_job_wakes_one_agent_and_many_jobs_wake_many(broker, redis):
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(broker.wait, f"a{number}", ["q"], PATIENCE_S) for number in range(8)]
        wait_for(is_blocked(redis, 8))
        before = steps(redis)
        broker.offer(jobs(1))
        wait_for(is_blocked(redis, 7))
        wait_for(lambda: sum(one.done() for one in waiting) == 1)
        assert steps(redis) - before == 2, "nobody else was woken"
        broker.offer(jobs(7, "more"))
        found = [name for one in waiting for name in names(one.result(PATIENCE_S))]
    assert sorted(found) == ["c-0", *(f"more-{number}" for number in range(7))]


def test_waiting_ends_with_nothing_when_the_time_is_over(broker):
    begin = time.monotonic()
    assert broker.wait("a", ["q"], 0.2) == ()
    assert time.monotonic() - begin >= 0.2
    assert broker.wait("a", [], 5) == ()


def test_a_bell_heard_by_an_agent_that_died_rings_for_the_next(url, redis):
    broker = RedisBroker(url, answer_s=0.4)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(broker.wait, "a", ["q"], PATIENCE_S)
        wait_for(is_blocked(redis))
        with redis.pipeline(transaction=True) as at_once:  # what an agent does that dies after it heard the bell
            at_once.evalsha(broker._sha, 1, "assay:", "offer", "c-0", "q", "c", 0, 0, "0.0", 0)
            at_once.lpop("assay:bell:q")
            at_once.execute()
        assert names(waiting.result(PATIENCE_S)) == ["c-0"]


# Many at once


def test_none_is_lost_or_doubled_among_threads(url, redis):
    broker, each = RedisBroker(url), 2_000
    seen: list[JobClaim] = []
    filled = threading.Event()

    def fill(number: int) -> None:
        for start in range(0, each, 250):
            broker.offer([JobOffer(f"{number}-{start + n}", f"q{n % 3}", f"c{n % 5}") for n in range(250)])

    def work(number: int) -> None:
        while True:
            was_filled = filled.is_set()
            taken = broker.take(f"a{number}", ["q0", "q1", "q2"], 1 + 9 * number)
            seen.extend(broker.ack(*taken))
            if not taken and was_filled:
                return

    with ThreadPoolExecutor(8) as threads:
        workers = [threads.submit(work, number) for number in range(4)]
        for one in [threads.submit(fill, number) for number in range(4)]:
            one.result(60)
        filled.set()
        for one in workers:
            one.result(60)
    assert Counter(one.job for one in seen) == Counter(f"{t}-{n}" for t in range(4) for n in range(each))
    assert {one.fence for one in seen} == {1}
    assert redis.dbsize() == 0


def test_nothing_stays_behind_after_a_thousand_jobs(broker, redis):
    offers = [
        JobOffer(f"j{n}", f"q{n % 3}", f"c{n % 7}", n % 2, not_before=time.time() + 3600 if n % 11 == 0 else 0)
        for n in range(1000)
    ]
    assert broker.offer(offers) == 1000
    broker.withdraw(f"j{n}" for n in range(0, 1000, 22))
    for one in broker.take("a", ["q0", "q1", "q2"], 100):
        broker.put_back(one)
    broker.take("dead", ["q1"], 50)
    broker.reclaim(0)
    broker.offer(JobOffer(one.job, one.queue, one.campaign, one.priority) for one in offers if one.not_before)
    assert len(drain(broker, "q0", "q1", "q2")) == 1000
    assert redis.keys() == []


def test_keys_removed_behind_our_back_cost_their_jobs_and_no_others(broker, redis):
    broker.offer([*jobs(3), *jobs(2, "gone")])
    redis.delete("assay:job:c-1", *redis.keys("assay:stream:*gone"))
    assert names(broker.take("a", ["q"], 9)) == ["c-0", "c-2"]
    assert broker.sizes() == {}
    assert broker.offer([JobOffer("c-1", "q", "c")]) == 1
    assert broker.withdraw(["gone-0", "gone-1"]) == {"gone-0", "gone-1"}
    assert broker.offer(jobs(2, "gone")) == 2
    assert names(broker.take("a", ["q"], 9)) == ["gone-0", "gone-1", "c-1"]


def test_queues_of_two_prefixes_do_not_meet(url, broker, redis):
    other = RedisBroker(url, prefix="other:")
    broker.offer(jobs(1))
    assert (other.take("a", ["q"]), other.sizes(), redis.exists("other:job:c-0")) == ((), {}, 0)


# Loss


def test_an_agent_killed_between_take_and_acknowledgement_loses_nothing(url, broker):
    broker.offer(jobs(2))
    code = (
        "import sys, time; from assay.place.redis_broker import RedisBroker\n"
        "print(RedisBroker(sys.argv[1]).take('doomed', ['q'])[0].job, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "c-0\n"
        agent.kill()
    assert names(broker.take("b", ["q"], 9)) == ["c-1"]
    assert "c-0" in broker.reclaim(0)
    assert ("c-0", 2) in [(one.job, one.fence) for one in broker.take("b", ["q"], 9)]


def test_a_redis_without_memory_says_so_and_is_filled_again(redis_server):
    broker = RedisBroker(redis_server.fresh())
    assert broker.is_fresh()
    broker.offer(jobs(2, fence=3))
    broker.mark()
    assert not broker.is_fresh()
    (claimed,) = broker.take("a", ["q"])
    redis_server.restart()
    assert broker.is_fresh()
    assert known(Redis.from_url(redis_server.url), "c-0", "c-1") == set()
    broker.offer([JobOffer("c-0", "q", "c", fence=claimed.fence), JobOffer("c-1", "q", "c", fence=3)])
    broker.mark()
    assert not broker.is_fresh()
    assert broker.ack(claimed) == ()
    assert [(one.job, one.fence) for one in broker.take("b", ["q"], 2)] == [("c-0", 5), ("c-1", 4)]


def test_a_redis_that_was_emptied_or_started_while_it_was_filled_is_fresh(redis_server, redis, broker):
    assert broker.is_fresh()
    broker.mark()
    redis.flushall()
    assert broker.is_fresh()
    redis_server.restart()
    broker.mark()
    assert broker.is_fresh()


def test_a_redis_with_memory_that_is_killed_continues_where_it_was(redis_server):
    broker = RedisBroker(redis_server.fresh(appendonly=True))
    broker.offer([*jobs(4), JobOffer("later", "q", "c", not_before=time.time() + 3600)])
    taken = broker.take("a", ["q"], 2)
    redis_server.kill()
    with pytest.raises(StoreError):
        broker.ack(*taken)
    redis_server.start()
    assert broker.is_fresh(), "its files may miss the last moment"
    assert broker.offer(jobs(4)) == 0
    assert broker.ack(taken[0]) == taken[:1]
    assert broker.reclaim(0) == (taken[1].job,)
    assert broker.ack(taken[1]) == ()
    assert [(one.job, one.fence) for one in broker.take("b", ["q"], 9)] == [("c-2", 1), ("c-3", 1), ("c-1", 2)]
    assert known(Redis.from_url(redis_server.url), "later") == {"later"}


def test_scripts_that_redis_forgot_are_loaded_again(broker, redis):
    broker.offer(jobs(2))
    redis.script_flush()
    assert drain(broker, "q") == ["c-0", "c-1"]


def test_a_waiting_agent_learns_that_redis_died_and_can_wait_again(redis_server):
    broker = RedisBroker(redis_server.fresh())
    with Redis.from_url(redis_server.url) as redis, ThreadPoolExecutor() as threads:
        waiting = threads.submit(broker.wait, "a", ["q"], PATIENCE_S)
        wait_for(is_blocked(redis))
        redis_server.kill()
        with pytest.raises(StoreError, match="Redis does not serve"):
            waiting.result(PATIENCE_S)
        redis_server.start()
        waiting = threads.submit(broker.wait, "a", ["q"], PATIENCE_S)
        wait_for(is_blocked(redis))
        broker.offer(jobs(1))
        assert names(waiting.result(PATIENCE_S)) == ["c-0"]


# Errors


def test_errors_name_the_address_and_never_the_password(redis_server):
    port = redis_server.port
    broker = RedisBroker(redis_server.fresh().replace("127.0.0.1", "someone:secret-word@127.0.0.1"))
    for ask in (broker.sizes, broker.is_fresh, lambda: broker.withdraw(["x"])):
        with pytest.raises(StoreError) as told:
            ask()
        assert (told.value.problem.code, told.value.problem.at) == ("redis", f"redis://127.0.0.1:{port}/0")
        assert "user and password" in told.value.problem.try_
        assert "secret-word" not in str(told.value) + repr(told.value.__cause__)


def test_a_redis_that_is_not_there_is_an_error_that_says_what_to_do(redis_server):
    broker = RedisBroker(redis_server.fresh())
    redis_server.stop()
    with pytest.raises(StoreError, match="check that Redis runs there") as told:
        broker.take("a", ["q"])
    assert told.value.problem.code == "redis"
    redis_server.start()
    assert broker.take("a", ["q"]) == ()


@pytest.mark.parametrize(
    "url", ["http://x:secret@host", "host:6379", "redis://x:secret@host:port", "redis://h?db=x&socket_timeout=secret"]
)
def test_a_wrong_url_is_a_mistake_of_the_user(url):
    with pytest.raises(UsageError) as told:
        RedisBroker(url)
    assert told.value.problem.code == "redis-url"
    assert "secret" not in str(told.value)
