"""What the tests of the store share: a clock that stands still, a machine, a campaign."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from assay.place.fleet.protocol import Enrolment, Heartbeat, Held
from assay.place.leasing import LeasePolicy
from assay.place.needs import Profile
from assay.plan.plan import make_plan
from assay.spec.load import load
from assay.store.records import FleetSettings

POLICY = LeasePolicy(lease_s=60, tries=3)
HERE = Profile("here", "linux", 4, 8 * 2**30, {"onnxruntime": "1"}, {"onnxruntime": {"cpu": "CPU"}})
SMALL = Profile("small", "linux", 1, 2**30, {}, {})
GPU = Profile("gpu", "linux", 8, 2**36, {"onnxruntime": "1"}, {"onnxruntime": {"cpu": "CPU", "cuda": "CUDA"}}, gpus=2)


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


def plan(batches=(1, 2), name="c", **more):
    document = {"benchmark": name, "target": {"model": "m"}, "matrix": {"workload.batch": list(batches)}, **more}
    return make_plan(load(document), lambda _: {})


def submit(store, clock, *, batches=(1, 2), name="c", settings=None, labels=None, **more):
    return store.submit_to_fleet(
        plan(batches, name, **more),
        {"benchmark": name},
        labels or {},
        clock,
        settings=settings or FleetSettings(),
        label_of=lambda job: f"batch {job.definition.workload.batch}",
    )


def enroll(control, identity="device-1", name="here", profile=HERE, **more):
    return control.enroll(Enrolment(identity, name, profile, **more))[0]


def beat(control, agent, *held, state="busy", note=""):
    return control.heartbeat(agent, Heartbeat(state, tuple(Held(*one) for one in held), note))


def deliver(control, lease, *, event="finish", verdict="valid", result="{}", **more):
    return control.deliver(lease.job.id, lease.fence, lease.agent, event=event, verdict=verdict, result=result, **more)


def states(store, campaign):
    return {one.job.id: one.state for one in store.campaign(campaign)[1]}


def kinds(control, job):
    return [event.kind for event in control.history(job)]
