"""Everything that is known of this machine: the fast part for every result, the whole for `assay info`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.hardware.abilities import abilities
from assay.hardware.accelerators import gpu_facts, other_accelerators
from assay.hardware.cpu import clocks_now, cpu, cpuinfo
from assay.hardware.disks import disks, file_systems
from assay.hardware.limits import container, limits
from assay.hardware.memory import memory, memory_now
from assay.hardware.reading import Source
from assay.hardware.system import board, operating_system, virtualisation

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection

Facts = dict[str, JsonValue]


def hardware(root: str | Path = "/") -> Facts:
    """What this machine is, as far as it does not change while it runs; read once per process.

    Args:
        root: the folder below which a machine's files are; GPUs are asked for on this machine alone.
    """
    return _here() if str(root) == "/" else read_hardware(Source(Path(root)))


def read_hardware(source: Source, detection: Detection | None = None) -> Facts:
    """The facts of a machine; under `absent` those that cannot be read, each with its reason."""
    blocks = [] if source.system == "darwin" else cpuinfo(source)
    facts: Facts = {
        "os": operating_system(source),
        "board": board(source),
        "cpu": cpu(source, blocks),
        "memory": memory(source),
        "disks": disks(source),
        "virtualisation": virtualisation(source, blocks),
        "container": container(source),
        "limits": limits(source).record(),
        "accelerators": other_accelerators(source),
    }
    if detection is not None:
        facts["gpu"] = gpu_facts(detection, now=False)
    kept = {name: value for name, value in facts.items() if value not in ({}, [])}
    return kept | {"absent": {**source.absent}}


def info(
    folders: Iterable[Path] = (),
    proofs: bool = True,
    *,
    places: Mapping[str, Path] | None = None,
    cache_folder: Path | None = None,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Facts:
    """Everything that `assay info --json` prints.

    Args:
        proofs: try each installed framework; without, only their versions are told.
        places: folders whose file systems matter, by their purpose; temporary files are among them anyway.
        fresh: try frameworks again that were tried before.
    """
    from assay.hardware.frameworks import frameworks, installed
    from assay.hardware.gpu.detect import gpus, local_gpus
    from assay.hardware.machine import machine
    from assay.hardware.models import find_models

    models = find_models(folders)  # first, as a folder that is none is the user's mistake
    source, facts, whole = Source(), machine(), _here()
    detection = local_gpus()
    if detection.gpus:  # where there is one, every layer is asked, so that they can be held against each other
        detection = gpus(compare=True)
    wanted = {**(places or {}), "temporary": Path(tempfile.gettempdir())}
    now: Facts = {"cpu": clocks_now(source), "memory": memory_now(source)}
    found: Facts = {
        "machine": facts,
        **whole,
        "gpu": gpu_facts(detection, now=True),
        "file_systems": file_systems(source, wanted),
        "now": {name: value for name, value in now.items() if value},
        "probes": abilities(source, detection),
    }
    known, driver = str(facts.get("id", "")), str(facts.get("driver", ""))
    found["frameworks"] = (
        frameworks(cache_folder, machine=known, driver=driver, fresh=fresh, tell=tell)
        if proofs
        else {name: {"version": version, "works": None, "why": "not tried"} for name, version in installed().items()}
    )
    found["models"] = models
    before = whole.get("absent")
    found["absent"] = {**(before if isinstance(before, dict) else {}), **source.absent}
    return found


@cache
def _here() -> Facts:
    from assay.hardware.gpu.detect import local_gpus

    return read_hardware(Source(), local_gpus())
