"""How jobs and campaigns end without a result, and how they begin again."""

from __future__ import annotations

import pytest
from tests.unit.store.setups import POLICY, SMALL, beat, deliver, enroll, kinds, plan, states, submit

from assay.clock import SYSTEM_CLOCK
from assay.errors import UsageError
from assay.store.listing import Listing
from assay.store.records import FleetSettings, Outcome


def code(caught):
    return caught.value.problem.code


def test_cancel_is_safe_in_every_state_and_may_be_repeated(fleet, control, clock):
    jobs = submit(fleet, clock, batches=range(1, 5)).jobs
    agent = enroll(control, slots=9)
    done, failed, running = (control.take(agent.id) for _ in range(3))
    deliver(control, done)
    deliver(control, failed, event="fail", verdict="invalid")
    assert [control.cancel(job.id, "not needed", by="anna") for job in jobs] == [
        "done",
        "failed",
        "cancelled",
        "cancelled",
    ]
    assert [control.cancel(job.id) for job in jobs] == ["done", "failed", "cancelled", "cancelled"]
    last = control.history(running.job.id)[-1]
    assert (last.kind, last.detail) == ("cancelled", {"reason": "not needed", "by": "anna"})
    assert len(beat(control, agent.id, (running.job.id, running.fence)).lost) == 1
    assert [one.state for one in control.attempts(running.job.id)] == ["cancelled"]
    with pytest.raises(UsageError) as caught:
        control.cancel("nothing")
    assert code(caught) == "unknown-job"


def test_a_retried_job_is_as_new_and_its_old_result_is_evidence(fleet, control, clock):
    job = submit(fleet, clock, batches=(1,)).jobs[0]
    agent = enroll(control)
    lease = control.take(agent.id)
    deliver(control, lease, event="fail", verdict="invalid", result='{"first": 1}', reason="it crashed")
    assert control.settle_campaigns() == {job.campaign: "failed"}
    assert control.retry(job.id, by="anna") == "pending"
    found = Listing(fleet.engine).job(job.id)
    assert (found.result, found.summary.verdict, found.summary.reason, found.summary.ended_at) == (None, None, "", None)
    campaign = Listing(fleet.engine).campaign(job.campaign)
    assert (campaign.state, campaign.completed_at) == ("running", None)
    again = control.take(agent.id)
    assert again.fence == 2
    assert deliver(control, lease) == "repeated"
    assert deliver(control, again) == "accepted"
    assert [one.reason for one in control.evidence(job.id)] == ["replaced", "repeated"]
    assert control.evidence(job.id)[0].document == '{"first": 1}'
    assert control.settle_campaigns() == {job.campaign: "done"}
    assert kinds(control, job.id) == [
        "submitted",
        "leased",
        "result accepted",
        "campaign settled",
        "retried",
        "campaign reopened",
        "leased",
        "result repeated",
        "result accepted",
        "campaign settled",
    ]


def test_a_poisoned_job_that_is_retried_has_all_its_tries_again(fleet, control, clock):
    job = submit(fleet, clock, batches=(1,)).jobs[0]
    agent = enroll(control)
    for _ in range(2):
        for left in range(POLICY.tries):
            lease = control.take(agent.id)
            assert lease is not None, f"try {left}"
            control.release(job.id, lease.fence, agent.id, "killed", crashed=True)
            clock.pass_s(1000)
        assert states(fleet, job.campaign) == {job.id: "poisoned"}
        control.retry(job.id)


@pytest.mark.parametrize("ended", [False, True])
def test_what_waits_runs_or_is_done_cannot_be_retried(fleet, control, clock, ended):
    job = submit(fleet, clock, batches=(1,)).jobs[0]
    with pytest.raises(UsageError, match="pending cannot be retried") as caught:
        control.retry(job.id)
    assert code(caught) == "conflict"
    lease = control.take(enroll(control).id)
    if ended:
        deliver(control, lease)
    with pytest.raises(UsageError, match="cannot be retried"):
        control.retry(job.id)


def test_many_at_once_each_with_its_outcome(fleet, control, clock):
    jobs = [job.id for job in submit(fleet, clock, batches=range(1, 4)).jobs]
    deliver(control, control.take(enroll(control).id))
    outcomes = control.batch("cancel", [*jobs, "nothing"])
    assert outcomes == {
        jobs[0]: Outcome("done", changed=False, problem="a job that is done cannot be cancelled"),
        jobs[1]: Outcome("cancelled", changed=True),
        jobs[2]: Outcome("cancelled", changed=True),
        "nothing": Outcome(None, changed=False, problem="no job 'nothing'"),
    }
    retried = control.batch("retry", jobs)
    assert [outcome.changed for outcome in retried.values()] == [False, True, True]
    assert sorted(states(fleet, jobs[0].partition("-")[0]).values()) == ["done", "pending", "pending"]


def test_a_campaign_is_cancelled_and_retried_whole(fleet, control, clock):
    jobs = submit(fleet, clock, batches=range(1, 4)).jobs
    campaign = jobs[0].campaign
    lease = control.take(enroll(control).id)
    assert set(control.cancel_campaign(campaign, "enough", by="anna")) == {job.id for job in jobs}
    assert Listing(fleet.engine).campaign(campaign).state == "cancelled"
    assert control.cancel_campaign(campaign) == ()
    assert deliver(control, lease) == "late"
    assert set(control.retry_campaign(campaign)) == {job.id for job in jobs}
    assert Listing(fleet.engine).campaign(campaign).state == "running"
    for act in (control.cancel_campaign, control.retry_campaign):
        with pytest.raises(UsageError) as caught:
            act("nothing")
        assert code(caught) == "unknown-campaign"


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        (("done", "done"), "done"),
        (("cancelled", "cancelled"), "cancelled"),
        (("failed", "cancelled"), "failed"),
        (("failed", "failed"), "failed"),
        (("done", "cancelled"), "partial"),
        (("done", "failed"), "partial"),
    ],
)
def test_how_a_campaign_ends(fleet, control, clock, ends, state):
    campaign = submit(fleet, clock).jobs[0].campaign
    agent = enroll(control)
    for end in ends:
        assert control.settle_campaigns() == {}
        lease = control.take(agent.id)
        if end == "cancelled":
            control.cancel(lease.job.id)
        else:
            deliver(control, lease, event="finish" if end == "done" else "fail")
    clock.pass_s(5)
    assert control.settle_campaigns() == {campaign: state}
    assert control.settle_campaigns() == {}
    assert Listing(fleet.engine).campaign(campaign).completed_at == "2026-01-01T00:00:05.000+00:00"


def test_a_deadline_ends_what_waits_and_what_runs(fleet, control, clock):
    settings = FleetSettings(deadline=clock.utc().timestamp() + 100)
    jobs = submit(fleet, clock, batches=range(1, 4), settings=settings).jobs
    agent = enroll(control, slots=2)
    deliver(control, control.take(agent.id))
    running = control.take(agent.id)
    submit(fleet, clock, name="without")
    clock.pass_s(99)
    assert control.enforce_deadlines() == ()
    clock.pass_s(1)
    assert set(control.enforce_deadlines()) == {running.job.id, jobs[2].id}
    assert control.enforce_deadlines() == ()
    found = Listing(fleet.engine).campaign(jobs[0].campaign)
    assert (found.state, found.counts) == ("partial", {"done": 1, "failed": 2})
    assert Listing(fleet.engine).job(jobs[2].id).summary.reason == "the deadline of its campaign passed"
    assert kinds(control, jobs[2].id)[-2:] == ["deadline passed", "campaign settled"]
    control.retry(jobs[2].id)  # somebody wants it all the same
    assert control.enforce_deadlines() == ()


def test_what_nobody_can_take_fails_at_once_where_that_is_asked(fleet, control, clock):
    fail = FleetSettings(unplaceable="fail")
    lone = submit(fleet, clock, batches=(1,), settings=fail, name="lone").jobs[0]
    submit(fleet, clock, batches=(1,), needs={"cpus": 99}, name="waits")
    assert control.fail_unplaceable(lone.campaign) == (lone.id,)
    assert Listing(fleet.engine).job(lone.id).summary.reason == "no agent is enrolled"
    enroll(control, "1", "small", SMALL)
    enroll(control, "2", "here")
    other = submit(fleet, clock, settings=fail, needs={"cpus": 99}, name="other").jobs
    fine = submit(fleet, clock, batches=(1,), settings=fail, name="fine").jobs[0]
    assert control.fail_unplaceable() == (other[0].id, other[1].id)
    assert control.fail_unplaceable() == ()
    reason = Listing(fleet.engine).job(other[0].id).summary.reason
    assert "cpus: 99 needed, 4 there" in reason
    assert Listing(fleet.engine).campaign(other[0].campaign).state == "failed"
    assert states(fleet, fine.campaign) == {fine.id: "pending"}


def test_placement_says_who_can_and_what_others_lack(fleet, control, clock):
    here, small = enroll(control, "1", "here"), enroll(control, "2", "small", SMALL)
    control.patch_agent(here.id, draining=True)
    campaign = submit(fleet, clock, batches=(1, 2), needs={"memory": "4GiB"}).jobs[0].campaign
    (placed,) = control.placement(campaign)
    assert (placed.jobs, placed.waiting, placed.in_words) == (2, 2, "onnxruntime, cpu, 4.0 GiB memory")
    assert [(fit.agent, fit.available) for fit in placed.agents if not fit.missing] == [(here.id, False)]
    assert placed.agents[1].agent == small.id
    assert "memory: 4.0 GiB needed, 1.0 GiB there" in placed.agents[1].missing
    assert control.preview(plan((1, 2), needs={"memory": "4GiB"}).jobs) == (placed,)
    with pytest.raises(UsageError):
        control.placement("nothing")


def test_a_campaign_that_this_machine_measures_is_left_alone(fleet, control, clock):
    made = fleet.create_campaign(plan(), {}, {}, "here", SYSTEM_CLOCK)
    job = made.jobs[0]
    fleet.move_job(job.id, "start")
    assert control.expire() == ()
    assert control.settle_campaigns() == {}
    assert control.take(enroll(control).id) is None
    assert not control.batch("cancel", [job.id])[job.id].changed
    for act in (lambda: control.cancel(job.id), lambda: control.cancel_campaign(job.campaign)):
        with pytest.raises(UsageError) as caught:
            act()
        assert code(caught) == "not-fleet"
    assert control.placement(job.campaign) == ()


def test_a_running_campaign_of_the_fleet_is_cancelled_before_it_is_removed(fleet, control, clock):
    campaign = submit(fleet, clock).jobs[0].campaign
    with pytest.raises(UsageError, match="is running"):
        fleet.remove(campaign)
    control.cancel_campaign(campaign)
    fleet.remove(campaign)
    assert fleet.campaigns() == ()
    with pytest.raises(UsageError, match="no campaign"):
        fleet.remove(campaign)
