"""The parts of a shared load: as many agents, at the same time, and nothing else of their campaign meanwhile."""

from __future__ import annotations

import pytest
from tests.unit.store.setups import beat, deliver, enroll, submit

from assay.plan.plan import make_plan
from assay.spec.load import load
from assay.store.records import FleetSettings

TARGET = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"}


@pytest.fixture
def share(fleet, clock):
    """Submit a load that machines share."""

    def submitted(rates=(10.0,), hosts=2, settings=None, **matrix):
        axes = {"load.rate": list(rates), **{name.replace("_", "."): values for name, values in matrix.items()}}
        given = {"benchmark": "shared", "target": TARGET, "load": {"duration": 4.0, "hosts": hosts}, "matrix": axes}
        plan = make_plan(load(given), lambda _: {})
        return fleet.submit_to_fleet(plan, given, {}, clock, settings=settings or FleetSettings())

    return submitted


def agents(control, number):
    return [enroll(control, str(one), f"agent {one}") for one in range(number)]


def part(lease):
    return lease.job.definition.load.rate, lease.job.definition.load.host


def test_parts_go_to_different_agents_and_the_next_point_waits_for_all(share, control):
    share(rates=(10.0, 20.0))
    one, other, third = agents(control, 3)
    first, second = control.take(one.id), control.take(other.id)
    assert [part(first), part(second)] == [(10.0, 0), (10.0, 1)]
    assert control.take(third.id) is None, "another point of the campaign would load the same endpoint"
    deliver(control, first)
    assert control.take(one.id) is None, "the other part still runs"
    deliver(control, second)
    assert {part(control.take(one.id)), part(control.take(third.id))} == {(20.0, 0), (20.0, 1)}


def test_no_part_begins_before_there_are_agents_for_all(share, control):
    share(hosts=3)
    one, other = agents(control, 2)
    assert control.take(one.id) is None
    assert control.take(other.id) is None
    third = enroll(control, "3", "third")
    assert [part(control.take(agent.id)) for agent in (other, third, one)] == [(10.0, 0), (10.0, 1), (10.0, 2)]


def test_an_agent_with_room_for_two_jobs_gets_one_part_only(share, control):
    share()
    wide = enroll(control, "1", "wide", slots=2)
    assert control.take(wide.id) is None
    other = enroll(control, "2", "other")
    assert control.take(wide.id) is not None
    assert control.take(wide.id) is None
    assert control.take(other.id) is not None


def test_agents_that_cannot_are_gone_or_silent_are_not_counted_on(share, control, clock):
    share()
    one, draining = agents(control, 2)
    control.patch_agent(draining.id, draining=True)
    assert control.take(one.id) is None
    silent = enroll(control, "9", "silent")
    clock.pass_s(61)
    beat(control, one.id, state="active")
    assert control.take(one.id) is None
    beat(control, silent.id, state="active")
    assert control.take(one.id) is not None


def test_an_idle_agent_waits_for_a_busy_one_instead_of_taking_other_work(share, fleet, control, clock):
    one, other = agents(control, 2)
    submit(fleet, clock, name="long", batches=(1,))
    working = control.take(other.id)
    share(settings=FleetSettings(priority=1))
    submit(fleet, clock, name="waiting", batches=(1, 2, 3))
    assert control.take(one.id) is None, "it stays for its part"
    deliver(control, working)
    assert control.take(other.id).job.benchmark == "shared"
    assert control.take(one.id).job.benchmark == "shared"


def test_an_agent_that_waits_in_vain_does_other_work(share, fleet, control, clock):
    """There are too few agents altogether, so nothing is won by waiting."""
    share(settings=FleetSettings(priority=1))
    submit(fleet, clock, name="other", batches=(1,))
    (one,) = agents(control, 1)
    assert control.take(one.id).job.benchmark == "other"


def test_a_lost_part_goes_out_again_beside_the_one_that_runs(share, control, clock):
    share()
    one, other, third = agents(control, 3)
    control.take(one.id)
    lost = control.take(other.id)
    control.release(lost.job.id, lost.fence, other.id, "the agent stops")
    assert control.take(one.id) is None, "it has a part already"
    assert part(control.take(third.id)) == (10.0, 1)


def test_other_jobs_of_the_campaign_do_not_run_beside_parts(share, control):
    share(rates=(10.0,), hosts=1, load_hosts=[2, 1])
    one, other, third = agents(control, 3)
    first, second = control.take(one.id), control.take(other.id)
    assert {part(first), part(second)} == {(10.0, 0), (10.0, 1)}
    assert control.take(third.id) is None
    deliver(control, first)
    deliver(control, second)
    alone = control.take(third.id)
    assert alone.job.definition.load.hosts == 1
    assert control.take(one.id) is None


def test_other_campaigns_run_beside_parts(share, fleet, control, clock):
    share()
    clock.pass_s(1)
    submit(fleet, clock, name="other", batches=(1,))
    one, other, third = agents(control, 3)
    assert control.take(one.id).job.benchmark == "shared"
    assert control.take(other.id).job.benchmark == "shared", "it is waited for, whoever else was served less"
    assert control.take(third.id).job.benchmark == "other"


def test_a_part_taken_from_a_queue_follows_the_same_rules(share, control):
    jobs = share().jobs
    one, other = agents(control, 2)
    assert control.claim(one.id, jobs[0].id, 1) is not None
    control.patch_agent(one.id, labels={})
    assert control.claim(one.id, jobs[1].id, 1) is None
    assert control.claim(other.id, jobs[1].id, 2) is not None


def test_too_few_agents_are_reported_and_fail_where_that_is_asked(share, control):
    campaign = share().jobs[0].campaign
    agents(control, 1)
    (placement,) = control.placement(campaign)
    assert (placement.machines, len([fit for fit in placement.agents if not fit.missing]), placement.jobs) == (2, 1, 2)
    assert "2 machines together" in placement.in_words
    assert control.fail_unplaceable(campaign) == ()
    failing = share(settings=FleetSettings(unplaceable="fail")).jobs[0].campaign
    assert len(control.fail_unplaceable(failing)) == 2
