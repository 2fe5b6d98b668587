"""The profile of this machine: what jobs can be placed on it. Runtimes are tried, not guessed from package lists."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version

from assay.hardware.machine import machine, own_limits
from assay.place.needs import Profile, runtime_of
from assay.plan.job import Job

UNKNOWN = "unknown version"
_OS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


@cache
def local_profile() -> Profile:
    """What this machine offers."""
    runtimes, devices = _runtimes()
    return replace(_bare_profile(), runtimes=runtimes, devices=devices)


def profile_for(jobs: Iterable[Job]) -> Profile:
    """What this machine offers to these jobs: its runtimes are left out, and not tried, where no job asks for one."""
    return local_profile() if any(map(runtime_of, jobs)) else _bare_profile()


def _bare_profile() -> Profile:
    facts = machine()
    memory = int(str(facts.get("memory_bytes", 0)))
    most = own_limits().memory  # what the container leaves of it
    return Profile(
        name=str(facts.get("name", "this machine")),
        os=_OS.get(sys.platform, sys.platform),
        cpus=int(str(facts.get("usable_cores") or facts.get("cores") or 1)),
        memory_bytes=min(memory, int(most.value)) if most else memory,
        runtimes={},
        devices={},
        gpus=int(str(facts.get("gpus", 0))),
        gpu_model=str(facts.get("gpu", "")),
        gpu_memory_bytes=int(str(facts.get("gpu_memory_bytes", 0))),
    )


def _runtimes() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Runtimes with their versions, and the devices of those that can be asked for them."""
    # Here, as these bring numpy and ONNX Runtime: a machine that only sends requests needs neither.
    from assay.run import onnx_devices as onnx
    from assay.run import torch_devices as torch
    from assay.run.targets import GROUPS

    # A third party's target says by itself, when it loads, what it can do here.
    entries = [entry for group in GROUPS for entry in entry_points(group=group)]
    versions = {
        entry.name: entry.dist.version if entry.dist else UNKNOWN for entry in entries if entry.name != "program"
    }
    devices: dict[str, dict[str, str]] = {}
    for runtime in ("torch", "transformers"):
        if (installed := torch.installed(runtime)) is None:
            versions.pop(runtime, None)
        else:
            versions[runtime], devices[runtime] = installed, torch.available_devices()
    if importlib.util.find_spec("faiss") is None:
        versions.pop("faiss", None)
    if on_onnx := onnx.available_devices():
        versions["onnxruntime"], devices["onnxruntime"] = _onnxruntime_version(), on_onnx
    else:  # not installed, or installed and broken: either way not there
        versions.pop("onnxruntime", None)
    return versions, devices


def _onnxruntime_version() -> str:
    for package in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino"):
        with suppress(PackageNotFoundError):
            return version(package)
    return UNKNOWN
