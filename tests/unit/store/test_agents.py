from __future__ import annotations

import threading

import pytest
from tests.unit.store.setups import HERE, SMALL, beat, deliver, enroll, kinds, submit

from assay.errors import UsageError
from assay.place.fleet.protocol import Enrolment


def test_enrolling_again_refreshes_and_keeps_what_the_server_gave(control, clock):
    agent, action = control.enroll(Enrolment("device-1", "here", HERE, {"serial": 7}, "http://here", "1.0", 2))
    assert action == "created"
    assert (agent.address, agent.version, agent.slots, agent.healthy) == ("http://here", "1.0", 2, True)
    control.patch_agent(agent.id, labels={"rack": "7"}, draining=True)
    again, action = control.enroll(Enrolment("device-1", "new name", SMALL))
    assert (action, again.id, again.name) == ("updated", agent.id, "new name")
    assert (again.labels, again.draining, again.slots) == ({"rack": "7"}, True, 1)
    assert (again.profile.name, again.profile.id, again.profile.labels) == ("new name", agent.id, {"rack": "7"})
    assert len(control.agents()) == 1


def test_equal_machines_are_two_agents(control):
    assert enroll(control, "device-1").id != enroll(control, "device-2").id
    assert [one.name for one in control.agents()] == ["here", "here"]


def test_one_device_that_enrols_many_times_at_once_is_one_agent(control):
    done: list[str] = []
    threads = [
        threading.Thread(target=lambda: done.append(control.enroll(Enrolment("device-1", "here", HERE))[1]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["created", *["updated"] * 7]


def test_silence_is_noticed_and_coming_back_is_too(control, clock):
    agent = enroll(control)
    clock.pass_s(70)
    assert control.mark_silent(60) == (agent.id,)
    assert control.mark_silent(60) == ()
    found = control.agent(agent.id)
    assert (found.state, found.healthy, found.note) == ("faulty", False, "no heartbeat for 60 s")
    assert control.agents(state="active") == ()
    beat(control, agent.id, state="active")
    assert control.agent(agent.id).healthy
    clock.pass_s(70)
    control.mark_silent(60)
    assert control.enroll(Enrolment("device-1", "here", HERE))[1] == "recovered"


def test_a_faulty_agent_says_why_gets_nothing_and_can_be_reset(fleet, control, clock):
    submit(fleet, clock)
    agent = enroll(control)
    beat(control, agent.id, state="faulty", note="the disk is full")
    assert control.agent(agent.id).note == "the disk is full"
    assert control.take(agent.id) is None
    control.reset_agent(agent.id)
    assert control.agent(agent.id).note == ""
    assert control.take(agent.id) is not None


def test_a_draining_agent_finishes_and_gets_nothing_new(fleet, control, clock):
    submit(fleet, clock)
    agent = enroll(control, slots=2)
    lease = control.take(agent.id)
    control.patch_agent(agent.id, draining=True)
    assert control.take(agent.id) is None
    answer = beat(control, agent.id, (lease.job.id, lease.fence))
    assert (answer.draining, answer.lost) == (True, ())
    assert deliver(control, lease) == "accepted"
    control.patch_agent(agent.id, draining=False)
    assert control.take(agent.id) is not None


def test_a_removed_agents_jobs_go_to_others_at_once(fleet, control, clock):
    submit(fleet, clock, batches=(1,))
    gone, other = enroll(control, "1", "gone"), enroll(control, "2", "other")
    lease = control.take(gone.id)
    assert control.agent(gone.id).jobs == (lease.job.id,)
    assert control.remove_agent(gone.id, by="anna") == (lease.job.id,)
    assert kinds(control, lease.job.id)[-1] == "released"
    assert control.history(lease.job.id)[-1].detail["by"] == "anna"
    again = control.take(other.id)
    assert (again.job.id, again.fence) == (lease.job.id, 2)
    assert deliver(control, lease) == "late"
    for ask in (control.take, control.agent, control.remove_agent, control.reset_agent, control.suitable):
        with pytest.raises(UsageError) as caught:
            ask(gone.id)
        assert caught.value.problem.code == "unknown-agent"
    with pytest.raises(UsageError):
        beat(control, gone.id)


def test_labels_given_on_the_server_decide_what_an_agent_gets(fleet, control, clock):
    submit(fleet, clock, batches=(1,), needs={"labels": {"rack": "7"}})
    agent = enroll(control)
    assert control.take(agent.id) is None
    control.patch_agent(agent.id, labels={"rack": "7"})
    assert control.take(agent.id) is not None


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_job_can_be_pinned_to_an_agent(fleet, control, clock, by):
    wanted, other = enroll(control, "1", "wanted"), enroll(control, "2", "other")
    submit(fleet, clock, batches=(1,), needs={"agent": getattr(wanted, by)})
    assert control.take(other.id) is None
    assert control.take(wanted.id) is not None


def test_pages_of_agents(control):
    for number in range(7):
        enroll(control, f"device-{number}", f"agent {number % 3}")
    names, cursor = [], None
    while True:
        page = control.agent_page(cursor, limit=3)
        names += [(one.name, one.id) for one in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert len(set(names)) == 7
    assert names == sorted(names)
    with pytest.raises(UsageError, match="cursor"):
        control.agent_page("nonsense")
