"""The profile of this machine: what jobs can be placed on it. Runtimes are tried, not guessed from package lists."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from assay.errors import AssayError
from assay.hardware.machine import machine
from assay.place.needs import Profile

_OS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


@cache
def local_profile() -> Profile:
    """What this machine offers."""
    facts = machine()
    runtimes, devices = _onnxruntime()
    return Profile(
        name=str(facts.get("name", "this machine")),
        os=_OS.get(sys.platform, sys.platform),
        cpus=int(str(facts.get("usable_cores") or facts.get("cores") or 1)),
        memory_bytes=int(str(facts.get("memory_bytes", 0))),
        runtimes=runtimes,
        devices=devices,
        gpus=1 if "gpu" in facts else 0,
        gpu_model=str(facts.get("gpu", "")),
        gpu_memory_bytes=int(str(facts.get("gpu_memory_bytes", 0))),
    )


def _onnxruntime() -> tuple[dict[str, str], dict[str, str]]:
    from assay.run.targets.onnx.devices import available_devices

    try:
        devices = available_devices()
    except (AssayError, ImportError, OSError):  # not installed, or installed and broken: either way not there
        return {}, {}
    for package in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino"):
        try:
            return {"onnxruntime": version(package)}, devices
        except PackageNotFoundError:
            continue
    return {"onnxruntime": "unknown version"}, devices
