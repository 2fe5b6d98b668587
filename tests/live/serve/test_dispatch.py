"""Agents that wait: woken in order, no more than there are jobs, and cheap while there is nothing."""

import asyncio
from collections import Counter

import pytest
from tests.support.running_server import PATIENCE_S
from tests.unit.store.setups import plan

from assay.errors import StoreError, UsageError
from assay.place.leasing import Lease
from assay.serve.live import dispatch
from assay.serve.live.dispatch import Dispatcher

JOB = plan().jobs[0]


class Queue:
    """A queue of jobs in memory that counts what it is asked."""

    def __init__(self, **ready):
        self.jobs = Counter(ready)
        self.can = {}
        self.asked = Counter()
        self.took = []
        self.away = False

    def ready(self):
        self.asked["ready"] += 1
        if self.away:
            raise StoreError("the store did not answer")
        return dict(self.jobs)

    def suitable(self, agent, device):
        self.asked["suitable"] += 1
        if agent == "removed":
            raise UsageError("no agent", code="unknown-agent")
        return self.can.get(agent, ("any",))

    def take(self, agent, device):
        self.asked["take"] += 1
        key = next((key for key in self.suitable(agent, device) if self.jobs[key] > 0), None)
        if key is None:
            return None
        self.jobs[key] -= 1
        self.took.append(agent)
        return Lease(JOB, 1, agent, 60.0)


def go(scenario):
    """Run a scenario with a dispatcher that serves."""

    async def run():
        queue = Queue()
        waiting = []
        dispatcher = Dispatcher(lambda: queue, lambda problem: isinstance(problem, StoreError), waiting.append)
        serving = asyncio.create_task(dispatcher.run())
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(scenario(dispatcher, queue), PATIENCE_S)
        finally:
            dispatcher.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        assert not waiting or waiting[-1] == 0

    asyncio.run(run())


async def lease(dispatcher, agent, wait_s=10 * PATIENCE_S):
    poll = dispatcher.poll(agent, "")
    await dispatcher.meet(poll)
    return await dispatcher.lease(poll, wait_s)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def asked_again(queue):
    """Wait until the queue was asked twice more: what the first answer brings about has begun before the second."""
    before = queue.asked["ready"]
    await until(lambda: queue.asked["ready"] >= before + 2)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(dispatch, "POLL_S", 0.05)
    monkeypatch.setattr(dispatch, "AFTER_NOTHING_S", 0.05)


def test_who_waits_longest_is_served_first():
    async def scenario(dispatcher, queue):
        polls = []
        for number in range(5):
            polls.append(asyncio.create_task(lease(dispatcher, f"agent {number}")))
            await until(lambda: dispatcher.waiting == len(polls))
        queue.jobs["any"] = 2
        dispatcher.nudge()
        await until(lambda: polls[0].done() and polls[1].done())
        await asked_again(queue)
        assert sorted(queue.took) == ["agent 0", "agent 1"]
        assert dispatcher.waiting == 3
        queue.jobs["any"] = 3
        await asyncio.gather(*polls)
        assert sorted(queue.took) == [f"agent {number}" for number in range(5)]

    go(scenario)


def test_no_more_are_woken_than_there_are_jobs():
    async def scenario(dispatcher, queue):
        polls = [asyncio.create_task(lease(dispatcher, f"agent {number}")) for number in range(300)]
        await until(lambda: dispatcher.waiting == 300)
        queue.jobs["any"] = 3
        dispatcher.nudge()
        await until(lambda: sum(poll.done() for poll in polls) == 3)
        await asked_again(queue)
        dispatcher.close()
        given = await asyncio.gather(*polls)
        assert sum(one is not None for one in given) == 3
        assert queue.asked["take"] <= 10

    go(scenario)


def test_a_thousand_who_wait_for_nothing_ask_one_short_question_at_a_time():
    async def scenario(dispatcher, queue):
        loop = asyncio.get_running_loop()
        polls = [asyncio.create_task(lease(dispatcher, f"agent {number}")) for number in range(1000)]
        await until(lambda: dispatcher.waiting == 1000)
        await asked_again(queue)  # whoever joins may cause a question of its own
        before, began_s = Counter(queue.asked), loop.time()
        await until(lambda: queue.asked["ready"] >= before["ready"] + 8)
        asked, took_s = queue.asked["ready"] - before["ready"], loop.time() - began_s
        assert asked <= took_s / dispatch.POLL_S + 2
        dispatcher.close()
        await asyncio.gather(*polls)
        assert queue.asked["take"] == 0
        assert queue.asked["suitable"] == before["suitable"]

    go(scenario)


def test_while_nobody_waits_nothing_is_asked():
    async def scenario(dispatcher, queue):
        dispatcher.nudge()
        await asyncio.sleep(0.3)
        assert queue.asked["ready"] == 0

    go(scenario)


def test_only_those_who_can_are_woken():
    async def scenario(dispatcher, queue):
        queue.can = {"small": ("small",), "large": ("small", "large")}
        small = asyncio.create_task(lease(dispatcher, "small"))
        await until(lambda: dispatcher.waiting == 1)
        large = asyncio.create_task(lease(dispatcher, "large"))
        await until(lambda: dispatcher.waiting == 2)
        queue.jobs["large"] = 1
        dispatcher.nudge()
        assert (await large).agent == "large"
        await asked_again(queue)
        dispatcher.close()
        assert await small is None
        assert queue.asked["take"] == 1

    go(scenario)


def test_what_an_agent_can_do_is_asked_anew_when_it_changed():
    async def scenario(dispatcher, queue):
        queue.can = {"box": ("other",)}
        poll = asyncio.create_task(lease(dispatcher, "box"))
        await until(lambda: dispatcher.waiting == 1)
        queue.jobs["any"] = 1
        await asyncio.sleep(0.2)
        assert queue.took == []
        queue.can = {"box": ("any",)}
        dispatcher.forget("box")
        assert (await poll).agent == "box"

    go(scenario)


def test_a_queue_that_is_away_is_asked_again():
    async def scenario(dispatcher, queue):
        queue.away = True
        poll = asyncio.create_task(lease(dispatcher, "box"))
        await until(lambda: queue.asked["ready"] > 2)
        queue.away = False
        queue.jobs["any"] = 1
        assert (await poll).agent == "box"

    go(scenario)


def test_an_agent_that_was_removed_while_it_waits_stops_nobody():
    async def scenario(dispatcher, queue):
        poll = dispatcher.poll("removed", "")
        with pytest.raises(UsageError):
            await dispatcher.meet(poll)
        gone = asyncio.create_task(dispatcher.lease(poll, 10 * PATIENCE_S))
        await until(lambda: dispatcher.waiting == 1)
        queue.jobs["any"] = 1
        assert (await lease(dispatcher, "box")).agent == "box"
        dispatcher.close()
        assert await gone is None

    go(scenario)


def test_who_leaves_is_not_woken():
    async def scenario(dispatcher, queue):
        poll = dispatcher.poll("box", "")
        await dispatcher.meet(poll)
        waiting = asyncio.create_task(dispatcher.lease(poll, 10 * PATIENCE_S))
        await until(lambda: dispatcher.waiting == 1)
        poll.leave()
        assert await waiting is None
        queue.jobs["any"] = 1
        dispatcher.nudge()
        await asyncio.sleep(0.1)
        assert queue.took == []

    go(scenario)


def test_at_the_end_everybody_is_answered():
    async def scenario(dispatcher, queue):
        polls = [asyncio.create_task(lease(dispatcher, f"agent {number}")) for number in range(20)]
        await until(lambda: dispatcher.waiting == 20)
        dispatcher.close()
        assert await asyncio.gather(*polls) == [None] * 20
        queue.jobs["any"] = 1
        assert await lease(dispatcher, "late") is None

    go(scenario)
