"""Layer 3: GPUs as PyTorch sees them: CUDA, ROCm and Apple's MPS."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from assay.hardware.gpu.nvidia import abilities
from assay.hardware.gpu.nvml import Load
from assay.hardware.gpu.record import Gpu, LayerReport, LayerUnavailableError

TORCH = "torch"
_USABLE = "its memory is what programs can use, without what the driver keeps"


def by_torch(load: Load = import_module, machine: str | None = None) -> LayerReport:
    """All GPUs that PyTorch sees; imports it, and begins CUDA in this process.

    Args:
        machine: of `platform.machine()`, this one where not given: only on Apple's own processors is behind MPS a GPU
            of Apple.

    Raises:
        LayerUnavailableError: PyTorch is not here, or sees none.
    """
    try:
        torch = load("torch")
    except ImportError as missing:
        raise LayerUnavailableError("PyTorch is not installed") from missing
    except Exception as broken:  # a build for another system fails in ways of its own
        raise LayerUnavailableError(f"PyTorch cannot be imported: {broken}") from broken
    try:
        found = (*_cuda(torch), *(_mps(torch) if (machine or platform.machine()) == "arm64" else ()))
    except Exception as failure:  # a driver too old, a device that is busy: PyTorch has no class for these
        raise LayerUnavailableError(f"PyTorch cannot use its GPUs: {failure}") from failure
    if not found:
        raise LayerUnavailableError("PyTorch sees no GPU")
    return LayerReport(found)


def by_begun_torch() -> LayerReport:
    """What a PyTorch of this process that has already begun CUDA sees: asking it disturbs nothing.

    Raises:
        LayerUnavailableError: there is none, or it is not initialised yet, which takes GPU memory and time.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise LayerUnavailableError("PyTorch was not asked, as importing it takes seconds")
    try:
        begun = bool(torch.cuda.is_initialized())
    except Exception as failure:  # half imported, or a build without CUDA
        raise LayerUnavailableError(f"PyTorch cannot be asked: {failure}") from failure
    if not begun:
        raise LayerUnavailableError("PyTorch was not asked, as it has not begun CUDA in this process")
    return by_torch(lambda name: sys.modules[name])


def _cuda(torch: Any) -> Iterator[Gpu]:  # noqa: ANN401  (PyTorch need not be installed where this is checked)
    if not torch.cuda.is_available():
        return
    on_rocm = getattr(torch.version, "hip", None) is not None
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        capability = None if on_rocm else f"{facts.major}.{facts.minor}"
        can = abilities(capability)
        yield Gpu(
            index=index,
            name=str(facts.name),
            vendor="amd" if on_rocm else "nvidia",
            layer=TORCH,
            uuid=_uuid(facts, on_rocm),
            memory_bytes=int(facts.total_memory),
            capability=capability,
            multiprocessors=int(facts.multi_processor_count),
            pci=_pci(facts),
            architecture=_gfx(facts) if on_rocm else can.architecture,
            tensor_cores=can.tensor_cores,
            precisions=can.precisions,
            note="; ".join(filter(None, (can.note, _USABLE))),
        )


def _mps(torch: Any) -> Iterator[Gpu]:  # noqa: ANN401
    backends = getattr(torch.backends, "mps", None)
    if backends is not None and backends.is_available():
        yield Gpu(
            index=0,
            name="GPU behind MPS",
            vendor="apple",
            layer=TORCH,
            note="PyTorch tells of MPS that it works, and nothing else",
        )


def _uuid(facts: object, on_rocm: bool) -> str | None:
    uuid = getattr(facts, "uuid", None)
    if uuid is None:
        return None
    return str(uuid) if on_rocm else f"GPU-{str(uuid).removeprefix('GPU-')}"


def _pci(facts: object) -> str | None:
    parts = [getattr(facts, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    numbers = [part for part in parts if isinstance(part, int)]
    return "{:04x}:{:02x}:{:02x}.0".format(*numbers) if len(numbers) == 3 else None


def _gfx(facts: object) -> str | None:
    """`gfx942` of `gfx942:sramecc+:xnack-`."""
    name = getattr(facts, "gcnArchName", None)
    return str(name).partition(":")[0] if name else None
