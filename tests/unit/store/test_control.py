"""Leases: given out once, renewed, given back, lost, or ended by a result; on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading

import pytest
from tests.unit.store.setups import GPU, HERE, POLICY, SMALL, beat, deliver, enroll, kinds, states, submit

from assay.errors import UsageError
from assay.place.fleet.protocol import Progress
from assay.run.records import Failure, SingleRunResult
from assay.store.fleet.transactions import read_logs


def run(run_id, *, failed=False):
    error = Failure("crashed", "it crashed") if failed else None
    return SingleRunResult(run_id, run_id == 0, "2026-01-01", "2026-01-01", 1.0, error=error)


def test_a_job_goes_out_once_and_its_result_counts_once(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    assert lease is not None
    assert control.take(agent.id) is None
    assert deliver(control, lease) == "accepted"
    assert deliver(control, lease) == "repeated"
    assert kinds(control, lease.job.id) == ["submitted", "leased", "result accepted", "result repeated"]
    assert [(one.fence, one.state) for one in control.attempts(lease.job.id)] == [(1, "delivered")]


def test_a_result_brings_its_runs_and_a_repeated_one_does_not(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    lease = control.take(enroll(control).id)
    assert deliver(control, lease, runs=(run(0), run(1, failed=True))) == "accepted"
    assert deliver(control, lease, runs=(run(0), run(1), run(2))) == "repeated"
    assert fleet.runs(lease.job.id) == (run(0), run(1, failed=True))


def test_a_silent_agents_job_is_offered_again_and_its_late_result_is_evidence(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    first, second = enroll(control, "1", "first"), enroll(control, "2", "second")
    lost = control.take(first.id)
    clock.pass_s(61)
    assert control.expire() == (lost.job.id,)
    assert control.expire() == ()
    assert control.take(second.id) is None  # back-off
    clock.pass_s(10)
    again = control.take(second.id)
    assert (again.job.id, again.fence) == (lost.job.id, 2)
    assert deliver(control, lost, result='{"late": true}') == "late"
    assert deliver(control, again) == "accepted"
    (kept,) = control.evidence(lost.job.id)
    assert (kept.reason, kept.fence, kept.agent, kept.document) == ("late", 1, first.id, '{"late": true}')
    assert [one.state for one in control.attempts(lost.job.id)] == ["expired", "delivered"]


def test_heartbeats_keep_a_lease_and_report_of_one_that_is_gone(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    for _ in range(5):
        clock.pass_s(50)
        assert beat(control, agent.id, (lease.job.id, lease.fence)).lost == ()
        assert control.expire() == ()
    control.cancel(lease.job.id)
    assert [one.job for one in beat(control, agent.id, (lease.job.id, lease.fence)).lost] == [lease.job.id]
    assert [one.job for one in beat(control, agent.id, ("nothing", 1)).lost] == ["nothing"]
    assert deliver(control, lease) == "late"


def test_a_job_that_kills_its_agents_is_set_aside(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    for turn in range(POLICY.tries):
        clock.pass_s(1000)
        lease = control.take(agent.id)
        assert lease is not None
        if turn == 0:
            assert control.release(lease.job.id, lease.fence, agent.id, "out of memory", crashed=True)
        else:
            clock.pass_s(61)
            control.expire()
    clock.pass_s(1000)
    assert control.take(agent.id) is None
    assert states(fleet, lease.job.campaign) == {lease.job.id: "poisoned"}
    assert control.history(lease.job.id)[-1].kind == "set aside as poisoned"
    assert [one.state for one in control.attempts(lease.job.id)] == ["crashed", "expired", "expired"]
    assert deliver(control, lease) == "late"


def test_what_is_given_back_waits_at_once_and_is_not_counted(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    for _ in range(POLICY.tries + 3):
        lease = control.take(agent.id)
        assert control.release(lease.job.id, lease.fence, agent.id, "the agent stops")
        assert not control.release(lease.job.id, lease.fence, agent.id, "the agent stops")
    assert not control.release(lease.job.id, 1, agent.id, "an old lease")
    assert control.history(lease.job.id)[-1].detail["reason"] == "the agent stops"
    assert deliver(control, lease) == "late"
    assert deliver(control, control.take(agent.id)) == "accepted"


def test_another_elses_lease_cannot_be_given_back(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    lease = control.take(enroll(control).id)
    other = enroll(control, "2", "other")
    assert not control.release(lease.job.id, lease.fence, other.id, "mine now")
    assert not control.progress(lease.job.id, lease.fence, Progress(other.id))
    assert deliver(control, lease) == "accepted"


def test_progress_shows_and_renews_and_reports_of_each_run(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    for step in range(10):
        clock.pass_s(30)
        said = Progress(agent.id, run=step // 5, runs=2, phase="measure", share=step / 10, log=(f"line {step}",))
        assert control.progress(lease.job.id, lease.fence, said)
        assert control.expire() == ()
    assert kinds(control, lease.job.id) == ["submitted", "leased", "run began", "run began"]
    assert control.history(lease.job.id)[-1].detail["run"] == 2
    clock.pass_s(61)
    control.expire()
    assert not control.progress(lease.job.id, lease.fence, said)
    lines = read_logs(fleet.engine, lease.job.id, limit=6)
    assert [one.text for one in lines.lines] == [f"line {step}" for step in range(6)]
    rest = read_logs(fleet.engine, lease.job.id, after=lines.next)
    assert lines.more
    assert [one.text for one in rest.lines] == [f"line {step}" for step in range(6, 10)]
    assert not rest.more
    assert read_logs(fleet.engine, lease.job.id, after=rest.next).next == rest.next


def test_lines_that_a_database_cannot_hold_are_made_so_that_it_can(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    said = Progress(agent.id, log=("a\0b", "\ud800half", "x" * 100_000, "end\r\n"))
    assert control.progress(lease.job.id, lease.fence, said)
    texts = [one.text for one in read_logs(fleet.engine, lease.job.id).lines]
    assert [texts[0], texts[1], len(texts[2]), texts[3]] == ["a\N{REPLACEMENT CHARACTER}b", "?half", 4000, "end"]


def test_an_agent_only_gets_what_it_can_do(fleet, control, clock):
    submit(fleet, clock, batches=(1,), needs={"memory": "4GiB"})
    assert control.take(enroll(control, "1", "small", SMALL).id) is None
    assert control.take(enroll(control, "2", "here", HERE).id) is not None


def test_needs_of_later_campaigns_are_noticed(fleet, control, clock):
    agent = enroll(control)
    assert control.suitable(agent.id) == ()
    submit(fleet, clock, batches=(1,))
    first = control.suitable(agent.id)
    submit(fleet, clock, batches=(1,), needs={"cpus": 2})
    submit(fleet, clock, batches=(1,), needs={"cpus": 99})
    assert len(first) == 1
    assert len(control.suitable(agent.id)) == 2
    assert sorted(control.ready().values()) == [1, 1, 1]


def test_a_device_may_be_requested(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    submit(fleet, clock, batches=(1,), target={"model": "m", "device": "cuda:1"})
    agent = enroll(control, profile=GPU, slots=3)
    lease = control.take(agent.id, "cuda")
    assert lease.job.definition.target.device == "cuda:1"
    assert control.take(agent.id, "cuda") is None
    assert control.take(agent.id, "cpu").job.definition.target.device == "cpu"


def test_an_agent_holds_no_more_than_its_slots(fleet, control, clock):
    submit(fleet, clock, batches=range(1, 6))
    agent = enroll(control, slots=2)
    held = [control.take(agent.id) for _ in range(2)]
    assert None not in held
    assert control.take(agent.id) is None
    offer = control.offers(1)[0]
    assert control.claim(agent.id, offer.job, offer.fence + 1) is None
    deliver(control, held[0])
    assert control.claim(agent.id, offer.job, offer.fence + 1) is not None


def test_a_claim_is_confirmed_once_and_may_be_repeated(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    first, second = enroll(control, "1", "first"), enroll(control, "2", "second")
    (offer,) = control.offers(10)
    assert (offer.fence, control.offers(0)) == (0, ())
    assert control.claim(first.id, "nothing", 1) is None
    assert control.claim(first.id, offer.job, 0) is None
    lease = control.claim(first.id, offer.job, offer.fence + 1)
    assert (lease.fence, lease.agent) == (1, first.id)
    assert control.claim(second.id, offer.job, offer.fence + 1) is None
    assert control.claim(first.id, offer.job, offer.fence + 1) == lease
    assert control.offers(10) == ()
    clock.pass_s(61)
    control.expire()
    clock.pass_s(10)
    assert control.claim(second.id, offer.job, 1) is None  # the old number
    assert control.claim(second.id, offer.job, 5).fence == 5  # a queue may have counted further
    assert deliver(control, lease) == "late"


def test_a_claim_by_an_agent_that_cannot_do_it_is_refused(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    (offer,) = control.offers(10)
    assert control.claim(enroll(control, "1", "small", SMALL).id, offer.job, 1) is None
    draining = enroll(control, "2", "draining")
    control.patch_agent(draining.id, draining=True)
    assert control.claim(draining.id, offer.job, 1) is None


def test_a_stranger_can_deliver_nothing(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    more = {"event": "finish", "verdict": None, "result": "{}"}
    assert control.deliver(lease.job.id, 1, "agent-x", **more) == "unknown"
    assert control.deliver(lease.job.id, 9, agent.id, **more) == "unknown"
    assert control.deliver("nothing", 1, agent.id, **more) == "unknown"
    assert control.evidence(lease.job.id) == ()
    assert deliver(control, lease) == "accepted"


def test_a_server_that_was_down_takes_no_lease_back(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control)
    lease = control.take(agent.id)
    clock.pass_s(600)
    assert control.renew_all() == 1
    assert control.expire() == ()
    assert deliver(control, lease) == "accepted"


def test_a_failed_result_says_why(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    lease = control.take(enroll(control).id)
    assert deliver(control, lease, event="fail", verdict="invalid", reason="out of memory") == "accepted"
    last = control.history(lease.job.id)[-1]
    assert (last.detail["state"], last.detail["reason"]) == ("failed", "out of memory")


def test_values_that_no_database_can_hold_are_the_callers_mistake(fleet, control, clock):
    agent = enroll(control)
    if fleet.engine.dialect.name == "postgresql":
        with pytest.raises(UsageError, match="cannot hold"):
            control.agent("a\0b")
        with pytest.raises(UsageError, match="cannot hold"):
            enroll(control, "long", "x" * 500)
    with pytest.raises(UsageError, match="cannot hold"):
        control.deliver("job", 10**30, agent.id, event="finish", verdict=None, result="{}")
    with pytest.raises(UsageError, match="cannot hold"):
        control.agent("\ud800")


def test_events_are_read_on_from_where_a_reader_was(fleet, control, clock):
    first = submit(fleet, clock, batches=(1,)).jobs[0]
    second = submit(fleet, clock, batches=(1,), name="d").jobs[0]
    agent = enroll(control, slots=2)
    for _ in range(2):
        deliver(control, control.take(agent.id))
    told = control.events_after(0)
    assert len(told) == 6
    assert told[-1].id == control.last_event()
    assert control.events_after(told[2].id, limit=2) == told[3:5]
    assert {event.campaign for event in control.events_after(0, second.campaign)} == {second.campaign}
    assert [event.kind for event in control.events_after(0, first.campaign)] == [
        "submitted",
        "leased",
        "result accepted",
    ]


@pytest.mark.live
def test_a_reader_of_events_misses_none_that_was_late(postgresql, clock):
    """Two transactions: the one with the lower number ends last, and the reader waits for it."""
    from sqlalchemy import insert

    from assay.store.control import Control
    from assay.store.database import open_database
    from assay.store.tables import CampaignRow, EventRow

    engine = open_database(postgresql.migrated())
    control = Control(engine, clock, POLICY)
    event = {"at": 0.0, "campaign_id": "c", "job_id": None, "detail": {}}
    campaign = {"id": "c", "benchmark": "b", "digest": "", "state": "running", "created_at": "", "labels": {}}
    with engine.begin() as setup:
        setup.execute(insert(CampaignRow).values(**campaign, document={}, surroundings=""))
    with engine.connect() as slow:
        slow.execute(insert(EventRow).values(**event, kind="slow"))
        with engine.begin() as fast:
            fast.execute(insert(EventRow).values(**event, kind="fast"))
        assert control.events_after(0) == ()
        assert control.last_event() == 0
        slow.commit()
    assert [one.kind for one in control.events_after(0)] == ["slow", "fast"]
    engine.dispose()


def test_many_agents_at_once_never_get_the_same_job(fleet, control, clock):
    """Eight threads take and deliver until nothing is left: every job goes out once, every result counts once."""
    submit(fleet, clock, batches=range(1, 41))
    submit(fleet, clock, batches=range(1, 21), name="other")
    agents = [enroll(control, f"device-{number}", f"agent {number}") for number in range(8)]
    taken: list[tuple[str, int]] = []
    answers: list[str] = []
    problems: list[BaseException] = []

    def work(agent_id: str) -> None:
        try:
            while (lease := control.take(agent_id)) is not None:
                taken.append((lease.job.id, lease.fence))
                beat(control, agent_id, (lease.job.id, lease.fence))
                answers.append(deliver(control, lease))
                control.settle_campaigns()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(agent.id,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(taken) == len(set(taken)) == 60
    assert set(answers) == {"accepted"}
    assert {(one.jobs, one.jobs_ended, one.state) for one in fleet.campaigns()} == {(40, 40, "done"), (20, 20, "done")}


def test_one_agent_that_asks_many_times_at_once_gets_one_job(fleet, control, clock):
    submit(fleet, clock, batches=range(1, 11))
    agent = enroll(control)
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(control.take(agent.id))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert sum(lease is not None for lease in got) == 1
