"""The environment record of a job: machine, software, source state, and what else was going on."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from pydantic import JsonValue

from assay.hardware.info import hardware
from assay.hardware.machine import governor, machine
from assay.version import __version__

_PACKAGES = (
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "faiss-cpu",
)
_BUSY_PCT = 5.0
# A shorter look sees chance: the kernel counts processor time in steps of 10 ms.
_LOOK_S = 0.1


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
    """Versions of the packages that do the work."""
    found: dict[str, JsonValue] = {"assay": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, JsonValue] | None:
    """Commit of the folder's repository, and whether anything in it was changed since."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return {"commit": commit, "changed": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}


class Look:
    """A look at what other processes do, from here on until it is asked."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._others = [process for process in psutil.process_iter(["name"]) if process.pid != os.getpid()]
        for process in self._others:
            _cpu_pct(process)  # the first call only starts the counter

    def busy(self) -> list[JsonValue]:
        """Names of other processes above a few percent of a core; waits where the look would be too short."""
        time.sleep(max(0.0, self._began_s + _LOOK_S - time.monotonic()))
        busy = [(pct, process) for process in self._others if (pct := _cpu_pct(process)) >= _BUSY_PCT]
        busy.sort(key=lambda pair: -pair[0])
        return [{"name": process.info["name"], "pid": process.pid, "cpu_pct": pct} for pct, process in busy[:5]]


def machine_state(look: Look | None = None) -> dict[str, JsonValue]:
    """What else is going on right now: load, free memory, and the processes that take a share of a core.

    Args:
        look: one that was begun a moment ago, so that nothing has to wait for it.
    """
    return {
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "memory_available_bytes": psutil.virtual_memory().available,
        "busy_processes": (look or Look()).busy(),
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
