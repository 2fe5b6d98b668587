"""A job on its devices: their lock, and the state of the machine before and after."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import JsonValue

from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.hardware.environment import UsageSample, environment, machine_state
from assay.hardware.fitness.control import FEWEST, VARIABLE, ControlHistory, Run, is_off, timed_control
from assay.hardware.fitness.devices import occupied
from assay.hardware.fitness.gpus import GpuStateReader, gpus
from assay.hardware.fitness.lock import Mode, device_lock
from assay.hardware.fitness.sensors import heat, memory, processor, text_of, throttle_events
from assay.hardware.machine import machine_id
from assay.place.needs import device_of
from assay.plan.job import Job, is_part, point_key
from assay.spec.devices import split_index

FOLDER = "fitness"
# A state that is older says nothing about the job that begins now.
_STILL_TRUE_S = 5.0
_CLOCK = "sys/devices/system/clocksource/clocksource0"
# Devices that are a board with its own driver; what others do nobody tells.
_BOARDS = ("cuda", "tensorrt")


def fitness(
    device: str | None,
    control: bool,
    folder: Path | None = None,
    *,
    root: str | Path = "/",
    reader: GpuStateReader | None = None,
    run: Run = subprocess.run,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[str, JsonValue]:
    """Read the state of this machine: milliseconds, and a second more with the control workload.

    Args:
        device: The device of the job, such as `cpu` or `cuda:1`; None where the target decides by itself.
        control: Whether to time the control workload; ASSAY_CONTROL=off in the environment wins.
    """
    base = Path(root)
    state: dict[str, JsonValue] = {"at": iso(clock.utc())}
    absent: dict[str, str] = {}
    if device is not None:
        state["device"] = device
    parts = {"processor": processor(base), "heat": heat(base), "memory": memory(base), "clock": _clock_source(base)}
    for name, (facts, missing) in parts.items():
        absent |= missing
        if facts:
            state[name] = facts
    if device is None or split_index(device)[0] in _BOARDS:
        boards, missing = gpus(device, reader or nvml())
        absent |= missing
        if boards:
            state["gpus"] = boards
    load = _load_average()
    timed, others, missing = _control(control, folder, base, run, clock)
    absent |= missing
    state |= {"control": timed} if timed else {}
    state |= {"load": {**load, **others}} if load or others else {}
    return {**state, "absent": dict(absent)} if absent else state


def _control(
    wanted: bool, folder: Path | None, root: Path, run: Run, clock: Clock
) -> tuple[dict[str, JsonValue], dict[str, JsonValue], dict[str, str]]:
    """The control workload beside its history, what others did meanwhile, and what is missing."""
    if not wanted or is_off():
        why = f"{VARIABLE} is off" if wanted else "no control workload was asked for"
        return {}, {}, {"control": why}
    counted = throttle_events(root)
    timed, others, reason = timed_control(run)
    if not timed:
        return {}, {}, {"control": reason}
    counted_after = throttle_events(root)
    if counted is not None and counted_after is not None:
        timed["throttle_events"] = counted_after - counted
    missing: dict[str, str] = {}
    if folder is None:
        return timed, others, {"control history": "no folder is known that a history could be kept in"}
    history = ControlHistory(folder / FOLDER, machine_id(), int(str(timed["version"])))
    beside = history.against(timed)
    timed["history"] = beside
    entries = int(str(beside["entries"]))
    if entries < FEWEST:
        missing["control history"] = f"no history yet: {entries} of {FEWEST} entries"
    if problem := history.add({**timed, **others}, iso(clock.utc())):
        missing["control history"] = problem
    return timed, others, missing


def _clock_source(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    source = text_of(root / _CLOCK / "current_clocksource")
    if not source:
        return {}, {"clock source": "the system does not show what it reads the time from"}
    return {"source": source, "available": list(text_of(root / _CLOCK / "available_clocksource").split())}, {}


def _load_average() -> dict[str, JsonValue]:
    try:
        return {"average_1m": round(os.getloadavg()[0], 2)}
    except (AttributeError, OSError):  # the first on Windows
        return {}


@cache
def nvml() -> GpuStateReader:
    """The boards through NVML, opened once in a process."""
    from assay.hardware.gpu.nvml import GpuReader  # here, as most jobs have no GPU

    return GpuReader()


class Fitness:
    """The states before and after each job of a campaign; what was just read is not read again."""

    def __init__(
        self,
        folder: Path | None,
        *,
        read: Callable[[str | None, bool, Path | None], dict[str, JsonValue]] = fitness,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._folder = folder
        self._read = read
        self._clock = clock
        self._last: tuple[float, str | None, bool, dict[str, JsonValue]] | None = None

    def before(self, device: str | None, control: bool) -> dict[str, JsonValue]:
        """The state before a job: that after the job before it, where it is young and told the same."""
        if self._last is not None:
            since_s, of, timed, state = self._last
            if self._clock.monotonic_s() - since_s <= _STILL_TRUE_S and of == device and timed >= control:
                return {**state, "taken": "after the job before"}
        return self._read(device, control, self._folder)

    def after(self, device: str | None, control: bool) -> dict[str, JsonValue]:
        """The state after a job."""
        state = self._read(device, control, self._folder)
        self._last = (self._clock.monotonic_s(), device, control, state)
        return state


@dataclass(slots=True)
class JobEnvironment:
    """The environment record of a job while it grows."""

    facts: dict[str, JsonValue]
    _state_after: Callable[[], dict[str, JsonValue]] = field(repr=False)

    def ended(self) -> dict[str, JsonValue]:
        """The whole record, once the last run has ended."""
        self.facts["after"] = self._state_after()
        return self.facts


class DeviceSession:
    """Holds the devices of one job after the other, and looks at the machine before and after each."""

    def __init__(self, mode: Mode, folder: Path | None, tell: Callable[[str], None], *, control: bool = True) -> None:
        self._mode = mode
        self._folder = folder
        self._tell = tell
        self._control = control
        self._fitness = Fitness(folder)

    @contextmanager
    def job(self, job: Job, label: str, look: UsageSample) -> Iterator[JobEnvironment]:
        """Hold the devices of a job from before the first look at the machine until its result is judged.

        Args:
            label: its name inside its benchmark, for whoever waits for it.
            look: at other processes, begun a moment ago.
        """
        purpose = f"{job.benchmark}, {label}" if job.point else job.benchmark
        load = f"{job.campaign} {point_key(job)}" if is_part(job.definition) else ""
        with device_lock(occupied(job), purpose, self._mode, self._tell, load=load) as held:
            if held.waited:  # what was seen until now was the work of whoever had the device
                look, self._fitness = UsageSample(), Fitness(self._folder)
            device, control = device_of(job), self._control and job.definition.measure.control
            facts: dict[str, JsonValue] = _around(job) | {"lock": held.record()}
            facts["before"] = machine_state(look) | {"fitness": self._fitness.before(device, control)}
            yield JobEnvironment(facts, lambda: {"fitness": self._fitness.after(device, control)} | machine_state())

    @staticmethod
    @contextmanager
    def refused(job: Job, look: UsageSample) -> Iterator[JobEnvironment]:
        """The surrounding of a job that this machine cannot take: nobody is made to wait for it."""
        facts: dict[str, JsonValue] = _around(job)
        facts["before"] = machine_state(look)
        yield JobEnvironment(facts, machine_state)


def _around(job: Job) -> dict[str, JsonValue]:
    """This machine and its software, with the commit of the files that are measured, wherever they came from."""
    facts = environment(Path(job.base))
    return {**facts, "git": dict(job.git)} if job.git else facts
