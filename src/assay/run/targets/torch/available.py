"""Whether PyTorch is here and for which devices, without importing it: that would take seconds in every command."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import platform
import re
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What each runtime needs beside assay.
PACKAGES = {"torch": ("torch",), "transformers": ("torch", "transformers")}
_CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)
_DRIVER = {"win32": "nvcuda.dll"}.get(sys.platform, "libcuda.so.1")


def installed(runtime: str) -> str | None:
    """The version of a runtime, or None when one of its packages is missing."""
    try:
        return [version(package) for package in PACKAGES[runtime]][-1]
    except PackageNotFoundError:
        return None


def available_devices() -> dict[str, str]:
    """The devices on which PyTorch can work here: canonical device → what proves it; empty without PyTorch.

    The package's own record says what it was built for, and the driver says how many GPUs there are. A run proves
    its device by itself, so a wrong answer here costs a failed job, never a wrong number.
    """
    found = installed("torch")
    if found is None:
        return {}
    devices = {"cpu": f"torch {found}"}
    built_for = _built_for_cuda()
    gpus = _gpus() if built_for else 0
    if gpus:
        devices["cuda"] = f"torch {found} for CUDA {built_for}, {gpus} GPU{'' if gpus == 1 else 's'}"
    if sys.platform == "darwin" and platform.machine() == "arm64":
        devices["mps"] = f"torch {found} on Apple silicon"
    return devices


def _built_for_cuda() -> str | None:
    """The CUDA version that PyTorch was built for, as its `version.py` says."""
    with suppress(ImportError, OSError, ValueError):
        spec = importlib.util.find_spec("torch")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            told = _CUDA.search((Path(folder) / "version.py").read_text(encoding="utf-8"))
            if told:
                return told[1]
    return None


def _gpus() -> int:
    """GPUs that NVIDIA's driver counts; its library is asked directly and takes no memory on any of them."""
    try:
        driver = ctypes.CDLL(_DRIVER)
        count = ctypes.c_int(0)
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
    except (OSError, AttributeError):
        return 0
    return count.value
