"""A step of the server's clock ends no lease, holds no job back and fails no campaign; on both kinds of database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.store.setups import POLICY, FakeClock, beat, deliver, enroll, submit

from assay.store.control import Control
from assay.store.records import FleetSettings

STEP_S = 7200


class SteppingClock(FakeClock):
    """A calendar that can be set while the time of the machine goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.off = timedelta()

    def utc(self):
        return self.now + self.off

    def step_s(self, seconds: float) -> None:
        self.off += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.mark.parametrize("step", [STEP_S, -STEP_S])
def test_a_step_ends_no_lease_and_takes_no_time_off_one(fleet, control, clock, step):
    submit(fleet, clock)
    agent = enroll(control).id
    lease = control.take(agent)
    clock.step_s(step)
    assert control.expire() == ()
    clock.pass_s(POLICY.lease_s - 1)
    assert control.expire() == ()
    assert beat(control, agent, (lease.job.id, lease.fence)).lost == ()
    clock.pass_s(POLICY.lease_s - 1)
    clock.step_s(-step)
    assert control.expire() == ()
    assert deliver(control, lease) == "accepted"


@pytest.mark.parametrize("step", [STEP_S, -STEP_S])
def test_a_lease_that_is_not_renewed_runs_out_in_its_time_whatever_the_calendar_says(fleet, control, clock, step):
    submit(fleet, clock, batches=(1,))
    lease = control.take(enroll(control).id)
    clock.step_s(step)
    clock.pass_s(POLICY.lease_s + 1)
    assert control.expire() == (lease.job.id,)


def test_a_job_that_was_lost_during_a_step_waits_no_longer_than_its_back_off(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control).id
    lease = control.take(agent)
    clock.step_s(STEP_S)
    control.release(lease.job.id, lease.fence, agent, "it crashed", crashed=True)
    clock.step_s(-STEP_S)
    clock.pass_s(2)
    assert control.ready() != {}
    assert len(control.offers()) == 1
    assert control.take(agent).job.id == lease.job.id


def test_a_server_that_starts_holds_nothing_back_that_another_clock_put_off(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    agent = enroll(control).id
    lease = control.take(agent)
    control.release(lease.job.id, lease.fence, agent, "it crashed", crashed=True)
    clock.step_s(-STEP_S)  # while no server was there
    started = Control(fleet.engine, clock, POLICY, seed=1)
    started.renew_all()
    clock.pass_s(1)
    assert started.take(agent).job.id == lease.job.id


def test_a_step_fails_no_campaign_by_its_deadline(fleet, control, clock):
    submit(fleet, clock, batches=(1,), settings=FleetSettings(deadline=control.lease_now() + 3600))
    clock.step_s(STEP_S)
    assert control.enforce_deadlines() == ()
    clock.pass_s(3601)
    assert len(control.enforce_deadlines()) == 1


def test_an_agent_heard_of_in_the_future_is_silent_all_the_same_later(fleet, control, clock):
    clock.step_s(STEP_S)
    agent = enroll(control).id
    clock.step_s(-STEP_S)
    control.after_step()
    clock.pass_s(61)
    assert control.mark_silent(60) == (agent,)
