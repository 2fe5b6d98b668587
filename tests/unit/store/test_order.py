"""Who is served next: priority, fairness, spread and pack."""

from __future__ import annotations

from tests.unit.store.setups import SMALL, deliver, enroll, submit

from assay.store.records import FleetSettings

PACK, SPREAD = FleetSettings(spread="pack"), FleetSettings(spread="spread")


def test_priority_first_then_the_campaign_that_was_served_least(fleet, control, clock):
    submit(fleet, clock, name="a", batches=(1, 2, 3))
    clock.pass_s(1)
    submit(fleet, clock, name="b", batches=(1, 2, 3))
    clock.pass_s(1)
    submit(fleet, clock, name="urgent", batches=(1,), settings=FleetSettings(priority=5))
    agent = enroll(control, slots=10)
    taken = [control.take(agent.id).job for _ in range(7)]
    assert [job.benchmark for job in taken] == ["urgent", "a", "b", "a", "b", "a", "b"]
    assert [job.index for job in taken if job.benchmark == "a"] == [0, 1, 2]
    assert control.take(agent.id) is None


def test_offers_come_in_the_same_order(fleet, control, clock):
    submit(fleet, clock, name="later", batches=(1, 2))
    clock.pass_s(1)
    urgent = submit(fleet, clock, name="urgent", batches=(1, 2), settings=FleetSettings(priority=5))
    offers = control.offers(3)
    assert [offer.job for offer in offers[:2]] == [job.id for job in urgent.jobs]
    assert [offer.priority for offer in offers] == [5, 5, 0]


def test_very_many_campaigns_without_work_do_not_hide_one_that_has_some(fleet, control, clock):
    for number in range(120):
        submit(fleet, clock, name=f"c{number}", batches=(1,), needs={"cpus": 99}, settings=FleetSettings(priority=9))
    last = submit(fleet, clock, batches=(1,))
    assert control.take(enroll(control).id).job.id == last.jobs[0].id


def test_packed_jobs_stay_with_the_agent_that_began(fleet, control, clock):
    submit(fleet, clock, batches=range(1, 5), settings=PACK)
    first, second = enroll(control, "1", "first"), enroll(control, "2", "second")
    deliver(control, control.take(first.id))
    assert control.take(second.id) is None
    assert control.take(first.id) is not None


def test_packed_jobs_with_other_needs_may_go_elsewhere(fleet, control, clock):
    submit(fleet, clock, batches=(1,), settings=PACK)
    submit(fleet, clock, batches=(1,), settings=PACK, name="other")
    first, second = enroll(control, "1", "first"), enroll(control, "2", "second")
    assert control.take(first.id) is not None
    assert control.take(second.id) is not None


def test_packed_jobs_move_on_when_their_agent_cannot(fleet, control, clock):
    submit(fleet, clock, batches=range(1, 9), settings=PACK)
    agents = [enroll(control, str(number), f"agent {number}") for number in range(5)]
    deliver(control, control.take(agents[0].id))
    control.patch_agent(agents[0].id, draining=True)
    clock.pass_s(1)
    deliver(control, control.take(agents[1].id))
    control.patch_agent(agents[0].id, draining=False)
    assert control.take(agents[0].id) is None  # the work has moved for good
    control.remove_agent(agents[1].id)
    clock.pass_s(1)
    deliver(control, control.take(agents[2].id))
    enroll(control, "2", "agent 2", SMALL)  # it lost what it had
    clock.pass_s(1)
    deliver(control, control.take(agents[3].id))
    clock.pass_s(100)
    control.mark_silent(60)
    assert control.take(enroll(control, "4", "agent 4").id) is not None


def test_spread_jobs_go_to_those_that_had_fewest(fleet, control, clock):
    submit(fleet, clock, batches=range(1, 9), settings=SPREAD)
    agents = [enroll(control, str(number), f"agent {number}") for number in range(3)]
    for turn in range(2):
        for agent in agents:
            lease = control.take(agent.id)
            assert lease is not None, f"turn {turn}"
            deliver(control, lease)
            if agent is not agents[-1]:
                assert control.take(agent.id) is None  # others had fewer


def test_spread_jobs_do_not_wait_for_who_cannot_or_does_not_come(fleet, control, clock):
    submit(fleet, clock, batches=range(1, 9), settings=SPREAD)
    eager = enroll(control, "1", "eager")
    enroll(control, "2", "small", SMALL)
    draining = enroll(control, "3", "draining")
    control.patch_agent(draining.id, draining=True)
    busy = enroll(control, "4", "busy")
    assert control.take(busy.id) is not None
    for _ in range(3):
        deliver(control, control.take(eager.id))
    enroll(control, "5", "never asks")
    assert control.take(eager.id) is None
    clock.pass_s(61)
    assert control.take(eager.id) is not None


def test_a_job_taken_from_a_queue_is_packed_and_spread_too(fleet, control, clock):
    one, other = enroll(control, "1", "one"), enroll(control, "2", "other")
    packed = submit(fleet, clock, batches=(1, 2), settings=PACK).jobs
    deliver(control, control.claim(one.id, packed[0].id, 1))
    assert control.claim(other.id, packed[1].id, 1) is None
    deliver(control, control.claim(one.id, packed[1].id, 2))
    spread = submit(fleet, clock, batches=(1, 2), settings=SPREAD).jobs
    deliver(control, control.claim(one.id, spread[0].id, 1))
    assert control.claim(one.id, spread[1].id, 1) is None
    assert control.claim(other.id, spread[1].id, 2) is not None
