"""Needs against a machine's profile: yes, or what is missing, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.plan.job import Job, is_part
from assay.spec.paths import programs_in_words
from assay.spec.target import DeviceTarget, LibraryTarget, ModelTarget
from assay.units import show_bytes


@dataclass(frozen=True, slots=True)
class Profile:
    """What a machine offers."""

    name: str
    os: str  # linux | macos | windows
    cpus: int
    memory_bytes: int
    runtimes: Mapping[str, str]  # runtime → version, each tried
    devices: Mapping[str, Mapping[str, str]]  # runtime → device → what proves it; a runtime left out proves its own
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    id: str = ""  # what the server calls it; jobs may be pinned to this as well as to its name
    commands: bool = True  # whether it runs programs that a benchmark names; an agent only with --allow command
    takes_jobs: bool = True  # False for a worker of SARK: it is known and never asks for a job


def missing(job: Job, profile: Profile) -> tuple[str, ...]:
    """What the machine lacks for a job; empty when it can take it."""
    if not profile.takes_jobs:
        return (
            f"{profile.name} is a worker of SARK, which gets no jobs from this server; run `assay agent start` there",
        )
    needs = job.definition.needs
    runtime, device = runtime_of(job), device_of(job)
    lacks = []
    if runtime and runtime not in profile.runtimes:
        offered = ", ".join(profile.runtimes) or "no runtime"
        lacks.append(f"the runtime {runtime} is needed, {profile.name} has {offered}")
    proven = profile.devices.get(runtime or "")
    if device and proven is not None and device.partition(":")[0] not in proven:
        offered = ", ".join(f"{name} ({proof})" for name, proof in proven.items()) or "no device"
        lacks.append(f"the device {device} is needed, {profile.name} has {offered}")
    programs = programs_in_words(job.definition)
    if programs and not profile.commands:
        is_are = "is" if len(programs) == 1 else "are"
        lacks.append(f"{' and '.join(programs)} {is_are} to run, {profile.name} was not started with --allow command")
    for what, needed, there, show in (
        ("memory", needs.memory, profile.memory_bytes, show_bytes),
        ("cpus", needs.cpus, profile.cpus, str),
        ("gpus", needs.gpus, profile.gpus, str),
        ("GPU memory", needs.gpu_memory, profile.gpu_memory_bytes, show_bytes),
    ):
        if needed is not None and there < needed:
            lacks.append(f"{what}: {show(needed)} needed, {show(there)} there")
    if needs.gpu_model and needs.gpu_model.lower() not in profile.gpu_model.lower():
        lacks.append(
            f"a GPU named like {needs.gpu_model!r} is needed, {profile.name} has {profile.gpu_model or 'none'}"
        )
    if needs.os and needs.os != profile.os:
        lacks.append(f"{needs.os} is needed, {profile.name} runs {profile.os}")
    if needs.agent and needs.agent not in (profile.name, profile.id):
        lacks.append(f"only {needs.agent} may take it, this is {profile.name}")
    lacks += [
        f"the label {label}={value} is needed, {profile.name} does not carry it"
        for label, value in needs.labels.items()
        if profile.labels.get(label) != value
    ]
    return tuple(lacks)


def device_kind(job: Job) -> str:
    """The kind of device that a job measures, without its index; `cpu` when it names none."""
    return (device_of(job) or "cpu").partition(":")[0]


def device_of(job: Job) -> str | None:
    """The device that a job asks for; None where its target runs elsewhere or decides by itself."""
    target = job.definition.target
    return job.definition.needs.device or (target.device if isinstance(target, ModelTarget | DeviceTarget) else None)


def runtime_of(job: Job) -> str | None:
    """The runtime or library that a machine must have for a job; None where any machine will do."""
    target = job.definition.target
    own = target.runtime if isinstance(target, ModelTarget) else None
    own = target.library if isinstance(target, LibraryTarget) else own
    # A processor is measured with what every install has; anything else through PyTorch.
    own = "torch" if isinstance(target, DeviceTarget) and target.device != "cpu" else own
    return job.definition.needs.runtime or own


def machines_of(job: Job) -> int:
    """How many machines must be available together: more than one for the parts of a shared load."""
    return job.definition.load.hosts if is_part(job.definition) else 1


def needs_in_words(job: Job) -> str:
    needs, target = job.definition.needs, job.definition.target
    words = [target.runtime, target.device] if isinstance(target, ModelTarget) else []
    words += [f"to measure {target.device}"] if isinstance(target, DeviceTarget) else []
    words += programs_in_words(job.definition)
    words += [f"{needs.gpus} GPUs"] if needs.gpus else []
    words += [f"{needs.cpus} cpus"] if needs.cpus else []
    words += [f"{show_bytes(needs.memory)} memory"] if needs.memory else []
    words += [needs.gpu_model] if needs.gpu_model else []
    words += [needs.os] if needs.os else []
    words += [f"{label}={value}" for label, value in needs.labels.items()]
    words += [f"on {needs.agent}"] if needs.agent else []
    words += [f"{machines_of(job)} machines together"] if machines_of(job) > 1 else []
    return ", ".join(words) or "nothing special"
