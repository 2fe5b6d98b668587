"""What lies around the runs of a job: the lock of its devices, and the state of the machine before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from assay.hardware.environment import Look, environment, machine_state
from assay.hardware.fitness.devices import occupied
from assay.hardware.fitness.lock import Mode, device_lock
from assay.hardware.fitness.state import Fitness
from assay.place.needs import device_of
from assay.plan.job import Job
from assay.plan.parts import is_part, point_key


@dataclass(slots=True)
class Surrounding:
    """The environment record of a job while it grows."""

    facts: dict[str, JsonValue]
    _state_after: Callable[[], dict[str, JsonValue]] = field(repr=False)

    def ended(self) -> dict[str, JsonValue]:
        """The whole record, once the last run has ended."""
        self.facts["after"] = self._state_after()
        return self.facts


class Around:
    """Holds the devices of one job after the other, and looks at the machine before and after each."""

    def __init__(self, mode: Mode, folder: Path | None, tell: Callable[[str], None], *, control: bool = True) -> None:
        self._mode = mode
        self._folder = folder
        self._tell = tell
        self._control = control
        self._fitness = Fitness(folder)

    @contextmanager
    def job(self, job: Job, label: str, look: Look) -> Iterator[Surrounding]:
        """Hold the devices of a job from before the first look at the machine until its result is judged.

        Args:
            label: its name inside its benchmark, for whoever waits for it.
            look: at other processes, begun a moment ago.
        """
        purpose = f"{job.benchmark}, {label}" if job.point else job.benchmark
        load = f"{job.campaign} {point_key(job)}" if is_part(job.definition) else ""
        with device_lock(occupied(job), purpose, self._mode, self._tell, load=load) as held:
            if held.waited:  # what was seen until now was the work of whoever had the device
                look, self._fitness = Look(), Fitness(self._folder)
            device, control = device_of(job), self._control and job.definition.measure.control
            facts: dict[str, JsonValue] = _around(job) | {"lock": held.record()}
            facts["before"] = machine_state(look) | {"fitness": self._fitness.before(device, control)}
            yield Surrounding(facts, lambda: {"fitness": self._fitness.after(device, control)} | machine_state())

    @staticmethod
    @contextmanager
    def refused(job: Job, look: Look) -> Iterator[Surrounding]:
        """The surrounding of a job that this machine cannot take: nobody is made to wait for it."""
        facts: dict[str, JsonValue] = _around(job)
        facts["before"] = machine_state(look)
        yield Surrounding(facts, machine_state)


def _around(job: Job) -> dict[str, JsonValue]:
    """This machine and its software, with the commit of the files that are measured, wherever they came from."""
    facts = environment(Path(job.base))
    return {**facts, "git": dict(job.git)} if job.git else facts
