"""Layers 1 and 2: GPUs of NVIDIA through NVML and through `nvidia-smi -q -x` (XML of every driver since 418)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

from assay.hardware.gpu.nvml import (
    GPU_SENSOR,
    MEMORY_CLOCK,
    SLOWDOWN,
    SM_CLOCK,
    Load,
    Nvml,
    reasons_of_bits,
    reasons_of_names,
)
from assay.hardware.gpu.record import (
    Gpu,
    LayerBrokenError,
    LayerReport,
    LayerUnavailableError,
    MigDevice,
    Run,
    output,
    pci_address,
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a GPU can do, as far as its compute capability tells."""

    architecture: str | None = None
    tensor_cores: int | None = None
    """Generation; 0 where it has none, None where that is not known."""
    precisions: tuple[str, ...] = ()
    cores_per_multiprocessor: int | None = None
    note: str = ""


# Architecture, FP32 cores in each multiprocessor, generation of the tensor cores (0: none, None: unknown).
_KNOWN: dict[str, tuple[str, int, int | None]] = {
    "3.0": ("Kepler", 192, 0), "3.2": ("Kepler", 192, 0), "3.5": ("Kepler", 192, 0), "3.7": ("Kepler", 192, 0),
    "5.0": ("Maxwell", 128, 0), "5.2": ("Maxwell", 128, 0), "5.3": ("Maxwell", 128, 0), "6.0": ("Pascal", 64, 0),
    "6.1": ("Pascal", 128, 0), "6.2": ("Pascal", 128, 0), "7.0": ("Volta", 64, 1), "7.2": ("Volta", 64, 1),
    "7.5": ("Turing", 64, None), "8.0": ("Ampere", 64, 3), "8.6": ("Ampere", 128, 3), "8.7": ("Ampere", 128, 3),
    "8.9": ("Ada", 128, 4), "9.0": ("Hopper", 128, 4), "10.0": ("Blackwell", 128, 5), "10.1": ("Blackwell", 128, 5),
    "10.3": ("Blackwell", 128, 5), "11.0": ("Blackwell", 128, 5), "12.0": ("Blackwell", 128, 5),
    "12.1": ("Blackwell", 128, 5),
}  # fmt: skip
# Precision → the first capability with instructions for it.
_PRECISIONS: dict[str, tuple[int, int]] = {
    "fp64": (1, 3), "fp32": (1, 0), "tf32": (8, 0), "fp16": (5, 3), "bf16": (8, 0), "int8": (6, 1), "fp8": (8, 9),
    "fp4": (10, 0),
}  # fmt: skip
# TU102, TU104 and TU106 have tensor cores; TU116 and TU117 have none and run the same instructions elsewhere. No
# function of CUDA or NVML tells them apart, device numbers are mixed, and names are not asked.
_TURING = (
    "capability 7.5 stands for boards with tensor cores of the 2nd generation and for boards without any; "
    "nothing but a measurement tells which"
)


def abilities(capability: str | None) -> Abilities:
    """What this compute capability stands for; empty, with the reason, where it is not a known one."""
    if capability is None:
        return Abilities()
    if capability not in _KNOWN:
        return Abilities(
            note=f"compute capability {capability} is not a known one: "
            "its architecture, tensor cores and precisions are left out"
        )
    architecture, cores, tensor_cores = _KNOWN[capability]
    major, _, minor = capability.partition(".")
    number = (int(major), int(minor))
    return Abilities(
        architecture=architecture,
        tensor_cores=tensor_cores,
        precisions=tuple(name for name, first in _PRECISIONS.items() if number >= first),
        cores_per_multiprocessor=cores,
        note=_TURING if capability == "7.5" else "",
    )


def multiprocessors(cores: int | None, capability: str | None) -> int | None:
    """The number of multiprocessors; None unless the capability is known and the cores divide evenly."""
    each = abilities(capability).cores_per_multiprocessor
    return None if not cores or each is None or cores % each else cores // each


NVML = "nvml"
_MOST_LINKS = 36


def by_nvml(load: Load = import_module) -> LayerReport:
    """All GPUs that NVML sees."""
    nvml = Nvml(load)
    try:
        handles, reasons = nvml.devices()
        gpus = tuple(_gpu(nvml, index, handle) for index, handle in enumerate(handles) if handle is not None)
    finally:
        nvml.close()
    return LayerReport(gpus, "; ".join(f"GPU {index}: {reason}" for index, reason in reasons.items()))


def _gpu(nvml: Nvml, index: int, device: Any) -> Gpu:  # noqa: ANN401  (NVML has no types)
    capability = _capability(nvml.query("nvmlDeviceGetCudaComputeCapability", device))
    can = abilities(capability)
    memory = nvml.query("nvmlDeviceGetMemoryInfo", device)
    limit_mw = nvml.number("nvmlDeviceGetEnforcedPowerLimit", device)
    mig = _first(nvml.query("nvmlDeviceGetMigMode", device))
    ecc = _first(nvml.query("nvmlDeviceGetEccMode", device))
    cuda = nvml.number("nvmlSystemGetCudaDriverVersion_v2") or nvml.number("nvmlSystemGetCudaDriverVersion")
    return Gpu(
        index=index,
        name=nvml.text("nvmlDeviceGetName", device) or "GPU without a name",
        vendor="nvidia",
        layer=NVML,
        uuid=nvml.text("nvmlDeviceGetUUID", device),
        memory_bytes=None if memory is None else int(memory.total),
        driver=nvml.text("nvmlSystemGetDriverVersion"),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        capability=capability,
        multiprocessors=multiprocessors(nvml.number("nvmlDeviceGetNumGpuCores", device), capability),
        pci=_pci(nvml.query("nvmlDeviceGetPciInfo", device)),
        pcie=_pcie(nvml, device),
        nvlinks=_nvlinks(nvml, device),
        power_limit_w=limit_mw / 1e3 if limit_mw else None,
        clocks_mhz=_clocks(nvml, "nvmlDeviceGetClockInfo", device),
        max_clocks_mhz=_clocks(nvml, "nvmlDeviceGetMaxClockInfo", device),
        temperature_c=_celsius(nvml, device),
        slowdown_c=nvml.number("nvmlDeviceGetTemperatureThreshold", device, SLOWDOWN),
        throttle=_throttle(nvml, device),
        ecc=None if ecc is None else bool(ecc),
        mig=None if mig is None else bool(mig),
        mig_devices=_mig_devices(nvml, device) if mig else (),
        architecture=can.architecture,
        tensor_cores=can.tensor_cores,
        precisions=can.precisions,
        note=can.note,
    )


def _capability(pair: Any) -> str | None:  # noqa: ANN401
    return f"{pair[0]}.{pair[1]}" if isinstance(pair, (tuple, list)) and len(pair) == 2 else None


def _first(pair: Any) -> int | None:  # noqa: ANN401
    """The state now, of a pair of now and after the next start."""
    return int(pair[0]) if isinstance(pair, (tuple, list)) and pair else None


def _pci(info: Any) -> str | None:  # noqa: ANN401
    bus_id = getattr(info, "busId", "")
    return pci_address(bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id))


def _pcie(nvml: Nvml, device: object) -> dict[str, int]:
    calls = {
        "generation": "nvmlDeviceGetCurrPcieLinkGeneration",
        "width": "nvmlDeviceGetCurrPcieLinkWidth",
        "max_generation": "nvmlDeviceGetMaxPcieLinkGeneration",
        "max_width": "nvmlDeviceGetMaxPcieLinkWidth",
    }
    return {word: value for word, name in calls.items() if (value := nvml.number(name, device))}


def _nvlinks(nvml: Nvml, device: object) -> int | None:
    """How many NVLinks are active; None where the board reports none."""
    active: int | None = None
    for link in range(_MOST_LINKS):
        state = nvml.number("nvmlDeviceGetNvLinkState", device, link)
        if state is None:  # no such link, or one that this board has switched off
            continue
        active = (active or 0) + bool(state)
    return active


def _clocks(nvml: Nvml, name: str, device: object) -> dict[str, float]:
    kinds = {"sm": SM_CLOCK, "memory": MEMORY_CLOCK}
    return {word: float(mhz) for word, kind in kinds.items() if (mhz := nvml.number(name, device, kind))}


def _celsius(nvml: Nvml, device: object) -> float | None:
    celsius = nvml.number("nvmlDeviceGetTemperature", device, GPU_SENSOR)
    return celsius if celsius is not None else nvml.number("nvmlDeviceGetTemperatureV", device, GPU_SENSOR)


def _throttle(nvml: Nvml, device: object) -> tuple[str, ...] | None:
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        if (bits := nvml.number(name, device)) is not None:
            return reasons_of_bits(bits)
    return None


def _mig_devices(nvml: Nvml, device: object) -> tuple[MigDevice, ...]:
    devices = []
    for index in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", device) or 0):
        part = nvml.query("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
        if part is None:  # not every place is taken
            continue
        attributes = nvml.query("nvmlDeviceGetAttributes_v2", part)
        devices.append(
            MigDevice(
                index=index,
                uuid=nvml.text("nvmlDeviceGetUUID", part),
                gpu_instance=nvml.number("nvmlDeviceGetGpuInstanceId", part),
                compute_instance=nvml.number("nvmlDeviceGetComputeInstanceId", part),
                multiprocessors=int(attributes.multiprocessorCount) if attributes is not None else None,
                memory_bytes=int(attributes.memorySizeMB) * 2**20 if attributes is not None else None,
            )
        )
    return tuple(devices)


NVIDIA_SMI = "nvidia-smi"
_STATES = {"Enabled": True, "Disabled": False}


def by_smi(run: Run = output) -> LayerReport:
    """All GPUs that nvidia-smi sees."""
    text = run(("nvidia-smi", "-q", "-x"))
    try:
        # The XML does not have the compute capability, and nvidia-smi of driver 470 and before has no such field.
        capabilities = _capabilities(run(("nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv,noheader")))
    except LayerUnavailableError:
        capabilities = {}
    gpus = from_xml(text, capabilities)
    if not gpus:
        raise LayerUnavailableError("nvidia-smi sees no GPU")
    return LayerReport(gpus, "" if capabilities else "this nvidia-smi does not report the compute capability")


def from_xml(text: str, capabilities: Mapping[int, str]) -> tuple[Gpu, ...]:
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (written by the driver's own program)
    except ElementTree.ParseError as broken:
        raise LayerBrokenError(f"nvidia-smi does not answer in XML: {broken}") from broken
    shared = (_text(root, "driver_version"), _text(root, "cuda_version"))
    return tuple(
        _gpu_smi(index, element, shared, capabilities.get(index)) for index, element in enumerate(root.iter("gpu"))
    )


def _gpu_smi(
    index: int, element: ElementTree.Element, shared: tuple[str | None, str | None], capability: str | None
) -> Gpu:
    can = abilities(capability)
    mig = _STATES.get(_text(element, "mig_mode/current_mig") or "")
    return Gpu(
        index=index,
        name=_text(element, "product_name") or "GPU without a name",
        vendor="nvidia",
        layer=NVIDIA_SMI,
        uuid=_text(element, "uuid"),
        memory_bytes=_bytes(element, "fb_memory_usage/total"),
        driver=shared[0],
        cuda=shared[1],
        capability=capability,
        pci=pci_address(_text(element, "pci/pci_bus_id") or ""),
        pcie=_pcie_smi(element),
        power_limit_w=_power_limit_w(element),
        clocks_mhz=_clocks_smi(element, "clocks"),
        max_clocks_mhz=_clocks_smi(element, "max_clocks"),
        temperature_c=_number(element, "temperature/gpu_temp", "C"),
        # Boards since Hopper tell this one relative to a limit; then it is not known from here.
        slowdown_c=_number(element, "temperature/gpu_temp_slow_threshold", "C"),
        throttle=_throttle_smi(element),
        ecc=_STATES.get(_text(element, "ecc_mode/current_ecc") or ""),
        mig=mig,
        mig_devices=tuple(_mig_device(part) for part in element.iterfind("mig_devices/mig_device")) if mig else (),
        # Without a capability the driver's own word stands; an unknown capability stays unknown.
        architecture=can.architecture if capability else _text(element, "product_architecture"),
        tensor_cores=can.tensor_cores,
        precisions=can.precisions,
        note=can.note,
    )


def _capabilities(csv: str) -> dict[int, str]:
    rows = re.findall(r"^\s*(\d+)\s*,\s*(\d+\.\d+)\s*$", csv, re.MULTILINE)
    return {int(index): capability for index, capability in rows}


def _text(element: ElementTree.Element, path: str) -> str | None:
    """A word of the answer; None for every way in which nvidia-smi says that it has none."""
    word = (element.findtext(path) or "").strip()
    said_no = ("N/A", "[", "Unknown Error", "ERR!", "GPU is lost", "Requested functionality", "Not Supported")
    return None if not word or word.startswith(said_no) else word


def _number(element: ElementTree.Element, path: str, unit: str) -> float | None:
    match = re.fullmatch(rf"(-?\d+(?:\.\d+)?) ?{re.escape(unit)}", _text(element, path) or "")
    return float(match[1]) if match else None


def _bytes(element: ElementTree.Element, path: str) -> int | None:
    mib = _number(element, path, "MiB")
    return int(mib) * 2**20 if mib else None


def _pcie_smi(element: ElementTree.Element) -> dict[str, int]:
    link = "pci/pci_gpu_link_info"
    pcie = {
        "generation": _number(element, f"{link}/pcie_gen/current_link_gen", ""),
        "width": _number(element, f"{link}/link_widths/current_link_width", "x"),
        "max_generation": _number(element, f"{link}/pcie_gen/max_link_gen", ""),
        "max_width": _number(element, f"{link}/link_widths/max_link_width", "x"),
    }
    return {word: int(value) for word, value in pcie.items() if value}


def _power_limit_w(element: ElementTree.Element) -> float | None:
    for path in ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"):
        if limit := _number(element, path, "W"):
            return limit
    return None


def _clocks_smi(element: ElementTree.Element, path: str) -> dict[str, float]:
    clocks = {"sm": _number(element, f"{path}/sm_clock", "MHz"), "memory": _number(element, f"{path}/mem_clock", "MHz")}
    return {word: mhz for word, mhz in clocks.items() if mhz}


def _throttle_smi(element: ElementTree.Element) -> tuple[str, ...] | None:
    for kind in ("clocks_event_reason", "clocks_throttle_reason"):  # the second is the name before driver 535
        if (reasons := element.find(f"{kind}s")) is not None:
            return reasons_of_names({each.tag.removeprefix(f"{kind}_"): (each.text or "").strip() for each in reasons})
    return None


def _mig_device(part: ElementTree.Element) -> MigDevice:
    def count(path: str) -> int | None:
        number = _number(part, path, "")
        return None if number is None else int(number)

    return MigDevice(
        index=count("index") or 0,
        uuid=_text(part, "uuid"),
        gpu_instance=count("gpu_instance_id"),
        compute_instance=count("compute_instance_id"),
        multiprocessors=count("device_attributes/shared/multiprocessor_count"),
        memory_bytes=_bytes(part, "fb_memory_usage/total"),
    )
