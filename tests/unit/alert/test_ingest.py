"""What time alone brings about, on a clock that is moved by hand."""

from __future__ import annotations

from tests.support.histories import result
from tests.unit.alert.setups import T0, rule
from tests.unit.store.setups import POLICY, beat, deliver, enroll, submit

from assay.alert.evaluate import act, consider
from assay.alert.ingest import check_agents, check_silence, follow_jobs, note_files
from assay.alert.records import record_of
from assay.alert.rules import Rule
from assay.series.repository import SeriesStore
from assay.store.alerts import AlertFilter, AlertRules, Alerts
from assay.store.control import Control
from assay.store.records import FleetSettings

HOUR = 3600.0


def active(store):
    states = ("open", "acknowledged", "snoozed")
    return [record_of(one) for one in Alerts(store.engine).page(AlertFilter(states=states)).items]


def measured(store, clock, benchmark="chat", number=0):
    SeriesStore(store, clock).add(result(10.0, number), benchmark, {}, clock.now.timestamp())


def since(one: Rule, at: float) -> Rule:
    from dataclasses import replace

    return replace(one, created_at=at)


def test_silence_opens_once_and_ends_with_a_result(store, clock):
    rules = [since(rule("no data for 24h", benchmark="chat"), T0)]
    measured(store, clock)
    clock.pass_s(24 * HOUR - 1)
    assert check_silence(store, rules, clock) == ()
    clock.pass_s(1)
    (alert,) = check_silence(store, rules, clock)
    assert alert.title == "chat gives no results"
    assert alert.sentences == ("chat has had no result for 24 h, since 2026-01-01 00:00 UTC",)
    clock.pass_s(HOUR)
    assert check_silence(store, rules, clock) == ()
    act(store, alert.id, "resolve", by="ada", clock=clock)
    clock.pass_s(HOUR)
    assert check_silence(store, rules, clock) == (), "the same silence is no news"
    measured(store, clock, number=1)
    clock.pass_s(24 * HOUR)
    (again,) = check_silence(store, rules, clock)
    assert (again.id, again.state) == (alert.id, "open")
    measured(store, clock, number=2)
    (over,) = check_silence(store, rules, clock)
    assert over.state == "resolved"
    assert check_silence(store, rules, clock) == ()


def test_a_benchmark_that_never_gave_a_result_is_silent_from_the_rule_on(store, clock):
    named, pattern = (
        rule("no data for 1h", benchmark="chat", name="n"),
        rule("no data for 1h", benchmark="c*", name="p"),
    )
    rules = [since(named, T0), since(pattern, T0)]
    clock.pass_s(HOUR - 1)
    assert check_silence(store, rules, clock) == ()
    clock.pass_s(1)
    (alert,) = check_silence(store, rules, clock)
    assert [note.name for note in alert.rules] == ["n"], "a pattern is about what there is"


def test_a_pattern_is_about_every_benchmark_that_matches(store, clock):
    for name in ("chat", "cache", "vector"):
        measured(store, clock, name)
    clock.pass_s(2 * HOUR)
    measured(store, clock, "cache", number=1)
    found = check_silence(store, [since(rule("no data for 1h", benchmark="c*"), T0)], clock)
    assert [one.benchmark for one in found] == ["chat"]


def test_jobs_that_failed_are_no_results(store, clock):
    rules = [since(rule("no data for 24h", benchmark="chat"), T0)]
    measured(store, clock)
    clock.pass_s(23 * HOUR)
    SeriesStore(store, clock).add(result(None, 5), "chat", {}, clock.now.timestamp())
    clock.pass_s(HOUR)
    assert len(check_silence(store, rules, clock)) == 1


def test_agents_that_are_lost_are_one_alert_until_all_are_back(store, clock):
    control = Control(store.engine, clock, POLICY, seed=1)
    boxes = [enroll(control, f"device-{number}", f"box-{number}") for number in range(3)]
    rules = [rule("agent lost"), rule("agent lost", name="page", severity="critical", benchmark="chat")]
    clock.pass_s(61)
    beat(control, boxes[2].id)
    (alert,) = check_agents(store, rules, clock, 60)
    assert (alert.title, alert.severity, len(alert.rules)) == ("2 agents are lost", "critical", 2)
    assert check_agents(store, rules, clock, 60) == ()
    beat(control, boxes[0].id)
    (alert,) = check_agents(store, rules, clock, 60)
    assert alert.title == "agent box-1 is lost"
    control.remove_agent(boxes[1].id)
    (alert,) = check_agents(store, rules, clock, 60)
    assert alert.state == "resolved"
    clock.pass_s(61)
    (alert,) = check_agents(store, rules, clock, 60)
    assert (alert.state, len(alert.standing)) == ("open", 2)


def test_no_agent_is_lost_because_no_server_was_there_to_hear_it(store, clock):
    control = Control(store.engine, clock, POLICY, seed=1)
    enroll(control, "device-1", "box")
    clock.pass_s(HOUR)
    began = clock.now.timestamp()
    assert check_agents(store, [rule("agent lost")], clock, 60, began) == ()
    clock.pass_s(61)
    (alert,) = check_agents(store, [rule("agent lost")], clock, 60, began)
    assert alert.title == "agent box is lost"
    assert check_agents(store, [rule("agent lost")], clock, 60, clock.now.timestamp()) == (), "nor is it back by that"


def test_an_agent_that_drains_may_go_and_a_patient_rule_waits(store, clock):
    control = Control(store.engine, clock, POLICY, seed=1)
    going, staying = enroll(control, "device-1", "going"), enroll(control, "device-2", "staying")
    control.patch_agent(going.id, draining=True)
    clock.pass_s(100)
    patient = rule({"when": "agent-lost", "after": "1h"})
    assert check_agents(store, [patient], clock, 60) == ()
    clock.pass_s(3600)
    (alert,) = check_agents(store, [patient], clock, 60)
    assert [one.agent for one in alert.members] == [staying.id]
    assert alert.sentences[0].startswith("staying has sent no heartbeat for 1 h 1 min")


def test_jobs_that_fail_on_a_server_are_followed_whether_or_not_they_left_a_result(store, clock):
    control = Control(store.engine, clock, POLICY, seed=1)
    rules = [rule("job failed")]
    settings = FleetSettings(deadline=T0 + 100)
    submit(store, clock, batches=(1, 2), name="chat", settings=settings)
    agent = enroll(control).id
    lease = control.take(agent)
    deliver(control, lease, event="fail", verdict="invalid", reason="error[crashed]: it died")
    (alert,), last = follow_jobs(store, rules, clock, 0)
    assert alert.sentences == ("chat batch 1 failed: error[crashed]: it died",)
    clock.pass_s(101)
    assert len(control.enforce_deadlines()) == 1
    (alert,), last = follow_jobs(store, rules, clock, last)
    assert alert.title == "2 jobs of chat failed"
    assert "the deadline of its campaign passed" in " ".join(alert.sentences)
    assert follow_jobs(store, rules, clock, 0)[0] == (), "read again, it is no news"
    clock.pass_s(10)
    submit(store, clock, batches=(1, 2), name="chat")
    for _ in range(2):
        deliver(control, control.take(agent), result="{}")
    found, last = follow_jobs(store, rules, clock, last)
    assert [one.state for one in found] == ["resolved"]
    assert follow_jobs(store, rules, clock, last) == ((), last)


def test_what_failed_before_a_rule_was_there_opens_nothing(store, clock):
    control = Control(store.engine, clock, POLICY, seed=1)
    submit(store, clock, batches=(1,), name="chat")
    deliver(control, control.take(enroll(control).id), event="fail", verdict="invalid")
    clock.pass_s(60)
    assert follow_jobs(store, [since(rule("job failed"), T0 + 60)], clock, 0)[0] == ()


def test_the_files_of_campaigns_bring_their_rules(store, clock):
    def hand_in(*alerts):
        from tests.unit.store.setups import plan

        clock.pass_s(60)
        document = {"benchmark": "chat", "alerts": list(alerts)}
        store.submit_to_fleet(plan(name="chat"), document, {}, clock, settings=FleetSettings())

    hand_in("job failed", "latency_ms > 5")
    mark = note_files(store, clock, "")
    assert [one.rule["when"] for one in AlertRules(store.engine).list()] == ["failed", "above"]
    hand_in("job failed")
    hand_in("no data for 24h")
    assert note_files(store, clock, mark) > mark
    assert [one.rule["when"] for one in AlertRules(store.engine).list()] == ["silent"]
    assert note_files(store, clock, "") > mark


def test_the_end_of_a_job_does_all_that_is_asked(store, clock):
    from tests.unit.store.setups import plan

    document = {"benchmark": "chat", "alerts": ["job failed", "latency_ms > 5"]}
    made = store.create_campaign(plan(name="chat"), document, {}, "here", clock)
    campaign = made.jobs[0].campaign
    clock.pass_s(60)

    def end(one, at=60.0):
        return consider(store, one, benchmark="chat", campaign=campaign, at=T0 + at, clock=clock)

    (broken,) = end(result(None, 1, campaign=campaign))
    assert broken.title.endswith("failed")
    changed = end(result(10.0, 2, campaign=campaign), at=120.0)
    assert sorted((one.kind, one.state) for one in changed) == [("failed", "resolved"), ("threshold", "open")]
    (over,) = end(result(1.0, 3, campaign=campaign), at=180.0)
    assert (over.kind, over.state) == ("threshold", "resolved")
    assert active(store) == []
