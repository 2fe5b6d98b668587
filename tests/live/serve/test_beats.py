"""Heartbeats noted together: each gets its own answer, and one that cannot be kept harms no other."""

import asyncio

import pytest
from tests.unit.store.setups import HERE, submit

from assay.clock import SYSTEM_CLOCK
from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import Enrolment, Heartbeat, HeartbeatAnswer, Held
from assay.serve.live.dispatch import BeatCollector
from assay.store.control import Control
from assay.store.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def store(request, tmp_path):
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    opened = Store(tmp_path / "store", url)
    yield opened
    opened.close()


@pytest.fixture
def control(store):
    return Control(store.engine, SYSTEM_CLOCK, seed=1)


def enrolled(control, count):
    return [control.enroll(Enrolment(f"device {number}", f"box {number}", HERE))[0].id for number in range(count)]


def all_at_once(control, beats):
    async def run():
        collector = BeatCollector(lambda: control)
        return await asyncio.gather(*(collector.beat(*one) for one in beats), return_exceptions=True)

    return asyncio.run(run())


def counted(control, monkeypatch):
    calls = []
    whole = control.heartbeats
    monkeypatch.setattr(control, "heartbeats", lambda beats: calls.append(len(beats)) or whole(beats))
    return calls


def test_many_heartbeats_make_few_transactions(control, monkeypatch):
    agents = enrolled(control, 50)
    calls = counted(control, monkeypatch)
    answers = all_at_once(control, [(agent, Heartbeat("active")) for agent in agents])
    assert answers == [HeartbeatAnswer()] * 50
    assert len(calls) <= 3
    assert sum(calls) + 1 >= 50


def test_each_gets_its_own_answer(control, store):
    agents = enrolled(control, 4)
    submit(store, SYSTEM_CLOCK, batches=(1, 2, 3))
    leases = [control.take(agent) for agent in agents[:3]]
    control.cancel(leases[1].job.id)
    control.patch_agent(agents[3], draining=True)
    held = [Held(one.job.id, one.fence) for one in leases]
    beats = [
        (agents[0], Heartbeat("busy", (held[0],))),
        (agents[1], Heartbeat("busy", (held[1],))),
        (agents[2], Heartbeat("busy", (held[0], held[2]))),
        (agents[3], Heartbeat("faulty", note="no disk")),
        ("agent-none", Heartbeat("active", (held[0],))),
    ]
    answers = all_at_once(control, [(agents[0], Heartbeat("active")), *beats])[1:]
    assert answers[0] == HeartbeatAnswer()
    assert answers[1] == HeartbeatAnswer(lost=(held[1],))
    assert answers[2] == HeartbeatAnswer(lost=(held[0],))
    assert answers[3] == HeartbeatAnswer(draining=True)
    assert isinstance(answers[4], UsageError)
    assert answers[4].problem.code == "unknown-agent"
    kept = control.agent(agents[3])
    assert (kept.state, kept.note) == ("faulty", "no disk")


def test_together_and_alone_they_mean_the_same(control, store):
    first, second = enrolled(control, 2)
    submit(store, SYSTEM_CLOCK, batches=(1,))
    lease = control.take(first)
    mine, gone = Held(lease.job.id, lease.fence), Held(lease.job.id, lease.fence + 1)
    for agent in (first, second):
        for held in ((), (mine,), (gone,), (mine, gone)):
            beat = Heartbeat("busy", held)
            assert control.heartbeats([(agent, beat)]) == [control.heartbeat(agent, beat)]


@pytest.mark.live
def test_one_that_cannot_be_kept_harms_no_other(postgresql, tmp_path):
    store = Store(tmp_path, postgresql.migrated())
    control = Control(store.engine, SYSTEM_CLOCK)
    agents = enrolled(control, 3)
    beats = [
        (agents[0], Heartbeat("active")),
        (agents[1], Heartbeat("active", note="a\0b")),
        (agents[2], Heartbeat("busy")),
    ]
    answers = all_at_once(control, [(agents[0], Heartbeat("active")), *beats])[1:]
    assert answers[0] == answers[2] == HeartbeatAnswer()
    assert isinstance(answers[1], UsageError)
    assert control.agent(agents[2]).state == "busy"
    store.close()


def test_a_database_that_is_away_is_reported_to_each(control, monkeypatch):
    agents = enrolled(control, 3)

    def away(*_):
        raise StoreError("the store did not answer")

    monkeypatch.setattr(control, "heartbeats", away)
    monkeypatch.setattr(control, "heartbeat", away)
    answers = all_at_once(control, [(agent, Heartbeat("active")) for agent in agents])
    assert all(isinstance(answer, StoreError) for answer in answers)
