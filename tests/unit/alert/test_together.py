"""Several who evaluate at once, as servers on one PostgreSQL do: one alert, one message, nothing lost."""

from __future__ import annotations

import threading

import pytest
from tests.unit.alert.setups import T0, commit, done, failed, finding, limit, rule
from tests.unit.store.setups import FakeClock

from assay.alert.evaluate import act, evaluate, notify_pending, wake
from assay.alert.records import record_of
from assay.alert.rules import given_rule, rules_of
from assay.store.alerts import AlertRules, Alerts
from assay.store.notices import Notices
from assay.store.store import Store

pytestmark = pytest.mark.live
SERVERS = 4


@pytest.fixture
def servers(postgresql, tmp_path):
    """Stores of several servers, each with connections of its own to the same database."""
    url = postgresql.migrated()
    opened = [Store(tmp_path / f"server-{number}", url) for number in range(SERVERS)]
    yield opened
    for store in opened:
        store.close()


def at_once(servers, work):
    """Do the same on every server at the same moment; what each gave."""
    found, problems = [None] * len(servers), []
    begin = threading.Barrier(len(servers))

    def one(number):
        try:
            begin.wait(120)
            found[number] = work(servers[number], number)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    return found


def kept(store):
    return [record_of(one) for one in Alerts(store.engine).page(limit=500).items]


@pytest.mark.parametrize("stored", [False, True], ids=["rules at hand", "rules in the store"])
def test_all_open_the_same_alert_and_one_reports_of_it(servers, stored):
    clock = FakeClock()
    rules = [rule("job failed"), rule("latency_ms > 50", name="l"), rule("* worse", name="w")]
    if stored:
        for one in rules:
            AlertRules(servers[0].engine).put(given_rule(one.name, "*", one.alert, by="", now=T0))
        rules = list(rules_of(AlertRules(servers[0].engine).list()))
    events = [
        *(failed(f"p{number}") for number in range(5)),
        limit(60),
        *(finding(f"f{number}", **commit("b")) for number in range(5)),
    ]
    changed = at_once(servers, lambda store, _: evaluate(store, events, rules, clock))
    alerts = kept(servers[0])
    assert sorted((one.kind, len(one.members)) for one in alerts) == [("failed", 5), ("finding", 5), ("threshold", 1)]
    for one in alerts:
        assert len(one.history) == len(one.members), "each member came once"
    assert {one.id for found in changed for one in found} == {one.id for one in alerts}
    told = Notices(servers[0].engine, clock).list()
    assert len(told) == 3
    assert len({one.key for one in told}) == 3


def test_different_parts_of_one_trouble_meet_in_one_alert(servers):
    clock = FakeClock()
    rules = [rule("job failed")]
    at_once(
        servers,
        lambda store, number: [evaluate(store, [failed(f"p{number}-{part}")], rules, clock) for part in range(10)],
    )
    (alert,) = kept(servers[0])
    assert len(alert.members) == 10 * SERVERS
    assert len(Notices(servers[0].engine, clock).list()) == 1


def test_the_successor_of_an_old_alert_is_one_too(servers):
    clock = FakeClock()
    rules = [rule("job failed")]
    evaluate(servers[0], [failed("a")], rules, clock)
    evaluate(servers[0], [done("a", at=T0 + 1)], rules, clock)
    clock.pass_s(30 * 86_400)
    later = clock.now.timestamp()
    at_once(servers, lambda store, number: evaluate(store, [failed(f"p{number}", at=later)], rules, clock))
    new, old = kept(servers[0])
    assert (old.state, len(old.members)) == ("resolved", 1)
    assert (new.state, len(new.members)) == ("open", SERVERS)


def test_a_limit_on_telling_holds_across_servers(servers):
    clock = FakeClock()
    wish = rule("latency_ms > 50", at_most_every="1h")
    AlertRules(servers[0].engine).put(given_rule("r", "*", wish.alert, by="", now=T0))
    rules = rules_of(AlertRules(servers[0].engine).list())
    at_once(servers, lambda store, number: evaluate(store, [limit(60, benchmark=f"b{number}")], rules, clock))
    assert len(kept(servers[0])) == SERVERS
    notices = Notices(servers[0].engine, clock)
    assert len(notices.list()) == 1
    for hour in range(1, SERVERS + 2):
        clock.pass_s(3600)
        at_once(servers, lambda store, _: notify_pending(store, clock))
        assert len(notices.list()) == min(1 + hour, SERVERS)


def test_a_snooze_ends_once(servers):
    clock = FakeClock()
    (alert,) = evaluate(servers[0], [failed()], [rule("job failed")], clock)
    act(servers[0], alert.id, "snooze", by="ada", clock=clock, until=T0 + 60)
    clock.pass_s(60)
    woken = at_once(servers, lambda store, _: wake(store, clock))
    assert sum(map(len, woken)) == 1
    (alert,) = kept(servers[0])
    assert [line.happening for line in alert.history] == ["occur", "snooze", "wake"]
    assert len(Notices(servers[0].engine, clock).list()) == 2


def test_people_and_events_at_once_leave_a_whole_history(servers):
    clock = FakeClock()
    rules = [rule("job failed")]
    (alert,) = evaluate(servers[0], [failed("a")], rules, clock)

    def work(store, number):
        for step in range(10):
            if number == 0:
                act(store, alert.id, "acknowledge", by=f"p{step}", clock=clock)
            else:
                evaluate(store, [failed(f"p{number}-{step}")], rules, clock)

    at_once(servers, work)
    (alert,) = kept(servers[0])
    assert len(alert.members) == 1 + 10 * (SERVERS - 1)
    assert len(alert.history) == 1 + 10 + 10 * (SERVERS - 1)
    assert sorted(line.by for line in alert.history if line.by) == sorted(f"p{step}" for step in range(10))
