"""The GPUs of this machine: each is taken from the first layer that tells of it (PyTorch is layer 3), and compared."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.hardware.apple import SYSTEM_PROFILER, by_system_profiler
from assay.hardware.gpu.amd import AMD_SMI, ROCM_SMI, by_amd_smi, by_rocm_smi
from assay.hardware.gpu.nvidia import NVIDIA_SMI, NVML, abilities, by_nvml, by_smi
from assay.hardware.gpu.nvml import Load
from assay.hardware.gpu.record import Gpu, LayerBrokenError, LayerReport, LayerUnavailableError, Run, output
from assay.hardware.gpu.sysfs import SYSFS, by_sysfs

if TYPE_CHECKING:
    from pydantic import JsonValue


TORCH = "torch"
_USABLE = "its memory is what programs can use, without what the driver keeps"


def by_torch(load: Load = import_module, machine: str | None = None) -> LayerReport:
    """All GPUs that PyTorch sees; imports it, and begins CUDA in this process.

    Args:
        machine: of `platform.machine()`, this one where not given: only on Apple's own processors is behind MPS a GPU
            of Apple.
    """
    try:
        torch = load("torch")
    except ImportError as missing:
        raise LayerUnavailableError("PyTorch is not installed") from missing
    except Exception as broken:  # a build for another system fails in ways of its own
        raise LayerBrokenError(f"PyTorch cannot be imported: {broken}") from broken
    try:
        gpus = (*_cuda(torch), *(_mps(torch) if (machine or platform.machine()) == "arm64" else ()))
    except Exception as failure:  # a driver too old, a device that is busy: PyTorch has no class for these
        raise LayerBrokenError(f"PyTorch cannot use its GPUs: {failure}") from failure
    if not gpus:
        raise LayerUnavailableError("PyTorch sees no GPU")
    return LayerReport(gpus)


def by_begun_torch() -> LayerReport:
    """What a PyTorch of this process that has already begun CUDA sees: asking it disturbs nothing."""
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
    """The layer that reported the first GPU; each GPU carries its own."""
    tried: Mapping[str, str]
    """Layer → how many GPUs it reports, or why it reports none."""
    broken: tuple[str, ...] = ()
    """Layers that are installed and failed."""

    def why_none(self) -> str:
        """Why there is no GPU, in one sentence; layers that are merely not installed are left to `tried`."""
        return "; ".join(["no GPU found", *(f"{layer}: {self.tried[layer]}" for layer in self.broken)])

    def record(self) -> dict[str, JsonValue]:
        """As JSON, without what is not known."""
        record: dict[str, JsonValue] = {"gpus": [gpu.record() for gpu in self.gpus], "tried": dict(self.tried)}
        return record | ({"layer": self.layer} if self.layer else {}) | ({} if self.gpus else {"why": self.why_none()})


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
    detection = _Detection()
    detection.at(NVML, lambda: by_nvml(load))
    if compare or not detection.has("nvidia"):
        detection.at(NVIDIA_SMI, lambda: by_smi(run))
    if platform == "darwin":  # before PyTorch, which cannot name what is behind MPS
        detection.at(SYSTEM_PROFILER, lambda: by_system_profiler(run))
    detection.at(TORCH, (lambda: by_torch(load)) if with_torch else by_begun_torch)
    if not detection.has("amd") and platform == "linux":
        detection.at(AMD_SMI, lambda: by_amd_smi(run, root))
        if not detection.has("amd"):
            detection.at(ROCM_SMI, lambda: by_rocm_smi(run, root))
    if platform == "linux":
        detection.at(SYSFS, lambda: by_sysfs(root))
    return detection.detection()


class _Detection:
    """What the layers have reported so far."""

    def __init__(self) -> None:
        self._answers: dict[str, LayerReport] = {}
        self._tried: dict[str, str] = {}
        self._broken: list[str] = []

    def at(self, layer: str, read: Callable[[], LayerReport]) -> None:
        """Ask one layer, and keep its answer or its reason."""
        try:
            answer = read()
        except LayerUnavailableError as reason:
            self._tried[layer] = str(reason)
            self._broken += [layer] if isinstance(reason, LayerBrokenError) else []
            return
        self._answers[layer] = answer
        count = len(answer.gpus)
        said = f"{count} GPU{'s' if count > 1 else ''}"
        self._tried[layer] = f"{said}; {answer.remark}" if answer.remark else said

    def has(self, vendor: str) -> bool:
        return any(gpu.vendor == vendor for answer in self._answers.values() for gpu in answer.gpus)

    def detection(self) -> Detection:
        """Every maker's GPUs from the first layer that tells of any, each compared with what later layers say."""
        first: dict[str, str] = {}  # maker → layer
        for layer, answer in self._answers.items():
            for gpu in answer.gpus:
                first.setdefault(gpu.vendor, layer)
        taken = [gpu for layer, answer in self._answers.items() for gpu in answer.gpus if first[gpu.vendor] == layer]
        gpus = tuple(_compared(gpu, self._later(gpu.layer)) for gpu in _numbered(taken))
        return Detection(gpus, gpus[0].layer if gpus else None, self._tried, tuple(self._broken))

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


def _compared(gpu: Gpu, layers: Iterable[tuple[str, tuple[Gpu, ...]]]) -> Gpu:
    agreed: list[str] = []
    differs: dict[str, str] = {}
    for layer, gpus in layers:
        twin = _same_board(gpu, [candidate for candidate in gpus if candidate.vendor == gpu.vendor])
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
        differing = [name for name in both if not _alike(name, _value(gpu, name), _value(twin, name))]
        if both and not differing:
            agreed.append(layer)
        for name in differing:
            value = f"{layer}: {_value(twin, name)}"
            differs[name] = f"{differs[name]}; {value}" if name in differs else value
    return replace(gpu, agreed_by=tuple(agreed), differs=differs)


def _same_board(gpu: Gpu, candidates: list[Gpu]) -> Gpu | None:
    """The same board as another layer sees it: by its place on the bus, its own number, or as the only one."""
    for name in ("pci", "uuid"):
        own = _value(gpu, name)
        for candidate in candidates:
            if own is not None and _value(candidate, name) == own:
                return candidate
    alone = candidates[0] if len(candidates) == 1 else None
    return None if alone is None or (alone.pci and gpu.pci) else alone


def _value(gpu: Gpu, name: str) -> object:
    value: object = getattr(gpu, name)
    return value


def _alike(name: str, left: object, right: object) -> bool:
    if name in _CLOSE and isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return abs(left - right) <= _CLOSE[name]
    return left == right
