"""Many who do everything at once: nobody waits for somebody who waits for him, and the records stay whole."""

from __future__ import annotations

import random
import threading

import pytest
from tests.unit.store.setups import POLICY, beat, deliver, enroll, submit

from assay.errors import UsageError
from assay.plan.job import FINAL
from assay.store.control import Control
from assay.store.listing import JobFilter, Listing
from assay.store.records import FleetSettings

WORKERS, STEPS, AGENTS = 6, 40, 4


class Worker:
    """Does things in a random order that is the same every time."""

    def __init__(self, number, store, clock, campaigns):
        self.random = random.Random(number)
        self.control = Control(store.engine, clock, POLICY, seed=number)
        self.store, self.clock, self.campaigns = store, clock, campaigns
        self.leases = []
        self.accepted = []
        self.problems = []

    def run(self):
        deeds = (
            self.take,
            self.take,
            self.take,
            self.deliver,
            self.deliver,
            self.beat,
            self.release,
            self.sweep,
            self.cancel,
            self.retry,
            self.batch,
            self.remove,
            self.look,
        )
        for _ in range(STEPS):
            try:
                self.random.choice(deeds)()
            except UsageError:
                pass  # somebody else was faster
            except Exception as problem:
                self.problems.append(problem)

    def agent(self):
        return enroll(self.control, f"device-{self.random.randrange(AGENTS)}", slots=5).id

    def take(self):
        lease = self.control.take(self.agent())
        self.leases += [lease] if lease else []

    def deliver(self):
        if self.leases:
            lease = self.random.choice(self.leases)
            event = self.random.choice(["finish", "fail"])
            if deliver(self.control, lease, event=event) == "accepted":
                self.accepted.append((lease.job.id, lease.fence))

    def beat(self):
        held = sorted({(lease.job.id, lease.fence) for lease in self.leases[-5:]}, reverse=True)
        beat(self.control, self.agent(), *held)

    def release(self):
        if self.leases:
            lease = self.random.choice(self.leases)
            self.control.release(lease.job.id, lease.fence, lease.agent, "", crashed=self.random.random() < 0.5)

    def sweep(self):
        self.control.expire()
        self.control.enforce_deadlines()
        self.control.fail_unplaceable()
        self.control.settle_campaigns()

    def cancel(self):
        if self.random.random() < 0.3:
            self.control.cancel_campaign(self.random.choice(self.campaigns))

    def retry(self):
        self.control.retry_campaign(self.random.choice(self.campaigns))

    def batch(self):
        jobs = [one.id for one in Listing(self.store.engine).jobs(limit=10).items]
        self.random.shuffle(jobs)
        self.control.batch(self.random.choice(["cancel", "retry"]), jobs)

    def remove(self):
        self.control.remove_agent(self.agent())

    def look(self):
        self.control.placement(self.random.choice(self.campaigns))
        Listing(self.store.engine).campaigns()
        self.control.events_after(0)


@pytest.mark.parametrize("seed", [0, 100])
def test_everything_at_once(fleet, control, clock, seed):
    kinds = ("any", "spread", "pack")
    campaigns = [
        submit(fleet, clock, name=kind, batches=range(1, 13), settings=FleetSettings(spread=kind)).jobs[0].campaign
        for kind in kinds
    ]
    workers = [Worker(seed + number, fleet, clock, campaigns) for number in range(WORKERS)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [problem for worker in workers for problem in worker.problems] == []
    accepted = [one for worker in workers for one in worker.accepted]
    assert len(accepted) == len(set(accepted))
    check_records(fleet, control, campaigns, accepted)


def check_records(fleet, control, campaigns, accepted):
    listing = Listing(fleet.engine)
    jobs = [one for campaign in campaigns for one in listing.jobs(JobFilter(campaign=campaign)).items]
    for job in jobs:
        told = [event.kind for event in control.history(job.id)]
        assert told.count("result accepted") == sum(one == job.id for one, _ in accepted)
        delivered = sum(told.count(f"result {word}") for word in ("accepted", "late", "repeated"))
        counted = listing.job(job.id).result is not None
        assert delivered == len(control.evidence(job.id)) + counted
        leased = [attempt for attempt in control.attempts(job.id) if attempt.state == "leased"]
        assert len(leased) == (job.state == "running")
    control.settle_campaigns()
    for campaign in campaigns:
        over = all(job.state in FINAL for job in jobs if job.campaign == campaign)
        assert (listing.campaign(campaign).state != "running") == over
