"""The GPUs of this machine: each is taken from the first layer that tells of it, and compared with the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from assay.hardware.apple import SYSTEM_PROFILER, by_system_profiler
from assay.hardware.gpu.amd import AMD_SMI, ROCM_SMI, by_amd_smi, by_rocm_smi
from assay.hardware.gpu.nvidia import NVIDIA_SMI, NVML, by_nvml, by_smi
from assay.hardware.gpu.nvml import Load
from assay.hardware.gpu.pytorch import TORCH, by_begun_torch, by_torch
from assay.hardware.gpu.record import Gpu, LayerReport, LayerUnavailableError, Run, output
from assay.hardware.gpu.sysfs import SYSFS, by_sysfs

if TYPE_CHECKING:
    from pydantic import JsonValue

_EVERYTHING = ("name", "uuid", "memory_bytes", "driver", "cuda", "capability", "multiprocessors", "power_limit_w",
               "ecc", "mig", "architecture")  # fmt: skip
# What a layer tells in the same sense as the ones above it. PyTorch's memory is without the driver's share, and the
# kernel's names and drivers are other words for the same.
_COMPARED: Mapping[str, tuple[str, ...]] = {
    TORCH: ("name", "uuid", "capability", "multiprocessors", "architecture"),
    SYSFS: ("uuid", "memory_bytes"),
}
# nvidia-smi rounds memory to MiB and power to hundredths.
_CLOSE = {"memory_bytes": 2.0**20, "power_limit_w": 0.1}


@dataclass(frozen=True, slots=True)
class Detection:
    """The GPUs that were found, and how."""

    gpus: tuple[Gpu, ...]
    layer: str | None
    """Who told of the first GPU; each GPU says it of itself."""
    tried: Mapping[str, str]
    """Layer → how many GPUs it tells of, or why it tells of none."""

    def record(self) -> dict[str, JsonValue]:
        """As JSON, without what is not known."""
        told: dict[str, JsonValue] = {"gpus": [gpu.record() for gpu in self.gpus], "tried": dict(self.tried)}
        return told | ({"layer": self.layer} if self.layer else {})


@cache
def local_gpus() -> Detection:
    """The GPUs of this machine, looked for once in this process."""
    return gpus()


def gpus(
    *,
    load: Load = import_module,
    run: Run = output,
    root: Path = Path("/"),
    platform: str = sys.platform,
    with_torch: bool = False,
    compare: bool = False,
) -> Detection:
    """Look for GPUs, layer by layer.

    Args:
        with_torch: also ask PyTorch, which takes seconds to import and memory on the GPU.
        compare: also ask nvidia-smi where NVML has answered, which takes a second.
    """
    look = _Look()
    look.at(NVML, lambda: by_nvml(load))
    if compare or not look.has("nvidia"):
        look.at(NVIDIA_SMI, lambda: by_smi(run))
    if platform == "darwin":  # before PyTorch, which cannot name what is behind MPS
        look.at(SYSTEM_PROFILER, lambda: by_system_profiler(run))
    look.at(TORCH, (lambda: by_torch(load)) if with_torch else by_begun_torch)
    if not look.has("amd") and platform == "linux":
        look.at(AMD_SMI, lambda: by_amd_smi(run, root))
        if not look.has("amd"):
            look.at(ROCM_SMI, lambda: by_rocm_smi(run, root))
    if platform == "linux":
        look.at(SYSFS, lambda: by_sysfs(root))
    return look.detection()


class _Look:
    """What the layers have told so far."""

    def __init__(self) -> None:
        self._answers: dict[str, LayerReport] = {}
        self._tried: dict[str, str] = {}

    def at(self, layer: str, ask: Callable[[], LayerReport]) -> None:
        """Ask one layer, and keep its answer or its reason."""
        try:
            answer = ask()
        except LayerUnavailableError as reason:
            self._tried[layer] = str(reason)
            return
        self._answers[layer] = answer
        count = len(answer.gpus)
        said = f"{count} GPU{'s' if count > 1 else ''}"
        self._tried[layer] = f"{said}; {answer.remark}" if answer.remark else said

    def has(self, vendor: str) -> bool:
        """Whether a GPU of this maker was found."""
        return any(gpu.vendor == vendor for answer in self._answers.values() for gpu in answer.gpus)

    def detection(self) -> Detection:
        """Every maker's GPUs from the first layer that tells of any, each compared with what later layers say."""
        first: dict[str, str] = {}  # maker → layer
        for layer, answer in self._answers.items():
            for gpu in answer.gpus:
                first.setdefault(gpu.vendor, layer)
        taken = [gpu for layer, answer in self._answers.items() for gpu in answer.gpus if first[gpu.vendor] == layer]
        found = tuple(_compared(gpu, self._later(gpu.layer)) for gpu in _numbered(taken))
        return Detection(found, found[0].layer if found else None, self._tried)

    def _later(self, layer: str) -> list[tuple[str, tuple[Gpu, ...]]]:
        names = list(self._answers)
        return [(name, self._answers[name].gpus) for name in names[names.index(layer) + 1 :]]


def _numbered(gpus: Iterable[Gpu]) -> list[Gpu]:
    """Each with a number of its own: those of the first layer keep theirs, by which its maker knows them."""
    used: dict[int, Gpu] = {}
    for gpu in gpus:
        index = gpu.index if gpu.index not in used else max(used) + 1
        used[index] = replace(gpu, index=index)
    return list(used.values())


def _compared(gpu: Gpu, others: Iterable[tuple[str, tuple[Gpu, ...]]]) -> Gpu:
    agreed: list[str] = []
    differs: dict[str, str] = {}
    for layer, seen in others:
        twin = _same_board(gpu, [one for one in seen if one.vendor == gpu.vendor])
        if twin is None:
            continue
        if layer == TORCH and gpu.vendor == "apple":  # it tells of MPS that it works, and that is the same
            agreed.append(layer)
            continue
        both = [
            name
            for name in _COMPARED.get(layer, _EVERYTHING)
            if _value(gpu, name) is not None and _value(twin, name) is not None
        ]
        other = [name for name in both if not _alike(name, _value(gpu, name), _value(twin, name))]
        if both and not other:
            agreed.append(layer)
        for name in other:
            said = f"{layer}: {_value(twin, name)}"
            differs[name] = f"{differs[name]}; {said}" if name in differs else said
    return replace(gpu, agreed_by=tuple(agreed), differs=differs)


def _same_board(gpu: Gpu, candidates: list[Gpu]) -> Gpu | None:
    """The same board as another layer sees it: by its place on the bus, its own number, or as the only one."""
    for name in ("pci", "uuid"):
        own = _value(gpu, name)
        for one in candidates:
            if own is not None and _value(one, name) == own:
                return one
    alone = candidates[0] if len(candidates) == 1 else None
    return None if alone is None or (alone.pci and gpu.pci) else alone


def _value(gpu: Gpu, name: str) -> object:
    value: object = getattr(gpu, name)
    return value


def _alike(name: str, one: object, other: object) -> bool:
    if name in _CLOSE and isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= _CLOSE[name]
    return one == other
