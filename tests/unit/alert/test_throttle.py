"""Who is told when: quiet hours, limits on how often, channels; on a clock that is moved by hand."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest
from tests.unit.alert.setups import T0, done, failed, limit, rule

from assay.alert.evaluate import act, evaluate, notify_pending
from assay.alert.records import record_of
from assay.alert.rules import given_rule, rules_of
from assay.store.alerts import AlertRules, Alerts
from assay.store.notices import Notices
from assay.store.store import Store


@pytest.fixture
def store(tmp_path):
    """On one kind of database: what is written is the same as in the tests of events, and is tried there on all."""
    with closing(Store(tmp_path / "store")) as opened:
        yield opened


def told(store, clock):
    """Turn and channel of every notice, the oldest first."""
    return [(int(one.key.split(":")[1]), one.channel) for one in reversed(Notices(store.engine, clock).list())]


def set_to(clock, text):
    clock.now = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return clock.now.timestamp()


def keep(store, *rules):
    """Rules that the store knows: what it knows of them it can limit."""
    for one in rules:
        AlertRules(store.engine).put(given_rule(one.name, one.benchmark, one.alert, by="", now=T0))
    return rules_of(AlertRules(store.engine).list())


def only(store):
    return record_of(Alerts(store.engine).page().items[0])


def test_in_quiet_hours_nobody_is_notified_and_afterwards_everybody(store, clock):
    rules = keep(store, rule("job failed", quiet="22:00-07:00", timezone="Europe/Luxembourg"))
    now = set_to(clock, "2026-01-01 21:30")  # 22:30 there
    (alert,) = evaluate(store, [failed(at=now)], rules, clock)
    assert (alert.state, alert.telling.owed) == ("open", True)
    for moment in ("2026-01-01 23:00", "2026-01-02 05:59:59"):
        set_to(clock, moment)
        assert notify_pending(store, clock) == ()
    assert told(store, clock) == []
    set_to(clock, "2026-01-02 06:00")
    assert [one.id for one in notify_pending(store, clock)] == [alert.id]
    assert notify_pending(store, clock) == ()
    assert told(store, clock) == [(1, "*")]


def test_what_was_over_before_anybody_was_set_is_reported_once_as_it_is(store, clock):
    rules = keep(store, rule("job failed", quiet="22:00-07:00"))
    now = set_to(clock, "2026-01-01 23:00")
    evaluate(store, [failed(at=now)], rules, clock)
    now = set_to(clock, "2026-01-02 03:00")
    evaluate(store, [done(at=now)], rules, clock)
    set_to(clock, "2026-01-02 07:00")
    (alert,) = notify_pending(store, clock)
    assert (alert.state, alert.telling.news) == ("resolved", "resolved")
    assert told(store, clock) == [(2, "*")], "one message, not two"


def test_a_rule_reports_no_more_often_than_it_may_and_loses_nothing(store, clock):
    rules = keep(store, rule("latency_ms > 50", at_most_every="1h"))
    for number in range(3):  # three benchmarks: three alerts
        evaluate(store, [limit(60, benchmark=f"b{number}")], rules, clock)
        rules = rules_of(AlertRules(store.engine).list())
    assert len(told(store, clock)) == 1
    clock.pass_s(3599)
    assert notify_pending(store, clock) == ()
    clock.pass_s(1)
    assert len(notify_pending(store, clock)) == 1
    clock.pass_s(3600)
    assert len(notify_pending(store, clock)) == 1
    clock.pass_s(3600)
    assert notify_pending(store, clock) == ()
    assert len(told(store, clock)) == 3


def test_what_flaps_is_reported_at_the_end_of_the_hour_as_it_is_then(store, clock):
    rules = keep(store, rule("job failed", at_most_every="1h"))
    for number in range(10):
        clock.pass_s(60)
        event = failed if number % 2 == 0 else done
        evaluate(store, [event(at=clock.now.timestamp())], rules, clock)
    assert told(store, clock) == [(1, "*")]
    assert only(store).telling.turn == 10
    clock.pass_s(3600)
    notify_pending(store, clock)
    assert told(store, clock) == [(1, "*"), (10, "*")]


def test_each_rule_reports_its_own_channels_in_its_own_time(store, clock):
    rules = keep(
        store,
        rule("agent lost", name="day", notify=("chat",), quiet="00:00-06:00"),
        rule("agent lost", name="night", notify=("pager", "chat")),
    )
    from assay.alert.records import Event

    evaluate(store, [Event("agent-lost", T0, "agent-1", "lost:1", name="box", agent="agent-1")], rules, clock)
    assert told(store, clock) == [(1, "pager"), (1, "chat")]
    clock.pass_s(6 * 3600)
    notify_pending(store, clock)
    assert told(store, clock) == [(1, "pager"), (1, "chat")], "the chat has heard of it"
    assert not only(store).telling.owed


def test_growth_is_reported_after_an_hour(store, clock):
    rules = keep(store, rule("job failed"))
    evaluate(store, [failed("a")], rules, clock)
    for number in range(20):
        clock.pass_s(60)
        evaluate(store, [failed(f"p{number}", at=T0 + number)], rules, clock)
        notify_pending(store, clock)
    assert told(store, clock) == [(1, "*")]
    clock.pass_s(3600)
    (alert,) = notify_pending(store, clock)
    assert (alert.telling.news, len(alert.members)) == ("grown", 21)
    assert told(store, clock) == [(1, "*"), (2, "*")]


def test_a_snoozed_alert_reports_nothing_and_a_recovery_is_reported(store, clock):
    rules = keep(store, rule("job failed", quiet="00:00-01:00"))
    (alert,) = evaluate(store, [failed()], rules, clock)
    act(store, alert.id, "snooze", by="ada", clock=clock, until=T0 + 86_400)
    clock.pass_s(2 * 3600)
    assert notify_pending(store, clock) == ()
    evaluate(store, [done(at=T0 + 7200)], rules, clock)
    assert told(store, clock) == [(2, "*")]


def test_a_rule_that_is_gone_still_reports_that_it_is_over(store, clock):
    from assay.alert.evaluate import forget_rules

    rules = keep(store, rule("job failed", notify=("team",)))
    evaluate(store, [failed()], rules, clock)
    gone = AlertRules(store.engine).remove("r")
    forget_rules(store, [gone.id], clock)
    assert told(store, clock) == [(1, "team"), (2, "team")]
    assert only(store).state == "resolved"


def test_a_change_of_the_quiet_hours_counts_at_once(store, clock):
    rules = keep(store, rule("job failed", quiet="00:00-23:00"))
    evaluate(store, [failed()], rules, clock)
    assert notify_pending(store, clock) == ()
    keep(store, rule("job failed"))
    assert len(notify_pending(store, clock)) == 1
