"""The control plane loses nothing: a state machine against a model, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test
from sqlalchemy import text
from tests.unit.store.setups import POLICY, FakeClock, beat, deliver, enroll, kinds, submit

from assay.plan.job import FINAL
from assay.store.control import Control
from assay.store.listing import Listing
from assay.store.records import FleetSettings
from assay.store.store import Store

JOBS, AGENTS, SLOTS = 2, 2, 1
DEADLINE_S = 2000.0
# What a job's history may end with, for each state; results that do not count and the campaign's own lines say nothing.
EXPLAINS = {
    "pending": {"", "lease expired", "attempt crashed", "released", "retried"},
    "running": {"leased"},
    "done": {"result accepted"},
    "failed": {"result accepted", "deadline passed"},
    "cancelled": {"cancelled"},
    "poisoned": {"set aside as poisoned"},
}


class Life(RuleBasedStateMachine):
    """Agents that take, claim, fall silent, crash, come back late, deliver twice; people cancel and retry."""

    leases = Bundle("leases")

    def __init__(self, url: str | None = None) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.store = Store(Path(self.folder.name), url)
        if url:
            with self.store.engine.begin() as connection:
                connection.execute(text("TRUNCATE campaigns, agents, needs CASCADE"))
        self.control = Control(self.store.engine, self.clock, POLICY, seed=0)
        self.agents = [self.enrolled(number) for number in range(AGENTS)]
        deadline = self.clock.utc().timestamp() + DEADLINE_S
        made = submit(self.store, self.clock, batches=range(1, JOBS + 1), settings=FleetSettings(deadline=deadline))
        self.jobs = [job.id for job in made.jobs]
        self.campaign = made.jobs[0].campaign
        # The model: what must be true.
        self.accepted: dict[str, list[int]] = {job: [] for job in self.jobs}
        self.counts: dict[str, int] = dict.fromkeys(self.jobs, 0)  # results that count now
        self.given: set[tuple[str, int]] = set()

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def enrolled(self, number: int) -> str:
        return enroll(self.control, f"device-{number}", f"agent {number}", slots=SLOTS).id

    def states(self) -> dict[str, str]:
        return {one.job.id: one.state for one in self.store.campaign(self.campaign)[1]}

    def newest(self, job: str) -> int:
        return max((one.fence for one in self.control.attempts(job)), default=0)

    def holds(self, lease) -> bool:
        return (
            self.states()[lease.job.id] == "running"
            and self.newest(lease.job.id) == lease.fence
            and self.control.attempts(lease.job.id)[-1].state == "leased"
        )

    def note(self, lease):
        if lease is None:
            return multiple()
        assert (lease.job.id, lease.fence) not in self.given, "the same lease was given twice"
        self.given.add((lease.job.id, lease.fence))
        return lease

    @rule(target=leases, agent=st.integers(0, AGENTS - 1))
    def take(self, agent):
        return self.note(self.control.take(self.agents[agent]))

    @rule(target=leases, agent=st.integers(0, AGENTS - 1), job=st.integers(0, JOBS - 1), further=st.integers(-1, 2))
    def claim(self, agent, job, further):
        job = self.jobs[job]
        before, newest = self.states()[job], self.newest(job)
        offered = {offer.job: offer.fence for offer in self.control.offers()}
        assert all(fence == self.newest(one) for one, fence in offered.items())
        lease = self.control.claim(self.agents[agent], job, newest + further)
        if before == "running":  # only who holds it may ask again
            assert lease is None or (further == 0 and (job, lease.fence) in self.given)
            return multiple()
        assert lease is None or (job in offered and further > 0 and lease.fence == newest + further)
        return self.note(lease)

    @rule(target=leases, agent=st.integers(0, AGENTS - 1), failed=st.booleans())
    def measure(self, agent, failed):
        """The usual way: take and deliver."""
        lease = self.control.take(self.agents[agent])
        if lease is None:
            return multiple()
        self.note(lease)
        self.deliver_it(lease, failed)
        return lease

    @rule(lease=leases, failed=st.booleans())
    def deliver(self, lease, failed):
        self.deliver_it(lease, failed)

    def deliver_it(self, lease, failed):
        before, holds = self.states()[lease.job.id], self.holds(lease)
        answer = deliver(self.control, lease, event="fail" if failed else "finish")
        assert (answer == "accepted") == holds
        if answer == "accepted":
            assert lease.fence not in self.accepted[lease.job.id]
            self.accepted[lease.job.id].append(lease.fence)
            self.counts[lease.job.id] += 1
            assert self.states()[lease.job.id] == ("failed" if failed else "done")
        else:
            assert answer == ("repeated" if lease.fence in self.accepted[lease.job.id] else "late")
            assert self.states()[lease.job.id] == before

    @rule(lease=leases, crashed=st.booleans())
    def release(self, lease, crashed):
        holds = self.holds(lease)
        assert self.control.release(lease.job.id, lease.fence, lease.agent, "test", crashed=crashed) == holds
        if holds:
            assert self.states()[lease.job.id] in (("pending", "poisoned") if crashed else ("pending",))

    @rule(lease=leases)
    def heartbeat(self, lease):
        if lease.agent not in {one.id for one in self.control.agents()}:
            return
        answer = beat(self.control, lease.agent, (lease.job.id, lease.fence))
        assert (not answer.lost) == self.holds(lease)

    @rule(seconds=st.sampled_from([30, 61, 700]))
    def time_passes(self, seconds):
        self.clock.pass_s(seconds)
        self.control.expire()
        self.control.enforce_deadlines()
        self.clock.pass_s(5)  # longer than the first waits, so that lost jobs soon go out again

    @rule(job=st.integers(0, JOBS - 1))
    def cancel(self, job):
        before = self.states()[self.jobs[job]]
        assert self.control.cancel(self.jobs[job]) == (before if before in FINAL else "cancelled")

    @rule()
    def retry_all(self):
        ended = {job for job, state in self.states().items() if state in ("failed", "cancelled", "poisoned")}
        assert set(self.control.retry_campaign(self.campaign)) == ended
        self.counts |= dict.fromkeys(ended, 0)

    @rule(job=st.integers(0, JOBS - 1))
    def retry(self, job):
        before = self.states()[self.jobs[job]]
        outcome = self.control.batch("retry", [self.jobs[job]])[self.jobs[job]]
        assert outcome.changed == (before in ("failed", "cancelled", "poisoned"))
        if outcome.changed:
            self.counts[self.jobs[job]] = 0

    @rule(agent=st.integers(0, AGENTS - 1))
    def remove_and_return(self, agent):
        held = self.control.agent(self.agents[agent]).jobs
        assert self.control.remove_agent(self.agents[agent]) == held
        assert all(self.states()[job] == "pending" for job in held)
        assert self.enrolled(agent) == self.agents[agent]

    @rule()
    def settle(self):
        self.control.settle_campaigns()
        over = all(state in FINAL for state in self.states().values())
        assert (Listing(self.store.engine).campaign(self.campaign).state == "running") == (not over)

    @invariant()
    def every_result_counts_once_and_stays(self):
        for job, state in self.states().items():
            counted = self.counts[job]
            assert counted <= 1
            if state == "done":
                assert counted == 1
            if state in ("pending", "running", "cancelled", "poisoned"):
                assert counted == 0
            assert (Listing(self.store.engine).job(job).result is not None) == (counted == 1)

    @invariant()
    def no_result_is_lost(self):
        for job in self.jobs:
            told = kinds(self.control, job)
            delivered = sum(told.count(f"result {word}") for word in ("accepted", "late", "repeated"))
            assert delivered == len(self.control.evidence(job)) + self.counts[job]

    @invariant()
    def the_history_explains_every_state(self):
        passing = {"submitted", "result late", "result repeated", "run began", "campaign settled", "campaign reopened"}
        for job, state in self.states().items():
            told = ["", *(kind for kind in kinds(self.control, job) if kind not in passing)]
            assert told[-1] in EXPLAINS[state]
            assert told.count("result accepted") == len(self.accepted[job])

    @invariant()
    def nobody_holds_too_much_and_every_running_job_has_one_lease(self):
        for one in self.control.agents():
            assert len(one.jobs) <= SLOTS
        for job, state in self.states().items():
            open_leases = [attempt for attempt in self.control.attempts(job) if attempt.state == "leased"]
            assert len(open_leases) == (state == "running")


EXAMPLES = int(os.environ.get("ASSAY_EXAMPLES", "40"))

TestLife = Life.TestCase
TestLife.settings = settings(max_examples=EXAMPLES, stateful_step_count=30)


@pytest.mark.live
def test_the_same_life_on_postgresql(postgresql):
    url = postgresql.migrated()
    few = settings(max_examples=max(5, EXAMPLES // 5), stateful_step_count=25)
    run_state_machine_as_test(lambda: Life(url), settings=few)
