"""A job on its devices: which they are, their lock, and the state of the machine before and after."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.clock import SYSTEM_CLOCK, Clock, iso
from assay.hardware.environment import UsageSample, environment, machine_state
from assay.hardware.fitness.control import FEWEST, VARIABLE, ControlHistory, Run, is_off, timed_control
from assay.hardware.fitness.lock import Mode, device_lock
from assay.hardware.fitness.sensors import gpus, heat, memory, processor, throttle_events
from assay.hardware.machine import machine_id
from assay.hardware.source import text_of
from assay.place.needs import device_of
from assay.plan.job import Job, is_part, point_key
from assay.spec.section import split_index
from assay.spec.target import CommandTarget, DeviceTarget, ModelTarget

if TYPE_CHECKING:
    from assay.hardware.gpu.nvml import GpuReader
    from assay.hardware.gpu.record import Gpu


CPU = "cpu"
# Through whichever of these a job reaches it, the chip is one.
_APPLE = {
    "mps": ("apple-gpu",),
    "coreml-gpu": ("apple-gpu",),
    "coreml-ane": ("apple-ane",),
    "coreml": ("apple-ane", "apple-gpu"),
}
_VISIBLE = {"nvidia": ("CUDA_VISIBLE_DEVICES",), "amd": ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")}


def _local() -> Sequence[Gpu]:
    from assay.hardware.gpu.detect import local_gpus  # here, as most jobs ask for no GPU

    return local_gpus().gpus


def occupied(
    job: Job, *, gpus: Callable[[], Sequence[Gpu]] = _local, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The devices that no other process may use while a job is measured, sorted.

    A model, or a device measured for itself, occupies that device alone. A program, a service or a client takes
    the processor, and as many GPUs as their needs name.

    Args:
        environment: variables of the job's processes; those of this process by default.
    """
    variables = os.environ if environment is None else environment
    definition, target = job.definition, job.definition.target
    device = device_of(job)
    devices = set(_of_device(device, gpus, variables)) if device else set()
    if definition.services or not isinstance(target, ModelTarget | DeviceTarget):
        devices.add(CPU)
    own = target.env if isinstance(target, CommandTarget) else {}
    parts = [
        (definition.needs.gpus, own),
        *((service.needs.gpus, service.env) for service in definition.services.values()),
    ]
    return tuple(sorted(devices | _by_number(parts, gpus, variables)))


def _of_device(device: str, gpus: Callable[[], Sequence[Gpu]], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of one device, such as `cuda:1`: usually one."""
    kind, index = split_index(device)
    if kind in (CPU, "openvino"):
        return (CPU,)
    if kind in _APPLE:
        return _APPLE[kind]
    if kind not in ("cuda", "tensorrt"):
        return (f"{kind}-{index}",)
    boards = gpus()
    seen = visible(boards, environment)
    if not _order_is_known(boards, environment):
        return tuple(seen)  # which of them has this number only the runtime knows
    return (seen[index],) if index < len(seen) else (f"cuda-{index}",)


def _by_number(
    parts: Sequence[tuple[int | None, Mapping[str, str]]],
    gpus: Callable[[], Sequence[Gpu]],
    environment: Mapping[str, str],
) -> set[str]:
    """The first GPUs that each part of a job sees, as many as it asks for.

    Parts that see the same ones are counted together, as none of them leaves the others' free.
    """
    counts: dict[tuple[str, ...], int] = {}
    for number, own in parts:
        if number:
            visible_gpus = visible(gpus(), {**environment, **own})
            counts[visible_gpus] = counts.get(visible_gpus, 0) + number
    return {name for visible_gpus, number in counts.items() for name in visible_gpus[:number]}


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the GPUs that a process with these variables sees, in its order.

    As CUDA does: an entry that names no GPU hides itself and all after it.
    """
    vendor = next((name for name in _VISIBLE if any(gpu.vendor == name for gpu in gpus)), "")
    boards = [gpu for gpu in gpus if gpu.vendor == vendor]
    text = next((environment[name] for name in _VISIBLE.get(vendor, ()) if name in environment), None)
    if text is None:
        return tuple(map(name_of, boards))
    names: list[str] = []
    for word in text.split(","):
        name = _named(word.strip(), boards)
        if not name:
            break
        names.append(name)
    return tuple(names)


def name_of(gpu: Gpu) -> str:
    """What every process calls a GPU: its UUID, else its place in the machine."""
    return gpu.uuid or gpu.pci or f"{gpu.vendor}-{gpu.index}"


def _named(word: str, boards: Sequence[Gpu]) -> str:
    """The GPU that an entry of CUDA_VISIBLE_DEVICES names; empty for none."""
    if word.startswith("MIG-"):
        return word  # a part of a board is a device of its own
    if word.isdigit():
        return next((name_of(gpu) for gpu in boards if gpu.index == int(word)), "")
    return next((name_of(gpu) for gpu in boards if word and gpu.uuid and gpu.uuid.startswith(word)), "")


def _order_is_known(boards: Sequence[Gpu], environment: Mapping[str, str]) -> bool:
    """Whether numbers mean the same to CUDA and to us: it counts the fastest first, we count along the bus."""
    alike = len({gpu.name for gpu in boards}) <= 1
    return alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


FOLDER = "fitness"
# A state that is older says nothing about the job that begins now.
_STILL_TRUE_S = 5.0
_CLOCK = "sys/devices/system/clocksource/clocksource0"
# Devices that are a board with its own driver; the activity of others is unknown.
_BOARDS = ("cuda", "tensorrt")


def fitness(
    device: str | None,
    control: bool,
    folder: Path | None = None,
    *,
    root: str | Path = "/",
    reader: GpuReader | None = None,
    run: Run = subprocess.run,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[str, JsonValue]:
    """Read the state of this machine: milliseconds, and a second more with the control workload.

    The device is None where the target decides by itself. ASSAY_CONTROL=off in the environment goes before `control`.
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
        if "gpu" in missing and device is None and reader is None:
            absent["gpu"] = _why_no_gpu(missing["gpu"])
        if boards:
            state["gpus"] = boards
    load = _load_average()
    timed, foreign_pct, missing = _control(control, folder, base, run, clock)
    absent |= missing
    state |= {"control": timed} if timed else {}
    state |= {"load": {**load, **foreign_pct}} if load or foreign_pct else {}
    return {**state, "absent": dict(absent)} if absent else state


def _control(
    enabled: bool, folder: Path | None, root: Path, run: Run, clock: Clock
) -> tuple[dict[str, JsonValue], dict[str, JsonValue], dict[str, str]]:
    """The control workload beside its history, what others did meanwhile, and what is missing."""
    if not enabled or is_off():
        why = f"{VARIABLE} is off" if enabled else "no control workload was asked for"
        return {}, {}, {"control": why}
    counted = throttle_events(root)
    timed, foreign_pct, reason = timed_control(run)
    if not timed:
        return {}, {}, {"control": reason}
    counted_after = throttle_events(root)
    if counted is not None and counted_after is not None:
        timed["throttle_events"] = counted_after - counted
    missing: dict[str, str] = {}
    if folder is None:
        return timed, foreign_pct, {"control history": "no folder is known that a history could be kept in"}
    history = ControlHistory(folder / FOLDER, machine_id(), int(str(timed["version"])))
    beside = history.against(timed)
    timed["history"] = beside
    entries = int(str(beside["entries"]))
    if entries < FEWEST:
        missing["control history"] = f"no history yet: {entries} of {FEWEST} entries"
    if problem := history.add({**timed, **foreign_pct}, iso(clock.utc())):
        missing["control history"] = problem
    return timed, foreign_pct, missing


def _clock_source(root: Path) -> tuple[dict[str, JsonValue], dict[str, str]]:
    source = text_of(root / _CLOCK / "current_clocksource")
    if not source:
        return {}, {"clock source": "the system does not show what it reads the time from"}
    return {"source": source, "available": list(text_of(root / _CLOCK / "available_clocksource").split())}, {}


def _why_no_gpu(reason: str) -> str:
    """NVML's own reason where the machine has a GPU, else that there is none."""
    from assay.hardware.gpu.detect import local_gpus

    detection = local_gpus()
    return reason if detection.gpus else detection.why_none()


def _load_average() -> dict[str, JsonValue]:
    try:
        return {"average_1m": round(os.getloadavg()[0], 2)}
    except (AttributeError, OSError):  # the first on Windows
        return {}


@cache
def nvml() -> GpuReader:
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
        """The state before a job: that after the job before it, where it is recent and has the same content."""
        if self._last is not None:
            since_s, of, timed, state = self._last
            if self._clock.monotonic_s() - since_s <= _STILL_TRUE_S and of == device and timed >= control:
                return {**state, "taken": "after the job before"}
        return self._read(device, control, self._folder)

    def after(self, device: str | None, control: bool) -> dict[str, JsonValue]:
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

    def __init__(self, mode: Mode, folder: Path | None, notify: Callable[[str], None], *, control: bool = True) -> None:
        self._mode = mode
        self._folder = folder
        self._notify = notify
        self._control = control
        self._fitness = Fitness(folder)

    @contextmanager
    def job(self, job: Job, label: str, look: UsageSample) -> Iterator[JobEnvironment]:
        """Hold the devices of a job from before the first look at the machine until its result is judged.

        Processes that wait for a device print the label, the job's name inside its benchmark.
        """
        purpose = f"{job.benchmark}, {label}" if job.point else job.benchmark
        load = f"{job.campaign} {point_key(job)}" if is_part(job.definition) else ""
        with device_lock(occupied(job), purpose, self._mode, self._notify, load=load) as held:
            if held.waited:  # until now the samples show the work of the previous holder
                look, self._fitness = UsageSample(), Fitness(self._folder)
            device, control = device_of(job), self._control and job.definition.measure.control
            facts: dict[str, JsonValue] = _around(job) | {"lock": held.record()}
            facts["before"] = machine_state(look) | {"fitness": self._fitness.before(device, control)}
            yield JobEnvironment(facts, lambda: {"fitness": self._fitness.after(device, control)} | machine_state())

    @staticmethod
    @contextmanager
    def refused(job: Job, look: UsageSample) -> Iterator[JobEnvironment]:
        """The environment of a job that this machine cannot take, without any wait for devices."""
        facts: dict[str, JsonValue] = _around(job)
        facts["before"] = machine_state(look)
        yield JobEnvironment(facts, machine_state)


def _around(job: Job) -> dict[str, JsonValue]:
    """This machine and its software, with the commit of the files that are measured, wherever they came from."""
    facts = environment(Path(job.base))
    return {**facts, "git": dict(job.git)} if job.git else facts
