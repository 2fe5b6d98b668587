"""The queue over Redis does what a simple model of it does, whatever happens in whatever order."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis import Redis

from assay.place.leasing import JobClaim, JobOffer
from assay.place.redis_broker import RedisBroker

pytestmark = pytest.mark.live

JOBS = [f"j{number}" for number in range(8)]
QUEUES = ["gpu", "cpu", "a:b"]
FAR_S = 1e6
FOREVER = time.time() + FAR_S

offers = st.builds(
    JobOffer,
    job=st.sampled_from(JOBS),
    queue=st.sampled_from(QUEUES),
    campaign=st.sampled_from(["c1", "c2", "c3"]),
    priority=st.sampled_from([-3, 0, 0, 7]),
    fence=st.integers(0, 4),
    not_before=st.sampled_from([0.0, 0.0, 1.0, FOREVER]),
)


@dataclass
class Known:
    """What the model knows of a job."""

    offer: JobOffer
    fence: int
    state: str
    place: int
    ticket: str = ""


class Model:
    """The promise of a broker in plain Python: slow, and obviously right."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.served: dict[str, int] = {}
        self.since: dict[str, int] = {}
        self._count = 0

    def offer(self, offer: JobOffer) -> int:
        old = self.known.get(offer.job)
        fence = max(offer.fence, old.fence if old else 0)
        if old:
            over = old.state == "taken" and offer.fence >= old.fence
            if not over and (old.state == "taken" or self._same(old.offer, offer)):
                old.fence = fence
                return 0
        if offer.campaign not in self._campaigns():
            self.served[offer.campaign], self.since[offer.campaign] = 0, self._next()
        state = "delayed" if offer.not_before == FOREVER else "waiting"
        self.known[offer.job] = Known(offer, fence, state, self._next())
        return 1

    def take(self, queues: list[str], limit: int) -> list[tuple[str, int]]:
        taken = []
        for _ in range(limit):
            waiting = [one for one in self.known.values() if one.state == "waiting" and one.offer.queue in queues]
            if not waiting:
                break
            best = min(waiting, key=lambda one: self._turn(one, queues))
            best.state, best.fence = "taken", best.fence + 1
            self.served[best.offer.campaign] += 1
            taken.append((best.offer.job, best.fence))
        return taken

    def is_newest(self, taken: JobClaim) -> bool:
        one = self.known.get(taken.job)
        return one is not None and (one.state, one.fence, one.ticket) == ("taken", taken.fence, taken.ticket)

    def again(self, job: str, state: str = "waiting") -> None:
        self.known[job].state, self.known[job].place, self.known[job].ticket = state, self._next(), ""

    def _turn(self, one: Known, queues: list[str]) -> tuple[int, ...]:
        offer = one.offer
        served, since = self.served[offer.campaign], self.since[offer.campaign]
        return -offer.priority, served, since, queues.index(offer.queue), one.place

    def _same(self, old: JobOffer, new: JobOffer) -> bool:
        def key(one: JobOffer) -> tuple[object, ...]:
            return one.queue, one.campaign, one.priority, one.not_before

        return key(old) == key(new)

    def _campaigns(self) -> set[str]:
        return {one.offer.campaign for one in self.known.values()}

    def _next(self) -> int:
        self._count += 1
        return self._count


class Machine(RuleBasedStateMachine):
    """The broker and its model, side by side."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.redis = Redis.from_url(self.url)
        self.redis.flushall()
        self.broker, self.model = RedisBroker(self.url), Model()
        self.given: list[JobClaim] = []

    @rule(some=st.lists(offers, min_size=1, max_size=5))
    def offer(self, some: list[JobOffer]) -> None:
        assert self.broker.offer(some) == sum(self.model.offer(one) for one in some)

    @rule(queues=st.lists(st.sampled_from(QUEUES), min_size=1, unique=True), limit=st.integers(1, 6))
    def take(self, queues: list[str], limit: int) -> None:
        taken = self.broker.take("agent", queues, limit)
        assert [(one.job, one.fence) for one in taken] == self.model.take(queues, limit)
        for one in taken:
            self.model.known[one.job].ticket = one.ticket
        self.given += taken

    @rule(picks=st.lists(st.integers(0, 100), max_size=4))
    def ack(self, picks: list[int]) -> None:
        some = [self.given[-1 - pick % len(self.given)] for pick in picks if self.given]
        expected = []
        for one in some:
            if self.model.is_newest(one):
                expected.append(one)
                del self.model.known[one.job]
        assert self.broker.ack(*some) == tuple(expected)

    @rule(pick=st.integers(0, 100), delay_s=st.sampled_from([0.0, FAR_S]))
    def put_back(self, pick: int, delay_s: float) -> None:
        if self.given:
            one = self.given[-1 - pick % len(self.given)]
            expected = self.model.is_newest(one)
            assert self.broker.put_back(one, delay_s) == expected
            if expected:
                self.model.again(one.job, "delayed" if delay_s else "waiting")

    @rule(some=st.lists(st.sampled_from(JOBS), max_size=3, unique=True))
    def withdraw(self, some: list[str]) -> None:
        assert self.broker.withdraw(some) == {job for job in some if self.model.known.pop(job, None)}

    @rule()
    def reclaim(self) -> None:
        back = self.broker.reclaim(0)
        assert sorted(back) == sorted(job for job, one in self.model.known.items() if one.state == "taken")
        for job in back:
            self.model.again(job)

    @rule()
    def forget_scripts(self) -> None:
        self.redis.script_flush()

    @invariant()
    def agrees(self) -> None:
        assert {job for job in JOBS if self.redis.exists(f"assay:job:{job}")} == set(self.model.known)
        waiting = [one.offer.queue for one in self.model.known.values() if one.state == "waiting"]
        assert self.broker.sizes() == {queue: waiting.count(queue) for queue in set(waiting)}
        bells = {key.decode(): self.redis.llen(key) for key in self.redis.keys("assay:bell:*")}
        assert bells == {f"assay:bell:{queue}": 1 for queue in waiting}

    def teardown(self) -> None:
        self.broker.withdraw(JOBS)
        left = self.redis.keys()
        self.broker.close()
        self.redis.close()
        assert left == []


def test_the_broker_does_what_the_model_does(redis_server):
    machine = type("Bound", (Machine,), {"url": redis_server.fresh()})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=150, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )
