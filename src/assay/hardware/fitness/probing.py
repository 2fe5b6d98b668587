"""Which probes work on this machine, and what would bring those that do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.hardware.abilities import abilities
from assay.hardware.fitness.gpus import Reader
from assay.hardware.reading import Source

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection

# What abilities are called before people.
_TITLES = {
    "cpu": "processor time",
    "memory": "memory",
    "disk": "disks",
    "network": "network",
    "gpu": "GPUs",
    "energy_rapl": "energy of the processor",
    "energy_powermetrics": "energy by powermetrics",
    "temperature": "temperature",
    "throttle": "throttling",
}
_READABLE = "sudo chmod a+r /sys/class/powercap/*/energy_uj    # until the next start"


@dataclass(frozen=True, slots=True)
class Probe:
    """Something that can be watched while a job runs, or why it cannot."""

    name: str
    works: bool
    detail: str
    fix: tuple[str, ...] = ()


def probes(
    reader: Reader, detection: Detection, root: str | Path = "/", system: str = sys.platform
) -> tuple[Probe, ...]:
    """Try every source of the probes."""
    return (*_of_machine(Source(root=Path(root), system=system), detection), *_of_boards(reader, detection))


def _of_machine(source: Source, detection: Detection) -> Iterator[Probe]:
    for name, told in abilities(source, detection).items():
        facts = told if isinstance(told, dict) else {}
        works = facts.get("works") is True
        why = str(facts.get("by" if works else "why", ""))
        yield Probe(_TITLES.get(name, name), works, why, () if works else _fix(name, why))


def _fix(name: str, why: str) -> tuple[str, ...]:
    """What would help; nothing where the machine has no such thing."""
    if name == "energy_rapl" and "may not be read" in why:
        return (_READABLE,)
    return ("sudo assay run FILE    # it answers to an administrator alone",) if name == "energy_powermetrics" else ()


def _of_boards(reader: Reader, detection: Detection) -> Iterator[Probe]:
    """How the energy of each board of NVIDIA's can be known."""
    boards = [gpu for gpu in detection.gpus if gpu.vendor == "nvidia"]
    if reader.absent and boards:
        yield Probe("energy of the GPUs", False, reader.absent, ("pip install 'assay-bench[gpu]'",))
    for index in range(0 if reader.absent else reader.count):
        yield _energy(index, reader)


def _energy(index: int, reader: Reader) -> Probe:
    name = f"energy of GPU {index}"
    try:
        reading = reader.read(index)
    except Exception as problem:  # NVML has its own errors; the other boards are still told
        return Probe(name, False, f"it does not answer: {problem}")
    if "energy_j" in reading:
        return Probe(name, True, "by its counter")
    if "power_w" in reading:
        return Probe(name, True, "by samples of its power")
    return Probe(name, False, reader.lost.get(index, "it tells neither its energy nor its power"))
