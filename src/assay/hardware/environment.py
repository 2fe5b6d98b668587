"""The environment record of a job: machine, software, source state, and what else was going on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from pydantic import JsonValue

from assay.hardware.machine import governor, machine

_PACKAGES = (
    "assay",
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


def environment(folder: Path) -> dict[str, JsonValue]:
    """Everything about this machine and its software that a number may depend on."""
    facts: dict[str, JsonValue | None] = {
        "machine": machine(),
        "governor": governor(),
        "python": platform.python_version(),
        "packages": packages(),
        "git": git_state(folder),
    }
    return {name: value for name, value in facts.items() if value is not None}


def packages() -> dict[str, JsonValue]:
    """Versions of the packages that do the work."""
    found: dict[str, JsonValue] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> JsonValue:
    """Commit of the folder's repository, and whether anything in it was changed since."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return {"commit": commit, "changed": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}


def machine_state() -> dict[str, JsonValue]:
    """What else is going on right now: load, free memory, and the processes that take a share of a core."""
    return {
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "memory_available_bytes": psutil.virtual_memory().available,
        "busy_processes": _busy_processes(),
    }


def _busy_processes() -> list[JsonValue]:
    """Names of other processes above a few percent of a core, over a short look."""
    others = [process for process in psutil.process_iter(["name"]) if process.pid != os.getpid()]
    for process in others:
        _cpu_pct(process)  # the first call only starts the counter
    psutil.cpu_percent(interval=0.1)
    busy = [(pct, process) for process in others if (pct := _cpu_pct(process)) >= _BUSY_PCT]
    busy.sort(key=lambda pair: -pair[0])
    return [{"name": process.info["name"], "pid": process.pid, "cpu_pct": pct} for pct, process in busy[:5]]


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
