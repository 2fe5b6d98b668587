"""What experiments stand on: the store, the devices held from the first run to the last, the state of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from assay.clock import SYSTEM_CLOCK, Clock
from assay.hardware.environment import UsageSample, environment, machine_state
from assay.hardware.fitness.devices import occupied
from assay.hardware.fitness.lock import HeldLock, device_lock, mode_from
from assay.hardware.fitness.session import Fitness
from assay.place.needs import device_of
from assay.plan.job import Job
from assay.report.live import SilentView, View
from assay.run.scratch import sweep_abandoned
from assay.store.location import cache_folder, store_folder
from assay.store.store import Store


@dataclass(slots=True)
class Ground:
    """What all experiments of one command share: the store, the held devices, whoever is told."""

    store: Store
    view: View
    clock: Clock
    held: HeldLock
    fitness: Fitness
    control: bool
    look: UsageSample = field(default_factory=UsageSample)


@contextmanager
def ground(
    jobs: Sequence[Job],
    purpose: str,
    *,
    store: str | Path | None = None,
    view: View | None = None,
    clock: Clock = SYSTEM_CLOCK,
    lock: str | None = None,
    control: bool = True,
) -> Iterator[Ground]:
    """Hold the devices of some jobs and the store, for as long as experiments with them go on.

    Args:
        jobs: whose devices nobody else may use meanwhile.
        store: folder that results are kept in; the user's own by default.
    """
    mode, told = mode_from(lock), view or SilentView()
    sweep_abandoned()
    kept = Store(store_folder(store))
    try:
        devices = {device for job in jobs for device in occupied(job)}
        with device_lock(devices, purpose, mode, told.waiting) as held:
            yield Ground(kept, told, clock, held, Fitness(cache_folder()), control)
    finally:
        told.close()
        kept.close()


def states(jobs: Sequence[Job], on: Ground, *, before: bool) -> list[dict[str, JsonValue]]:
    """The environment of each job before its runs, or the state after them; the machine is read once for both."""
    state = machine_state(on.look if before else None)
    read = on.fitness.before if before else on.fitness.after
    known: dict[tuple[str | None, bool], dict[str, JsonValue]] = {}
    found: list[dict[str, JsonValue]] = []
    for job in jobs:
        asked = (device_of(job), on.control and job.definition.measure.control)
        if asked not in known:
            known[asked] = read(*asked)
        whole: dict[str, JsonValue] = {**state, "fitness": known[asked]}
        found.append(environment(Path(job.base)) | {"lock": on.held.record(), "before": whole} if before else whole)
    on.look = UsageSample()
    return found
