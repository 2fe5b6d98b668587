"""The control plane loses nothing: a state machine test against a model, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import os
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from assay.place.leasing import LeasePolicy
from assay.place.needs import Profile
from assay.plan.lifecycle import FINAL
from assay.plan.plan import make_plan
from assay.spec.load import load
from assay.store.control import Control
from assay.store.store import Store


class FakeClock:
    """A clock that only moves when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic_s(self) -> float:
        return self.now.timestamp()

    def utc(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


POLICY = LeasePolicy(lease_s=60, tries=3)
HERE = Profile("here", "linux", 4, 8 * 2**30, {"onnxruntime": "1"}, {"onnxruntime": {"cpu": "CPU"}})
SMALL = Profile("small", "linux", 1, 2**30, {}, {})


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def database(request, tmp_path):
    """A fresh database of each kind that is supported."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'assay.db'}"
    return request.getfixturevalue("postgresql")()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(database, tmp_path):
    opened = Store(tmp_path / "store", url=database)
    yield opened
    opened.close()


@pytest.fixture
def control(store, clock):
    return Control(store.engine, clock, POLICY, seed=1)


def submit(store, clock, *, batches=(1, 2), name="c", priority=0, **more):
    document = {"benchmark": name, "target": {"model": "m"}, "matrix": {"workload.batch": list(batches)}, **more}
    plan = make_plan(load(document), lambda _: {})
    return store.submit_to_fleet(plan, document, {}, clock, priority=priority)


def deliver(control, lease, **more):
    return control.deliver(lease.job.id, lease.fence, lease.agent, event="finish", verdict="valid", result="{}", **more)


def test_a_job_goes_out_once_and_its_result_counts_once(store, control, clock):
    submit(store, clock, batches=(1,))
    agent, done = control.enroll("device-1", "here", HERE)
    assert done == "created"
    lease = control.take(agent.id)
    assert lease is not None
    assert control.take(agent.id) is None
    assert deliver(control, lease) == "accepted"
    assert deliver(control, lease) == "repeated"
    assert [event.kind for event in control.history(lease.job.id)] == ["leased", "result accepted", "result repeated"]


def test_a_silent_agents_job_is_offered_again_and_its_late_result_is_evidence(store, control, clock):
    submit(store, clock, batches=(1,))
    first = control.enroll("device-1", "first", HERE)[0]
    second = control.enroll("device-2", "second", HERE)[0]
    lost = control.take(first.id)
    clock.pass_s(61)
    assert control.expire() == (lost.job.id,)
    assert control.take(second.id) is None  # back-off
    clock.pass_s(10)
    again = control.take(second.id)
    assert (again.job.id, again.fence) == (lost.job.id, 2)
    assert deliver(control, lost) == "late"
    assert deliver(control, again) == "accepted"
    assert control.evidence(lost.job.id) == (("late", 1),)


def test_heartbeats_keep_a_lease_and_tell_of_one_that_is_gone(store, control, clock):
    submit(store, clock, batches=(1,))
    agent = control.enroll("device-1", "here", HERE)[0]
    lease = control.take(agent.id)
    for _ in range(5):
        clock.pass_s(50)
        assert control.heartbeat(agent.id, "busy", [(lease.job.id, lease.fence)]) == ()
        assert control.expire() == ()
    control.cancel(lease.job.id)
    assert control.heartbeat(agent.id, "busy", [(lease.job.id, lease.fence)]) == ((lease.job.id, lease.fence),)
    assert deliver(control, lease) == "late"


def test_a_job_that_kills_its_agents_is_set_aside(store, control, clock):
    submit(store, clock, batches=(1,))
    agent = control.enroll("device-1", "here", HERE)[0]
    for _ in range(POLICY.tries):
        clock.pass_s(1000)
        lease = control.take(agent.id)
        assert lease is not None
        clock.pass_s(61)
        control.expire()
    clock.pass_s(1000)
    assert control.take(agent.id) is None
    assert store.campaign(lease.job.campaign)[1][0].state == "poisoned"
    assert control.history(lease.job.id)[-1].kind == "set aside as poisoned"


def test_an_agent_only_gets_what_it_can_do(store, control, clock):
    submit(store, clock, batches=(1,), needs={"memory": "4GiB"})
    small = control.enroll("device-1", "small", SMALL)[0]
    large = control.enroll("device-2", "here", HERE)[0]
    assert control.take(small.id) is None
    assert control.take(large.id) is not None


def test_priority_first_then_the_campaign_that_was_served_least(store, control, clock):
    submit(store, clock, name="a", batches=(1, 2, 3))
    clock.pass_s(1)
    submit(store, clock, name="b", batches=(1, 2, 3))
    clock.pass_s(1)
    submit(store, clock, name="urgent", batches=(1,), priority=5)
    agent = control.enroll("device-1", "here", HERE)[0]
    order = [control.take(agent.id).job.benchmark for _ in range(5)]
    assert order == ["urgent", "a", "b", "a", "b"]


def test_a_draining_agent_gets_nothing_new(store, control, clock):
    submit(store, clock)
    agent = control.enroll("device-1", "here", HERE)[0]
    control.set_draining(agent.id, draining=True)
    assert control.take(agent.id) is None
    control.set_draining(agent.id, draining=False)
    assert control.take(agent.id) is not None


def test_silence_is_noticed_and_coming_back_is_too(control, clock):
    agent = control.enroll("device-1", "here", HERE)[0]
    clock.pass_s(70)
    assert control.mark_silent(60) == (agent.id,)
    assert control.agents()[0].state == "faulty"
    assert control.enroll("device-1", "new name", SMALL)[1] == "recovered"
    assert control.agents()[0].profile == SMALL
    assert len(control.agents()) == 1


def test_a_stranger_can_deliver_nothing(store, control, clock):
    submit(store, clock, batches=(1,))
    agent = control.enroll("device-1", "here", HERE)[0]
    lease = control.take(agent.id)
    assert control.deliver(lease.job.id, 1, "agent-x", event="finish", verdict=None, result="{}") == "unknown"
    assert control.deliver(lease.job.id, 9, agent.id, event="finish", verdict=None, result="{}") == "unknown"
    assert control.deliver("nothing", 1, agent.id, event="finish", verdict=None, result="{}") == "unknown"
    assert deliver(control, lease) == "accepted"


def test_many_agents_at_once_never_get_the_same_job(store, control, clock):
    """Eight threads take and deliver until nothing is left: every job goes out once, every result counts once."""
    submit(store, clock, batches=range(1, 41))
    agents = [control.enroll(f"device-{number}", f"agent {number}", HERE)[0] for number in range(8)]
    taken: list[tuple[str, int]] = []
    answers: list[str] = []

    def work(agent_id: str) -> None:
        while (lease := control.take(agent_id)) is not None:
            taken.append((lease.job.id, lease.fence))
            answers.append(deliver(control, lease))

    threads = [threading.Thread(target=work, args=(agent.id,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 40
    assert set(answers) == {"accepted"}
    campaign = store.campaigns()[0]
    assert (campaign.jobs, campaign.jobs_ended) == (40, 40)


class Life(RuleBasedStateMachine):
    """Agents that take, fall silent, come back late and deliver twice, in any order; against what must be true."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.store = Store(Path(self.folder.name))
        self.control = Control(self.store.engine, self.clock, POLICY, seed=0)
        self.agents = [self.control.enroll(f"device-{n}", f"agent {n}", HERE)[0].id for n in range(3)]
        self.jobs = [job.id for job in submit(self.store, self.clock, batches=(1, 2, 3)).jobs]
        self.accepted: dict[str, int] = {}
        self.cancelled: set[str] = set()

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def states(self) -> dict[str, str]:
        campaign = self.store.campaigns()[0].id
        return {one.job.id: one.state for one in self.store.campaign(campaign)[1]}

    def newest(self, lease) -> int:
        return max(event.detail["fence"] for event in self.control.history(lease.job.id) if event.kind == "leased")

    @rule(target=leases, agent=st.integers(0, 2))
    def take(self, agent):
        lease = self.control.take(self.agents[agent])
        return multiple() if lease is None else lease

    @rule(lease=leases)
    def deliver(self, lease):
        before = self.states()[lease.job.id]
        answer = deliver(self.control, lease)
        if answer == "accepted":
            assert before == "running"
            assert lease.job.id not in self.accepted
            assert lease.fence == self.newest(lease)
            self.accepted[lease.job.id] = lease.fence
        else:
            assert answer in ("late", "repeated")
            assert self.states()[lease.job.id] == before

    @rule(lease=leases)
    def heartbeat(self, lease):
        lost = self.control.heartbeat(lease.agent, "busy", [(lease.job.id, lease.fence)])
        mine = self.states()[lease.job.id] == "running" and self.newest(lease) == lease.fence
        assert (not lost) == mine

    @rule(seconds=st.sampled_from([30, 61]))
    def time_passes(self, seconds):
        self.clock.pass_s(seconds)
        self.control.expire()
        self.clock.pass_s(5)  # longer than the first waits, so that lost jobs soon go out again

    @rule(job=st.integers(0, 2))
    def cancel(self, job):
        before = self.states()[self.jobs[job]]
        after_ = self.control.cancel(self.jobs[job])
        assert after_ == (before if before in FINAL else "cancelled")
        if after_ == "cancelled":
            self.cancelled.add(self.jobs[job])

    @invariant()
    def every_result_counts_once_and_stays(self):
        states = self.states()
        assert {job for job, state in states.items() if state == "done"} == set(self.accepted)
        assert {job for job, state in states.items() if state == "cancelled"} == self.cancelled

    @invariant()
    def the_history_explains_every_state(self):
        for job, state in self.states().items():
            kinds = [event.kind for event in self.control.history(job)]
            told = [kind for kind in kinds if kind not in ("result late", "result repeated")]
            last = told[-1] if told else ""
            assert (
                last
                == {
                    "pending": last if last in ("", "lease expired") else None,
                    "running": "leased",
                    "done": "result accepted",
                    "cancelled": "cancelled",
                    "poisoned": "set aside as poisoned",
                }[state]
            )
            assert kinds.count("result accepted") == (state == "done")


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=int(os.environ.get("ASSAY_EXAMPLES", "40")), stateful_step_count=30, deadline=None
)
