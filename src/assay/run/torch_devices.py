"""Devices of PyTorch: which there are, where a job must run, what waits for its work, and the proof that it ran there.

What is here is found without importing PyTorch, which would take seconds in every command.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.records import DeviceProof
from assay.spec.section import split_index
from assay.spec.target import ModelTarget

if TYPE_CHECKING:
    from torch import Tensor

# What each runtime needs beside assay.
PACKAGES = {"torch": ("torch",), "transformers": ("torch", "transformers")}
_CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)
_DRIVER_LIBRARY = {"win32": "nvcuda.dll"}.get(sys.platform, "libcuda.so.1")
DEVICES = ("cpu", "cuda", "mps")
_DRIVER_RECORD = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"Kernel Module\D*?(?:x86_64|aarch64)?\s+(\d+\.[\d.]+)")
_HOW_TO_GET = {
    "cuda": "install a build of PyTorch for CUDA, and an NVIDIA driver",
    "mps": "run it on a Mac with Apple silicon",
}


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
    version = installed("torch")
    if version is None:
        return {}
    devices = {"cpu": f"torch {version}"}
    built_for = _built_for_cuda()
    gpus = _gpus() if built_for else 0
    if gpus:
        devices["cuda"] = f"torch {version} for CUDA {built_for}, {gpus} GPU{'' if gpus == 1 else 's'}"
    if sys.platform == "darwin" and platform.machine() == "arm64":
        devices["mps"] = f"torch {version} on Apple silicon"
    return devices


def _built_for_cuda() -> str | None:
    """The CUDA version that PyTorch was built for, as its `version.py` says."""
    with suppress(ImportError, OSError, ValueError):
        spec = importlib.util.find_spec("torch")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            match = _CUDA.search((Path(folder) / "version.py").read_text(encoding="utf-8"))
            if match:
                return match[1]
    return None


def _gpus() -> int:
    """GPUs that NVIDIA's driver counts; its library is asked directly and takes no memory on any of them."""
    try:
        driver = ctypes.CDLL(_DRIVER_LIBRARY)
        count = ctypes.c_int(0)
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
    except (OSError, AttributeError):
        return 0
    return count.value


@dataclass(frozen=True, slots=True)
class TorchPlacement:
    """A device as the file names it, and as PyTorch does."""

    asked: str  # `cuda`
    name: str  # `cuda:0`

    @property
    def kind(self) -> str:
        """The kind of device, without its number."""
        return self.name.partition(":")[0]


def library() -> Any:  # noqa: ANN401  (a module)
    """PyTorch, or an error that says how to install it."""
    try:
        import torch
    except ImportError as problem:
        raise MeasureError(
            f"PyTorch cannot be imported: {problem}", code="runtime", try_="pip install 'assay-bench[torch]'"
        ) from None
    return torch


def place(device: str) -> TorchPlacement:
    """Decide where PyTorch must run."""
    torch = library()
    kind, index = split_index(device)
    if kind not in DEVICES:
        raise MeasureError(
            f"PyTorch does not run on {device}", code="device", at="target.device", try_=f"use {', '.join(DEVICES)}"
        )
    count = {"cuda": torch.cuda.device_count, "mps": lambda: int(torch.backends.mps.is_available())}
    there = count[kind]() if kind in count else 1
    if there == 0:
        raise MeasureError(
            f"device {device} is asked for, but PyTorch {torch.__version__} finds no such device here",
            code="device",
            at="target.device",
            try_=_HOW_TO_GET[kind],
        )
    if index >= there:
        raise MeasureError(
            f"device {device} asks for number {index}, but there {'is' if there == 1 else 'are'} {there} {kind} here",
            code="device",
            at="target.device",
            try_=f"write target.device: {kind}, or a number below {there}",
        )
    return TorchPlacement(device, f"cuda:{index}" if kind == "cuda" else kind)


def wait_for(placement: TorchPlacement) -> Callable[[], object] | None:
    """What blocks until the device has done all its work; None where calls return when they are done."""
    torch = library()
    if placement.kind == "cuda":
        return partial(torch.cuda.synchronize, torch.device(placement.name))
    return torch.mps.synchronize if placement.kind == "mps" else None


def set_threads(target: ModelTarget) -> None:
    """Set the threads that the file asks for; PyTorch decides where it does not."""
    torch = library()
    if target.threads is not None:
        torch.set_num_threads(target.threads)
    if target.inter_threads is not None:
        torch.set_num_interop_threads(target.inter_threads)


def prove(placement: TorchPlacement, weights: Iterable[Tensor], outputs: Iterable[Tensor], when: str) -> DeviceProof:
    """Read back where the weights lie and where the outputs came out; one tensor elsewhere is enough to fail."""
    lie, came = _counted(weights), _counted(outputs)
    # Weights that were never moved decide more than the answer, so they are named first.
    elsewhere = next((name for name in (*lie, *came) if name != placement.name), None)
    used = placement.asked if elsewhere is None and (lie or came) else elsewhere or "nothing"
    evidence = f"devices of {sum(lie.values())} weight and {sum(came.values())} output tensors, read {when}"
    return DeviceProof(placement.asked, used, dict(lie + came), evidence)


def facts(placement: TorchPlacement) -> dict[str, JsonValue]:
    """The device as PyTorch and the system describe it, and how PyTorch was set."""
    torch = library()
    described: dict[str, JsonValue] = {
        "torch_version": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "inter_threads": torch.get_num_interop_threads(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if placement.kind == "cuda":
        properties = torch.cuda.get_device_properties(placement.name)
        described["gpu"] = {
            "name": properties.name,
            "memory_bytes": properties.total_memory,
            "capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda or "",
            "driver": driver_version(),
        }
    return described


def start_memory(placement: TorchPlacement) -> None:
    """Reset the high-water mark of the device's memory."""
    if placement.kind == "cuda":
        library().cuda.reset_peak_memory_stats(placement.name)


def peak_memory(placement: TorchPlacement) -> tuple[dict[str, float], dict[str, str]]:
    """The most memory that PyTorch held on the device since `start_memory`: as a metric, or why there is none."""
    if placement.kind == "cuda":
        return {"gpu_mem_mb": library().cuda.max_memory_allocated(placement.name) / 1e6}, {}
    if placement.kind == "mps":
        return {}, {"gpu_mem_mb": "PyTorch keeps no high-water mark of the memory of this device"}
    return {}, {}


def driver_version() -> str | None:
    """Version of NVIDIA's driver; None where it is not reported."""
    with suppress(OSError):
        # One line has words before the number, which differ between the open and the closed module.
        if match := _DRIVER_VERSION.search(_DRIVER_RECORD.read_text()):
            return match[1]
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return answer.stdout.split()[0]
    return None


def _counted(tensors: Iterable[Tensor]) -> Counter[str]:
    devices = (tensor.device for tensor in tensors)
    # PyTorch numbers a lone Apple GPU and leaves out the number of others.
    return Counter(f"cuda:{device.index or 0}" if device.type == "cuda" else str(device.type) for device in devices)
