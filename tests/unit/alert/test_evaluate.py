"""Events become alerts in a real store: once each, whoever tells of them, however often."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.alert.setups import DAY, T0, commit, done, failed, finding, limit, rule
from tests.unit.store.setups import FakeClock

from assay.alert.evaluate import act, evaluate, forget_rules, note_file, wake
from assay.alert.message import read_notice
from assay.alert.records import record_of
from assay.alert.rules import given_rule, parsed
from assay.errors import UsageError
from assay.store.alerts import AlertFilter, AlertRules, Alerts
from assay.store.notices import Notices
from assay.store.store import Store

FAILED = rule("job failed")
WORSE = rule("* worse", name="w")
LIMIT = rule("latency_ms > 50", name="l")


def kept(store, **which):
    return [record_of(one) for one in Alerts(store.engine).page(AlertFilter(**which), limit=500).items]


def notices(store, clock):
    return [(one.alert, one.key.split(":")[1], one.channel) for one in reversed(Notices(store.engine, clock).list())]


def test_an_event_opens_one_alert_and_leaves_one_notice(store, clock):
    (alert,) = evaluate(store, [failed()], [FAILED], clock)
    assert (alert.state, alert.telling.owed, alert.telling.told) == ("open", False, {FAILED.id: 1})
    assert kept(store) == [alert]
    assert notices(store, clock) == [(alert.id, "1", "*")]


def test_the_same_event_twice_changes_nothing(store, clock):
    events = [failed("a"), failed("b"), limit(60), finding()]
    rules = [FAILED, LIMIT, WORSE]
    evaluate(store, events, rules, clock)
    before, told = kept(store), notices(store, clock)
    assert len(before) == 3
    clock.pass_s(60)
    assert evaluate(store, reversed(events), rules, clock) == ()
    assert (kept(store), notices(store, clock)) == (before, told)


def test_what_nobody_asked_about_opens_nothing(store, clock):
    assert evaluate(store, [failed(), limit(60), finding()], [], clock) == ()
    assert evaluate(store, [limit(60)], [rule("other_ms > 5")], clock) == ()
    assert kept(store) == []


def test_a_limit_opens_holds_and_recovers_only_when_that_is_clear(store, clock):
    def at(number, value):
        clock.now = clock.now.fromtimestamp(T0 + number * DAY, clock.now.tzinfo)
        return evaluate(store, [limit(value, 2.0, at=T0 + number * DAY)], [LIMIT], clock)

    assert at(0, 51) == (), "48 to 53 cannot be told"
    (alert,) = at(1, 55)
    assert alert.state == "open"
    assert at(2, 51) == ()
    assert at(3, 49) == (), "47 to 51 is not clearly below"
    assert kept(store)[0].state == "open"
    (alert,) = at(4, 47)
    assert (alert.state, alert.telling.news) == ("resolved", "resolved")
    (alert,) = at(5, 60)
    assert (alert.state, alert.telling.news) == ("open", "reopened")
    assert [line.happening for line in alert.history] == ["occur", "recover", "occur"]
    assert len(kept(store)) == 1
    assert [turn for _, turn, _ in notices(store, clock)] == ["1", "2", "3"]


def test_what_one_commit_moved_is_one_alert_with_the_list(store, clock):
    events = [finding(f"f{number}", benchmark=f"bench {number % 4}", **commit("b")) for number in range(40)]
    alerts = evaluate(store, [*events, finding("other", **commit("c"))], [WORSE], clock)
    assert sorted(len(one.members) for one in alerts) == [1, 40]
    assert len(kept(store)) == 2
    assert len(notices(store, clock)) == 2, "40 series are one message"


def test_a_finding_stays_in_its_alert_when_its_triage_changes(store, clock):
    (first,) = evaluate(store, [finding("f1")], [WORSE], clock)
    assert evaluate(store, [finding("f1", at=T0 + DAY, **commit("b"))], [WORSE], clock) == ()
    (only,) = kept(store)
    assert (only.id, only.cause) == (first.id, "code: commit aaaaaaaaaaaa → b")
    act(store, first.id, "resolve", by="ada", clock=clock)
    assert evaluate(store, [finding("f1", at=T0 + 2 * DAY, cause="machine", machine="m")], [WORSE], clock) == ()
    assert len(kept(store)) == 1


def test_what_comes_together_is_reported_in_one_message(store, clock):
    events = [finding(f"f{number}", series=f"s{number}", **commit("b")) for number in range(3)]
    (alert,) = evaluate(store, events, [WORSE], clock)
    assert alert.title == f"3 series of chat are worse (latency_ms): code: commit {'a' * 12} → b"
    (one,) = Notices(store.engine, clock).list()
    assert [member.subject for member in read_notice(one.document, one.key).alert.members] == ["f0", "f1", "f2"]


def test_an_end_that_comes_with_the_beginning_is_reported_after_it(store, clock):
    evaluate(store, [failed("a"), done("a", at=T0 + 1)], [rule("job failed")], clock)
    told = Notices(store.engine, clock).list()
    assert [read_notice(one.document, one.key).alert.state for one in reversed(told)] == ["open", "resolved"]


def test_a_finding_that_is_back_long_after_its_alert_was_over_opens_a_new_one(store, clock):
    def at(day, name, **more):
        clock.now = clock.now.fromtimestamp(T0 + day * DAY, clock.now.tzinfo)
        return evaluate(store, [finding(name, at=T0 + day * DAY, **commit("b"), **more)], [WORSE], clock)

    (first,) = at(0, "f1")
    at(1, "f1", state="gone")
    (second,) = at(20, "f2")
    assert second.key == first.key, "the first gave its key away"
    at(21, "f2", state="gone")
    (third,) = at(40, "f1")
    assert (third.state, [one.subject for one in third.members]) == ("open", ["f1"])
    assert len({first.id, second.id, third.id}) == 3
    assert at(41, "f1") == (), "and it stays there"
    assert {one.id: one.state for one in kept(store)} == {
        first.id: "resolved",
        second.id: "resolved",
        third.id: "open",
    }


def test_a_change_for_the_better_resolves_what_it_undoes(store, clock):
    evaluate(store, [finding("f1", series="s1"), finding("f2", series="s2")], [WORSE], clock)
    half = finding("g1", series="s1", change=-0.04, at=T0 + DAY, since=T0 + DAY)
    assert evaluate(store, [half], [WORSE], clock) == ()
    back = finding("g2", series="s1", change=-0.1, at=T0 + 2 * DAY, since=T0 + 2 * DAY)
    (alert,) = evaluate(store, [back], [WORSE], clock)
    assert (alert.state, {one.subject: one.state for one in alert.members}) == (
        "open",
        {"f1": "recovered", "f2": "standing"},
    )
    earlier = finding("g0", series="s2", change=-0.1, at=T0 + 3 * DAY, since=T0 - DAY)
    assert evaluate(store, [earlier], [WORSE], clock) == (), "it came before"
    (alert,) = evaluate(store, [finding("f2", series="s2", state="gone", at=T0 + 4 * DAY)], [WORSE], clock)
    assert alert.state == "resolved"


def test_two_rules_one_of_which_says_no_are_two_limits(store, clock):
    mild, hard = rule("latency_ms > 40", name="mild"), rule("latency_ms > 50", name="hard", severity="critical")
    evaluate(store, [limit(60)], [mild, hard], clock)
    assert len(kept(store, states=("open",))) == 2
    evaluate(store, [limit(45, at=T0 + 1)], [mild, hard], clock)
    assert [one.severity for one in kept(store, states=("open",))] == ["warning"]


def test_people_act_by_the_beginning_of_an_id(store, clock):
    (alert,) = evaluate(store, [failed()], [FAILED], clock)
    assert act(store, alert.id[:6], "acknowledge", by="ada", why="mine", clock=clock).state == "acknowledged"
    assert act(store, alert.id, "resolve", by="ada", clock=clock).state == "resolved"
    again = act(store, alert.id, "resolve", by="ada", clock=clock)
    assert (again.state, len(again.history)) == ("resolved", 3)
    for reference, code in (("ffff", "unknown-alert"), ("x", "unknown-alert"), ("", "unknown-alert")):
        with pytest.raises(UsageError) as said:
            act(store, reference, "resolve", by="ada", clock=clock)
        assert said.value.problem.code == code
    with pytest.raises(UsageError) as said:
        act(store, alert.id, "acknowledge", by="ada", clock=clock)
    assert said.value.problem.code == "lifecycle"


def test_only_a_change_can_be_expected(store, clock):
    (alert,) = evaluate(store, [failed()], [FAILED], clock)
    with pytest.raises(UsageError) as said:
        act(store, alert.id, "expect", by="ada", clock=clock)
    assert said.value.problem.code == "no-baseline"
    assert kept(store)[0].state == "open"


def test_a_snooze_ends_by_itself_and_is_reported(store, clock):
    (alert,) = evaluate(store, [failed()], [FAILED], clock)
    act(store, alert.id, "snooze", by="ada", clock=clock, until=T0 + 3600)
    assert wake(store, clock) == ()
    evaluate(store, [failed("b", at=T0 + 1)], [FAILED], clock)
    assert len(notices(store, clock)) == 1
    clock.pass_s(3600)
    (alert,) = wake(store, clock)
    assert (alert.state, len(alert.members), alert.telling.news) == ("open", 2, "woken")
    assert wake(store, clock) == ()
    assert [turn for _, turn, _ in notices(store, clock)] == ["1", "2"]


def test_alerts_are_listed_in_pages_and_by_what_they_are(store, clock):
    for number in range(7):
        clock.pass_s(10)
        evaluate(store, [failed(benchmark=f"b{number}", at=T0 + number)], [FAILED], clock)
    alerts, seen, cursor = Alerts(store.engine), [], None
    while True:
        page = alerts.page(AlertFilter(), cursor=cursor, limit=3)
        seen += [one.benchmark for one in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == [f"b{number}" for number in reversed(range(7))]
    act(store, kept(store)[0].id, "resolve", by="ada", clock=clock)
    assert len(kept(store, states=("open",))) == 6
    assert [one.benchmark for one in kept(store, benchmark="b3")] == ["b3"]
    assert [one.benchmark for one in kept(store, text="B4 A FAILED")] == ["b4"]
    assert [one.benchmark for one in kept(store, text="100%")] == []
    assert kept(store, severity="critical") == []
    assert [one.benchmark for one in kept(store, since=T0 + 69)] == ["b6"]


def test_a_file_brings_its_rules_and_takes_them_away(store, clock):
    rules = AlertRules(store.engine)
    said = {"alerts": ["job failed", {"when": "latency_ms > 50", "notify": ["team"]}]}
    assert note_file(store, "chat", said, T0, clock) == ()
    assert [(one.origin, one.benchmark) for one in rules.list()] == [("file", "chat")] * 2
    evaluate(store, [failed(), limit(60)], None, clock)
    assert len(kept(store, states=("open",))) == 2
    assert {channel for *_, channel in notices(store, clock)} == {"*", "team"}
    assert note_file(store, "chat", {"alerts": []}, T0 - 1, clock) == (), "an older file says nothing"
    (over,) = note_file(store, "chat", {"alerts": ["job failed"]}, T0 + 1, clock)
    assert (over.kind, over.state, over.history[-1].why) == ("threshold", "resolved", "its rule was taken away")
    note_file(store, "chat", {}, T0 + 2, clock)
    assert rules.list() == ()
    assert kept(store, states=("open",)) == []


def test_rules_by_name(store, clock):
    rules = AlertRules(store.engine)
    wish = given_rule("slow", "chat*", parsed("latency_ms > 50"), by="ada", now=T0)
    assert rules.put(wish)[1]
    other, fresh = rules.put(given_rule("slow", "*", parsed("latency_ms > 60"), by="bob", now=T0 + 1))
    assert (fresh, other.id, other.created_at, other.changed_at, other.by) == (False, wish.id, T0, T0 + 1, "bob")
    assert rules.get("slow").rule["value"] == 60
    evaluate(store, [limit(70)], None, clock)
    assert rules.get("slow").told_at == T0
    assert rules.remove("slow").name == "slow"
    assert forget_rules(store, [wish.id], clock)[0].state == "resolved"
    for name in ("slow", ""):
        with pytest.raises(UsageError) as said:
            rules.remove(name)
        assert said.value.problem.code == "unknown-rule"
    note_file(store, "chat", {"alerts": ["job failed"]}, T0, clock)
    (of_file,) = rules.list()
    with pytest.raises(UsageError) as said:
        rules.remove(of_file.name)
    assert said.value.problem.code == "conflict"
    with pytest.raises(UsageError) as said:
        rules.put(replace(wish, name=of_file.name, id="another"))
    assert said.value.problem.code == "exists"


def story(draw_from: random.Random, length: int):
    """Points of a benchmark that fail and are measured again, one event a minute."""
    events = []
    for number in range(length):
        point = draw_from.choice("abc")
        events.append((failed if draw_from.random() < 0.6 else done)(point, at=T0 + 60 * number))
    return events


def standing(store):
    return {member.subject for alert in kept(store) for member in alert.standing}


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 14))
def test_in_whatever_order_events_come_none_is_lost_and_none_counts_twice(seed, length):
    chance = random.Random(seed)
    events = story(chance, length)
    newest = {event.subject: event for event in events}
    broken = {subject for subject, event in newest.items() if event.kind == "failed"}
    with tempfile.TemporaryDirectory() as folder:
        store, clock = Store(Path(folder)), FakeClock()
        mixed = events + chance.choices(events, k=5)
        chance.shuffle(mixed)
        for event in mixed:
            clock.pass_s(60)
            evaluate(store, [event], [FAILED], clock)
        alerts = kept(store)
        assert len({one.key for one in alerts}) == len(alerts) <= 1
        assert broken <= standing(store), "what failed last stands, in whatever order it was told"
        told = notices(store, clock)
        assert len(told) == len(set(told))
        for alert in alerts:
            assert sum(line.state == "open" for line in alert.history) >= 1
            assert len({one.subject for one in alert.members}) == len(alert.members)
        before = kept(store)
        evaluate(store, events, [FAILED], clock)
        assert standing(store) >= broken
        assert {one.id for one in kept(store)} == {one.id for one in before} or not before
        store.close()


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 14))
def test_reported_in_order_an_alert_stands_exactly_while_something_does(seed, length):
    events = story(random.Random(seed), length)
    with tempfile.TemporaryDirectory() as folder:
        store, clock = Store(Path(folder)), FakeClock()
        broken: set[str] = set()
        for event in events:
            clock.pass_s(60)
            evaluate(store, [event], [FAILED], clock)
            evaluate(store, [event], [FAILED], clock)
            (broken.add if event.kind == "failed" else broken.discard)(event.subject)
            assert standing(store) == broken
            assert [one.state for one in kept(store)] in ([], ["open"] if broken else ["resolved"])
        store.close()
