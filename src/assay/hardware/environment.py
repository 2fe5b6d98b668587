"""The environment record of a job: machine, software, source state, other load; and all of it for `assay info`."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from pydantic import JsonValue

from assay.hardware.components import disks, file_systems, gpu_facts, memory, memory_now, other_accelerators
from assay.hardware.cpu import clocks_now, cpu, cpuinfo
from assay.hardware.limits import container, limits
from assay.hardware.machine import board, governor, machine, operating_system, virtualisation
from assay.hardware.probes import abilities
from assay.hardware.source import Facts, FactSource
from assay.version import __version__

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection


def hardware(root: str | Path = "/") -> Facts:
    """What this machine is, as far as it does not change while it runs; read once per process.

    Args:
        root: the folder below which a machine's files are; GPUs are asked for on this machine alone.
    """
    return _here() if str(root) == "/" else read_hardware(FactSource(Path(root)))


def read_hardware(source: FactSource, detection: Detection | None = None) -> Facts:
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
    present = {name: value for name, value in facts.items() if value not in ({}, [])}
    return present | {"absent": {**source.absent}}


def info(
    folders: Iterable[Path] = (),
    proofs: bool = True,
    *,
    places: Mapping[str, Path] | None = None,
    cache_folder: Path | None = None,
    fresh: bool = False,
    notify: Callable[[str], None] = lambda _: None,
) -> Facts:
    """Everything that `assay info --format json` prints.

    Args:
        proofs: try each installed framework; without, only their versions are reported.
        places: folders whose file systems matter, by their purpose; temporary files are among them anyway.
        fresh: try frameworks again that were tried before.
    """
    from assay.hardware.frameworks import frameworks, installed
    from assay.hardware.gpu.detect import gpus, local_gpus
    from assay.hardware.machine import machine
    from assay.hardware.models import find_models

    models = find_models(folders)  # first, as a folder that is none is the user's mistake
    source, facts, whole = FactSource(), machine(), _here()
    detection = local_gpus()
    if detection.gpus:  # where there is one, every layer is asked, so that they can be held against each other
        detection = gpus(compare=True)
    wanted = {**(places or {}), "temporary": Path(tempfile.gettempdir())}
    now: Facts = {"cpu": clocks_now(source), "memory": memory_now(source)}
    report: Facts = {
        "machine": facts,
        **whole,
        "gpu": gpu_facts(detection, now=True),
        "file_systems": file_systems(source, wanted),
        "now": {name: value for name, value in now.items() if value},
        "probes": abilities(source, detection),
    }
    machine_id, driver = str(facts.get("id", "")), str(facts.get("driver", ""))
    report["frameworks"] = (
        frameworks(cache_folder, machine=machine_id, driver=driver, fresh=fresh, notify=notify)
        if proofs
        else {name: {"version": version, "works": None, "why": "not tried"} for name, version in installed().items()}
    )
    report["models"] = models
    before = whole.get("absent")
    report["absent"] = {**(before if isinstance(before, dict) else {}), **source.absent}
    return report


@cache
def _here() -> Facts:
    from assay.hardware.gpu.detect import local_gpus

    return read_hardware(FactSource(), local_gpus())


_PACKAGES = (
    "numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "torch",
    "transformers", "tokenizers", "safetensors", "faiss-cpu",
)  # fmt: skip
_BUSY_PCT = 5.0
# A shorter look sees chance: the kernel counts processor time in steps of 10 ms.
_POLL_S = 0.1


def environment(folder: Path) -> dict[str, JsonValue]:
    """Everything about this machine and its software that a number may depend on."""
    facts: dict[str, JsonValue | None] = {
        "machine": machine(),
        "hardware": hardware(),
        "governor": governor(),
        "python": platform.python_version(),
        "packages": packages(),
        "git": git_state(folder),
    }
    return {name: value for name, value in facts.items() if value is not None}


def packages() -> dict[str, JsonValue]:
    versions: dict[str, JsonValue] = {"assay": __version__}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def git_state(folder: Path) -> dict[str, JsonValue] | None:
    """Commit of the folder's repository, and whether anything in it was changed since."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return {"commit": commit, "changed": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}


class UsageSample:
    """A look at what other processes do, from here on until it is asked."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._others = [process for process in psutil.process_iter(["name"]) if process.pid != os.getpid()]
        for process in self._others:
            _cpu_pct(process)  # the first call only starts the counter

    def busy(self) -> list[JsonValue]:
        """Names of other processes above a few percent of a core; waits where the look would be too short."""
        time.sleep(max(0.0, self._began_s + _POLL_S - time.monotonic()))
        busy = [(pct, process) for process in self._others if (pct := _cpu_pct(process)) >= _BUSY_PCT]
        busy.sort(key=lambda pair: -pair[0])
        return [{"name": process.info["name"], "pid": process.pid, "cpu_pct": pct} for pct, process in busy[:5]]


def machine_state(usage: UsageSample | None = None) -> dict[str, JsonValue]:
    """What else runs right now: load, free memory, and the processes that take a share of a core.

    Args:
        usage: one that was begun a moment ago, so that nothing has to wait for it.
    """
    return {
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "memory_available_bytes": psutil.virtual_memory().available,
        "busy_processes": (usage or UsageSample()).busy(),
    }


def _cpu_pct(process: psutil.Process) -> float:
    try:
        return float(process.cpu_percent())
    except psutil.Error:
        return 0.0


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
