"""Schedules and their firings in the store: one firing for each due time, whoever is there to take it."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.store.setups import FakeClock, submit

from assay.errors import StoreError, UsageError
from assay.place.fleet.protocol import Submission
from assay.plan.job import JobFile
from assay.plan.schedule import MOST_AT_ONCE
from assay.spec.schedule import Schedule
from assay.store.database import writing
from assay.store.schedules import LEASE_S, FiringLostError, Firings, OverlapError, Schedules
from assay.store.tables import ScheduleRow

HOURLY = Schedule(cron="@hourly")
WHAT = Submission(document={"benchmark": "b"}, files={"m.onnx": (JobFile("m.onnx", "0" * 64, 3),)}, priority=2)


@pytest.fixture
def schedules(fleet, clock):
    return Schedules(fleet.engine, clock)


@pytest.fixture
def firings(fleet, clock):
    return Firings(fleet.engine, clock)


def made(schedules, name="nightly", schedule=HOURLY, by="ann"):
    return schedules.keep(name, schedule, WHAT, by)[0]


def history(firings, schedule):
    return [(datetime.fromtimestamp(one.due, UTC), one.outcome) for one in firings.firings(schedule.id).items]


def confirm(fleet, firings, firing, campaign):
    with writing(fleet.engine) as session:
        firings.confirm(session, firing, campaign)


# Schedules


def test_a_schedule_comes_back_as_it_was_kept(schedules, clock):
    record, new = schedules.keep("nightly", Schedule(cron="0 3 * * *", jitter="5m", missed="all"), WHAT, "ann")
    assert new
    for reference in (record.id, "nightly"):
        assert schedules.get(reference) == record
    assert record.submission == WHAT
    assert (record.state, record.considered_to, record.submitted_by) == ("active", clock.now.timestamp(), "ann")


def test_the_same_name_changes_the_schedule_and_new_times_begin_again(schedules, clock):
    first = made(schedules)
    clock.pass_s(5000)
    other = Submission(document={"benchmark": "b", "description": "other"})
    same_times, new = schedules.keep("nightly", HOURLY, other, "bob")
    assert not new
    assert (same_times.id, same_times.submission, same_times.submitted_by) == (first.id, other, "bob")
    assert same_times.considered_to == first.considered_to, "what is due since then is not forgotten"
    moved, _ = schedules.keep("nightly", Schedule(cron="@daily"), other, "bob")
    assert moved.considered_to == clock.now.timestamp()


def test_a_changed_schedule_that_was_paused_stays_so(schedules):
    made(schedules)
    schedules.pause("nightly")
    assert schedules.keep("nightly", Schedule(cron="@daily"), WHAT, "ann")[0].state == "paused"


def test_schedules_are_listed_by_name_page_by_page(schedules):
    for name in ("b", "c", "a"):
        made(schedules, name)
    schedules.pause("c")
    page = schedules.schedules(limit=2)
    assert [one.name for one in page.items] == ["a", "b"]
    assert page.items[0].submission is None
    assert [one.name for one in schedules.schedules(limit=2, cursor=page.next).items] == ["c"]
    assert [one.name for one in schedules.schedules(state="paused").items] == ["c"]
    assert [one.name for one in schedules.schedules(text="B").items] == ["b"]
    assert {one.name for one in schedules.watched()} == {"a", "b"}
    with pytest.raises(UsageError, match="cursor"):
        schedules.schedules(cursor="x")


def test_one_that_is_not_there_is_reported(schedules):
    for act in (schedules.get, schedules.pause, schedules.resume, schedules.remove):
        with pytest.raises(UsageError) as told:
            act("none")
        assert told.value.problem.code == "unknown-schedule"


def test_removing_takes_the_firings_along(schedules, firings, clock):
    record = made(schedules)
    clock.pass_s(3600)
    (firing,) = firings.take_due(record.id, "one")
    schedules.remove("nightly")
    assert firings.get(firing.id) is None
    assert made(schedules).id != record.id


def test_one_that_this_machine_cannot_read_is_reported_and_not_a_crash(schedules, fleet):
    record = made(schedules)
    with writing(fleet.engine) as session:
        session.get(ScheduleRow, record.id).schedule = {"cron": "@daily", "timezone": "Mars/Olympus"}
    with pytest.raises(StoreError, match="Mars/Olympus") as told:
        schedules.get("nightly")
    assert told.value.problem.code == "schedule"
    assert [one.id for one in schedules.watched()] == [record.id]


# Taking


def test_a_due_time_is_taken_once(schedules, firings, clock):
    record = made(schedules)
    assert firings.take_due(record.id, "one") == ()
    clock.pass_s(3599)
    assert firings.take_due(record.id, "one") == ()
    clock.pass_s(1)
    (firing,) = firings.take_due(record.id, "one")
    assert (firing.due, firing.outcome, firing.server) == (clock.now.timestamp(), "taken", "one")
    for server in ("one", "two"):
        assert firings.take_due(record.id, server) == ()
    assert history(firings, record) == [(clock.now, "taken")]


def test_the_row_decides_even_if_the_rest_was_forgotten(schedules, firings, clock, fleet):
    record = made(schedules)
    clock.pass_s(3600)
    firings.take_due(record.id, "one")
    with writing(fleet.engine) as session:
        session.get(ScheduleRow, record.id).considered_to = record.considered_to
    assert firings.take_due(record.id, "two") == ()
    assert len(history(firings, record)) == 1


def test_a_paused_schedule_is_not_due_and_does_not_make_up(schedules, firings, clock):
    record = made(schedules, schedule=Schedule(cron="@hourly", missed="all"))
    schedules.pause("nightly")
    clock.pass_s(3 * 3600)
    assert firings.take_due(record.id, "one") == ()
    schedules.resume("nightly")
    clock.pass_s(1800)
    assert firings.take_due(record.id, "one") == ()
    clock.pass_s(1800)
    assert len(firings.take_due(record.id, "one")) == 1
    assert len(history(firings, record)) == 1


def test_jitter_delays_the_start_and_not_the_due_time(schedules, firings, clock):
    record = made(schedules, schedule=Schedule(cron="@hourly", jitter="30m"))
    began = []
    for minute in range(1, 4 * 60):
        clock.pass_s(60)
        began += [(minute, one.due) for one in firings.take_due(record.id, "one")]
    assert [datetime.fromtimestamp(due, UTC).hour for _, due in began] == [1, 2, 3]
    late = [minute - 60 * hour for hour, (minute, _) in enumerate(began, start=1)]
    assert all(0 <= one <= 31 for one in late)
    assert len(set(late)) > 1
    assert {outcome for _, outcome in history(firings, record)} == {"taken"}


def test_a_jitter_longer_than_the_time_between_misses_nothing(schedules, firings, clock):
    record = made(schedules, schedule=Schedule(cron="* * * * *", jitter="2h", missed="skip"))
    for _ in range(3 * 60):
        clock.pass_s(60)
        firings.take_due(record.id, "one")
    found = list(reversed(firings.firings(record.id, limit=500).items))
    assert [one.due for one in found] == [record.considered_to + 60 * n for n in range(1, len(found) + 1)]
    assert {one.outcome for one in found} == {"taken"}, "one that another held up was not missed"
    assert len(found) >= 60, "all that are older than the jitter have begun"
    assert all(0 <= one.fired_at - one.due <= 2 * 3600 + 60 for one in found)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", {"missed": 30}), ("once", {"missed": 29, "taken": 1}), ("all", {"missed": 6, "waiting": 24})],
)
def test_an_outage_is_in_the_history(schedules, firings, clock, missed, expected):
    record = made(schedules, schedule=Schedule(cron="@hourly", missed=missed))
    clock.pass_s(30 * 3600 + 300)
    firings.take_due(record.id, "one")
    assert Counter(outcome for _, outcome in history(firings, record)) == expected
    assert all(one.reason for one in firings.firings(record.id).items)
    assert firings.take_due(record.id, "two") == ()


def test_an_outage_of_a_year_leaves_a_hundred_rows(schedules, firings, clock):
    record = made(schedules, schedule=Schedule(cron="* * * * *"))
    clock.pass_s(366 * 86400 + 30)
    assert len(firings.take_due(record.id, "one")) == 1
    page = firings.firings(record.id, limit=200)
    assert len(page.items) == 100
    assert "earlier ones" in page.items[-1].reason
    assert firings.take_due(record.id, "one") == ()


def test_another_may_ask_for_a_firing_at_any_time(schedules, firings, clock):
    record = made(schedules)
    found = [firings.take_now(record.id, "one") for _ in range(3)]
    assert len({one.due for one in found}) == 3
    clock.pass_s(3600)
    assert len(firings.take_due(record.id, "one")) == 1, "the due times go on as before"
    with pytest.raises(UsageError):
        firings.take_now("none", "one")


# From a firing to its end


def test_a_firing_and_its_campaign_are_kept_together(schedules, firings, clock, fleet):
    record = made(schedules)
    clock.pass_s(3600)
    (firing,) = firings.take_due(record.id, "one")
    campaign = submit(fleet, clock).jobs[0].campaign
    confirm(fleet, firings, firing, campaign)
    ended = firings.get(firing.id)
    assert (ended.outcome, ended.campaign, ended.campaign_state) == ("submitted", campaign, "running")
    with pytest.raises(FiringLostError):
        confirm(fleet, firings, firing, "another")
    assert firings.get(firing.id).campaign == campaign


def test_a_firing_of_a_dead_server_is_taken_over_after_its_lease(schedules, firings, clock, fleet):
    record = made(schedules)
    clock.pass_s(3600)
    (firing,) = firings.take_due(record.id, "dead")
    clock.pass_s(LEASE_S)
    assert firings.take_over("two") == ()
    clock.pass_s(1)
    (again,) = firings.take_over("two")
    assert (again.id, again.server) == (firing.id, "two")
    assert firings.take_over("three") == (), "the lease began anew"
    confirm(fleet, firings, again, "c1")
    with pytest.raises(FiringLostError):
        confirm(fleet, firings, firing, "c2")
    clock.pass_s(2 * LEASE_S)
    assert firings.take_over("three") == ()


def test_two_campaigns_of_one_schedule_never_begin_together(schedules, firings, clock, fleet, control):
    record = made(schedules)
    first, second = (firings.take_now(record.id, server) for server in ("one", "two"))
    assert firings.standing(first).in_words == ""
    assert "is still under way" in firings.standing(second).in_words
    campaign = submit(fleet, clock).jobs[0].campaign
    confirm(fleet, firings, first, campaign)
    with pytest.raises(OverlapError):
        confirm(fleet, firings, second, "c2")
    assert firings.standing(second).campaigns == (campaign,)
    control.cancel_campaign(campaign)
    assert firings.standing(second).in_words == ""
    confirm(fleet, firings, second, "c2")


def test_waiting_firings_come_one_after_another_in_order(schedules, firings, clock, fleet, control):
    record = made(schedules, schedule=Schedule(cron="@hourly", missed="all"))
    clock.pass_s(3 * 3600 + 300)
    assert firings.take_due(record.id, "one") == ()
    due = []
    for _ in range(3):
        (firing,) = firings.take_waiting("one")
        assert firings.take_waiting("two") == (), "one is under way"
        campaign = submit(fleet, clock).jobs[0].campaign
        confirm(fleet, firings, firing, campaign)
        assert firings.take_waiting("two") == (), "its campaign runs"
        control.cancel_campaign(campaign)
        due.append(firing.due)
    assert due == sorted(due)
    assert firings.take_waiting("one") == ()


def test_a_paused_schedule_lets_its_firings_wait(schedules, firings, clock):
    record = made(schedules)
    firing = firings.take_now(record.id, "one")
    firings.wait(firing, "the other runs")
    schedules.pause("nightly")
    assert firings.take_waiting("one") == ()
    schedules.resume("nightly")
    assert [one.id for one in firings.take_waiting("one")] == [firing.id]


def test_not_more_than_a_bound_wait(schedules, firings):
    record = made(schedules)
    found = [firings.take_now(record.id, "one") for _ in range(MOST_AT_ONCE + 1)]
    for one in found:
        firings.wait(one, "the other runs")
    outcomes = [firings.get(one.id).outcome for one in found]
    assert outcomes == ["waiting"] * MOST_AT_ONCE + ["skipped"]
    assert str(MOST_AT_ONCE) in firings.get(found[-1].id).reason


def test_what_has_ended_stays_as_it_ended(schedules, firings, fleet):
    record = made(schedules)
    firing = firings.take_now(record.id, "one")
    confirm(fleet, firings, firing, "c1")
    firings.end(firing, "failed", "too late")
    firings.wait(firing, "too late")
    firings.replace([firing], firing)
    assert firings.get(firing.id).outcome == "submitted"


def test_history_is_read_page_by_page_newest_first(schedules, firings, clock):
    record = made(schedules)
    for _ in range(5):
        clock.pass_s(3600)
        firings.take_due(record.id, "one")
    page = firings.firings(record.id, limit=2)
    seen = [one.due for one in page.items]
    while page.next:
        page = firings.firings(record.id, limit=2, cursor=page.next)
        seen += [one.due for one in page.items]
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 5
    assert firings.newest([record.id, "none"])[record.id].due == seen[0]


# Together


def test_many_servers_take_each_of_hundreds_of_due_times_once(schedules, fleet, clock):
    records = [made(schedules, f"b{n}", Schedule(cron="* * * * *", overlap="queue")) for n in range(3)]
    taken: list[tuple[str, float]] = []
    barrier = threading.Barrier(4)
    begin = clock.now

    def serve(name):
        own = FakeClock()
        mine = Firings(fleet.engine, own)
        for minute in range(1, 61):
            own.now = begin + timedelta(minutes=minute)
            barrier.wait(120)
            for record in records:
                taken.extend((record.id, one.due) for one in mine.take_due(record.id, name))

    threads = [threading.Thread(target=serve, args=(f"server {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A server that finds a schedule held by another leaves it to that one; after the last minute nobody comes back.
    assert len(taken) == len(set(taken))
    own = FakeClock()
    own.now = begin + timedelta(minutes=60)
    for record in records:
        taken.extend((record.id, one.due) for one in Firings(fleet.engine, own).take_due(record.id, "last"))
    expected = {(record.id, (begin + timedelta(minutes=n)).timestamp()) for record in records for n in range(1, 61)}
    assert Counter(taken) == Counter(dict.fromkeys(expected, 1))


def test_two_that_make_the_same_schedule_make_one(fleet, clock):
    found = []

    def make():
        found.append(Schedules(fleet.engine, clock).keep("nightly", HOURLY, WHAT, "ann"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({record.id for record, _ in found}) == 1
    assert sum(new for _, new in found) == 1
