"""Schedules fire, on a clock that only moves when told: policies, mistakes, and several servers."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.live.serve.setups import benchmark
from tests.support.running_server import PATIENCE_S
from tests.unit.store.setups import FakeClock

from assay.errors import StoreError
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.plan.schedule import MOST_AT_ONCE
from assay.serve.live import loops as live
from assay.serve.live.loops import ScheduleLoop
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState
from assay.serve.submission import keep_schedule, plan_submission
from assay.store.database import writing
from assay.store.schedules import LEASE_S, Firings, Schedules
from assay.store.tables import ScheduleRow

# A campaign of these ends at once: no agent is enrolled that could take its job.
OVER_AT_ONCE = {"fleet": {"unplaceable": "fail"}}


def scheduled(cron="@hourly", name="nightly", *, ends=True, **section):
    more = {"place": OVER_AT_ONCE} if ends else {}
    return benchmark(name, (1,), schedule={"cron": cron, **section}, **more)


class World:
    """One or several servers on one database, with a clock that only moves when told."""

    def __init__(self, folder, url=None):
        self.clock = FakeClock()
        self.folder, self.url = folder, url
        self.state = self.server()
        self.scheduler = ScheduleLoop(self.state)

    def server(self):
        state = ServerState(ServerSettings(folder=self.folder, database_url=self.url), self.clock)
        state.ensure_open()
        return state

    def keep(self, document=None, **section):
        submission = Submission(document=document or scheduled(**section))
        return keep_schedule(self.state, plan_submission(self.state, submission), submission, by="ann")[0]

    def pass_time(self, *, hours=0, minutes=0):
        """Let the clock go on, with the server looking at it: every minute, every ten of an hour."""
        for step_s in [600] * (6 * hours) + [60] * minutes:
            self.clock.pass_s(step_s)
            self.scheduler.tick()

    def history(self, schedule):
        firings = Firings(self.state.kept.store.engine, self.clock)
        return list(reversed(firings.firings(schedule.id, limit=1000).items))

    def outcomes(self, schedule):
        return [(datetime.fromtimestamp(one.due, UTC).strftime("%H:%M"), one.outcome) for one in self.history(schedule)]

    def campaigns(self):
        return self.state.kept.listing.campaigns(limit=1000).items

    def end(self, campaign):
        self.state.kept.control.cancel_campaign(campaign)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "server")
    yield made
    made.state.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def any_world(request, tmp_path):
    """The same on each kind of database."""
    url = request.getfixturevalue("postgresql").migrated() if request.param == "postgresql" else None
    made = World(tmp_path / "server", url)
    yield made
    made.state.close()


# At its times


def test_a_schedule_submits_its_benchmark_at_its_times(any_world):
    world = any_world
    schedule = world.keep(cron="0 */2 * * *")
    world.pass_time(hours=5)
    assert world.outcomes(schedule) == [("02:00", "submitted"), ("04:00", "submitted")]
    first, second = reversed(world.campaigns())
    assert [one.campaign for one in world.history(schedule)] == [first.id, second.id]
    assert (first.benchmark, first.origin, first.submitted_by) == ("nightly", "schedule", "ann")
    document = world.state.kept.listing.campaign_document(first.id)
    assert document["schedule"]["cron"] == "0 */2 * * *"
    assert len(Schedules(world.state.kept.store.engine, world.clock).watched()) == 1, "firing makes no second schedule"


def test_a_firing_looks_like_any_other_submission(world):
    by_hand = plan_submission(world.state, Submission(document=scheduled(), priority=7, labels={"team": "blue"}))
    submission = Submission(document=scheduled(), priority=7, labels={"team": "blue"}, agent="box")
    planned = plan_submission(world.state, submission)
    keep_schedule(world.state, planned, submission, by="ann")
    world.pass_time(hours=1)
    (summary,) = world.campaigns()
    assert (summary.priority, summary.labels) == (7, {"team": "blue"})
    jobs = world.state.kept.store.campaign(summary.id)[1]
    assert jobs[0].job.definition.needs.agent == "box"
    assert [one.job.point for one in jobs] == [one.point for one in by_hand.plan.jobs]


def test_jitter_delays_the_submission(world):
    schedule = world.keep(jitter="50m")
    world.pass_time(hours=1, minutes=1)
    assert world.history(schedule) == []
    world.pass_time(minutes=50)
    (firing,) = world.history(schedule)
    assert (firing.outcome, firing.due % 3600) == ("submitted", 0)
    assert 60 < firing.fired_at - firing.due <= 51 * 60


def test_a_paused_schedule_rests_and_a_removed_one_is_gone(world):
    schedule = world.keep()
    kept = Schedules(world.state.kept.store.engine, world.clock)
    kept.pause("nightly")
    world.pass_time(hours=3)
    assert world.history(schedule) == []
    kept.resume("nightly")
    world.pass_time(hours=1)
    assert len(world.campaigns()) == 1
    kept.remove("nightly")
    world.pass_time(hours=2)
    assert len(world.campaigns()) == 1


def test_changed_times_count_at_once(world):
    schedule = world.keep(cron="@daily")
    world.pass_time(minutes=30)
    assert world.keep(cron="45 * * * *").id == schedule.id
    world.pass_time(hours=2)
    assert world.outcomes(schedule) == [("00:45", "submitted"), ("01:45", "submitted")]


# Overlap


def test_overlap_skip_leaves_out_what_comes_while_the_campaign_runs(any_world):
    world = any_world
    schedule = world.keep(ends=False, overlap="skip")
    world.pass_time(hours=3)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["submitted", "skipped", "skipped"]
    first = world.campaigns()[0].id
    assert f"campaign {first} still runs; overlap is skip" == world.history(schedule)[1].reason
    world.end(first)
    world.pass_time(hours=1)
    assert world.outcomes(schedule)[-1] == ("04:00", "submitted")


def test_overlap_queue_waits_and_keeps_the_order(any_world):
    world = any_world
    schedule = world.keep(ends=False, overlap="queue")
    world.pass_time(hours=3)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["submitted", "waiting", "waiting"]
    for count in (2, 3):
        world.end(world.campaigns()[0].id)
        world.pass_time(minutes=2)
        assert len(world.campaigns()) == count, "one after another"
    history = world.history(schedule)
    assert [one.outcome for one in history] == ["submitted"] * 3
    assert [one.campaign for one in history] == [one.id for one in reversed(world.campaigns())]
    assert "had to wait: campaign" in history[1].reason


def test_overlap_queue_has_a_bound(world):
    schedule = world.keep(ends=False, overlap="queue")
    world.pass_time(hours=MOST_AT_ONCE + 3)
    counts = Counter(outcome for _, outcome in world.outcomes(schedule))
    assert counts == {"submitted": 1, "waiting": MOST_AT_ONCE, "skipped": 2}


def test_overlap_cancel_ends_the_other(any_world):
    world = any_world
    schedule = world.keep(ends=False, overlap="cancel")
    world.pass_time(hours=3)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["submitted"] * 3
    assert [one.state for one in reversed(world.campaigns())] == ["cancelled", "cancelled", "running"]
    first = world.campaigns()[-1].id
    assert "took its place" in world.state.kept.store.campaign(first)[1][0].reason


# Missed


def away(world, hours):
    world.clock.pass_s(hours * 3600)


def test_missed_skip_leaves_them_out(world):
    schedule = world.keep(missed="skip")
    away(world, 4.5)
    world.pass_time(hours=1)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["missed"] * 4 + ["submitted"]
    assert len(world.campaigns()) == 1


def test_missed_once_runs_once_for_all(world):
    schedule = world.keep(missed="once")
    away(world, 4.5)
    world.pass_time(minutes=10)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["missed"] * 3 + ["submitted"]
    assert "30 min late" in world.history(schedule)[-1].reason or "31 min late" in world.history(schedule)[-1].reason


def test_missed_all_makes_up_for_each_one_after_another_whatever_overlap_says(any_world):
    world = any_world
    schedule = world.keep(ends=False, missed="all", overlap="skip")
    away(world, 3.5)
    world.pass_time(minutes=5)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["submitted", "waiting", "waiting"]
    for _ in range(2):
        world.end(world.campaigns()[0].id)
        world.pass_time(minutes=2)
    assert [outcome for _, outcome in world.outcomes(schedule)] == ["submitted"] * 3
    world.pass_time(minutes=30)
    assert world.outcomes(schedule)[-1] == ("04:00", "skipped"), "what is on time does as overlap says"


def test_missed_all_has_a_bound(world):
    schedule = world.keep(missed="all")
    away(world, MOST_AT_ONCE + 10.5)
    world.pass_time(minutes=MOST_AT_ONCE + 5)
    counts = Counter(outcome for _, outcome in world.outcomes(schedule))
    assert counts == {"missed": 10, "submitted": MOST_AT_ONCE}


# What goes wrong


def test_a_file_that_is_gone_is_in_the_history_and_the_next_firing_tries_again(world):
    name, digest = "gone.onnx", "a" * 64
    document = {**scheduled(), "target": {"model": name}}
    schedule = world.keep(document=None)
    kept = Schedules(world.state.kept.store.engine, world.clock)
    lost = Submission(document=document, files={name: (JobFile(name, digest, 5),)})
    kept.keep("nightly", kept.get("nightly").schedule, lost, "ann")
    world.pass_time(hours=2)
    history = world.history(schedule)
    assert [one.outcome for one in history] == ["failed", "failed"]
    assert "upload" in history[0].reason or "missing" in history[0].reason or name in history[0].reason
    assert world.campaigns() == ()


def test_a_document_that_this_version_refuses_is_in_the_history(world):
    schedule = world.keep()
    kept = Schedules(world.state.kept.store.engine, world.clock)
    kept.keep("nightly", kept.get("nightly").schedule, Submission(document={**scheduled(), "no such key": 1}), "ann")
    world.pass_time(hours=1)
    assert world.outcomes(schedule) == [("01:00", "failed")]
    assert "no such key" in world.history(schedule)[0].reason


def test_one_schedule_that_cannot_be_read_does_not_stop_the_others(world):
    broken, whole = world.keep(name="broken"), world.keep(name="whole")
    with writing(world.state.kept.store.engine) as session:
        session.get(ScheduleRow, broken.id).schedule = {"cron": "@hourly", "timezone": "Mars/Olympus"}
    world.pass_time(hours=2)
    assert len(world.history(whole)) == 2


def test_our_own_mistake_ends_the_firing_and_not_the_scheduler(world, monkeypatch):
    schedule = world.keep()
    with monkeypatch.context() as patch:
        patch.setattr(live, "plan_submission", lambda *_, **__: 1 / 0)
        world.pass_time(hours=1)
    assert world.outcomes(schedule) == [("01:00", "failed")]
    world.pass_time(hours=1)
    assert world.outcomes(schedule)[-1] == ("02:00", "submitted")


def test_a_database_that_is_away_is_waited_for(world, monkeypatch):
    schedule = world.keep()
    with monkeypatch.context() as patch:

        def gone(*_, **__):
            raise StoreError("it is away")

        patch.setattr(live, "keep", gone)
        world.pass_time(hours=1)
        assert world.outcomes(schedule) == [("01:00", "taken")], "nothing is decided while nobody can write it down"
    world.clock.pass_s(LEASE_S)
    world.pass_time(minutes=1)
    assert world.outcomes(schedule) == [("01:00", "submitted")]
    assert len(world.campaigns()) == 1


def test_a_server_that_is_slow_and_was_replaced_submits_nothing(any_world):
    world = any_world
    schedule = world.keep()
    world.clock.pass_s(3600)
    engine = world.state.kept.store.engine
    (slow,) = Firings(engine, world.clock).take_due(schedule.id, "slow")
    world.clock.pass_s(LEASE_S + 1)
    world.scheduler.tick()
    ended = ScheduleLoop(world.state, "slow").fire(slow)
    assert (ended.outcome, ended.server) == ("submitted", world.scheduler.server)
    assert len(world.campaigns()) == 1
    assert world.campaigns()[0].id == ended.campaign


def test_a_schedule_removed_while_it_fires_submits_nothing(any_world):
    world = any_world
    schedule = world.keep()
    world.clock.pass_s(3600)
    engine = world.state.kept.store.engine
    (firing,) = Firings(engine, world.clock).take_due(schedule.id, "one")
    Schedules(engine, world.clock).remove(schedule.id)
    world.scheduler.fire(firing)
    assert world.campaigns() == ()


# Several servers


@pytest.mark.live
def test_two_servers_on_one_postgresql_fire_each_of_many_due_times_once(tmp_path, postgresql):
    world = World(tmp_path / "server", postgresql.migrated())
    schedule = world.keep(cron="* * * * *", missed="all", overlap="queue")
    states = [world.server() for _ in range(2)]
    schedulers = [ScheduleLoop(state, f"server {number}") for number, state in enumerate(states)]
    barrier, minutes = threading.Barrier(2, action=lambda: world.clock.pass_s(60)), 60

    def serve(scheduler):
        for _ in range(minutes):
            barrier.wait(PATIENCE_S)  # both look in the same moment
            scheduler.tick()

    threads = [threading.Thread(target=serve, args=(one,)) for one in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(5):
        schedulers[0].tick()  # what waited in the last minute
    history = world.history(schedule)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    assert [one.due for one in history] == [(begin + timedelta(minutes=n)).timestamp() for n in range(1, minutes + 1)]
    assert {one.outcome for one in history} == {"submitted"}
    assert {one.server for one in history} == {"server 0", "server 1"}, "both took part"
    campaigns = [one.id for one in world.campaigns()]
    assert sorted(campaigns) == sorted(one.campaign for one in history)
    for state in (*states, world.state):
        state.close()
