"""Layer 1: GPUs of NVIDIA as NVML tells them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from assay.hardware.gpu.asking import Answer
from assay.hardware.gpu.capability import abilities, multiprocessors
from assay.hardware.gpu.library import GPU_SENSOR, MEMORY_CLOCK, SLOWDOWN, SM_CLOCK, Load, Nvml
from assay.hardware.gpu.record import Gpu, MigDevice, pci_address
from assay.hardware.gpu.throttle import reasons_of_bits

LAYER = "nvml"
_MOST_LINKS = 36


def by_nvml(load: Load = import_module) -> Answer:
    """All GPUs that NVML sees.

    Raises:
        Unanswered: NVML is not here, or sees none.
    """
    nvml = Nvml(load)
    try:
        handles, reasons = nvml.devices()
        found = tuple(_gpu(nvml, index, handle) for index, handle in enumerate(handles) if handle is not None)
    finally:
        nvml.close()
    return Answer(found, "; ".join(f"GPU {index}: {reason}" for index, reason in reasons.items()))


def _gpu(nvml: Nvml, index: int, device: Any) -> Gpu:  # noqa: ANN401  (NVML has no types)
    capability = _capability(nvml.ask("nvmlDeviceGetCudaComputeCapability", device))
    can = abilities(capability)
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", device)
    limit_mw = nvml.number("nvmlDeviceGetEnforcedPowerLimit", device)
    mig = _first(nvml.ask("nvmlDeviceGetMigMode", device))
    ecc = _first(nvml.ask("nvmlDeviceGetEccMode", device))
    cuda = nvml.number("nvmlSystemGetCudaDriverVersion_v2") or nvml.number("nvmlSystemGetCudaDriverVersion")
    return Gpu(
        index=index,
        name=nvml.text("nvmlDeviceGetName", device) or "GPU without a name",
        vendor="nvidia",
        layer=LAYER,
        uuid=nvml.text("nvmlDeviceGetUUID", device),
        memory_bytes=int(memory.total) if memory is not None else None,
        driver=nvml.text("nvmlSystemGetDriverVersion"),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        capability=capability,
        multiprocessors=multiprocessors(nvml.number("nvmlDeviceGetNumGpuCores", device), capability),
        pci=_pci(nvml.ask("nvmlDeviceGetPciInfo", device)),
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


def _pci(told: Any) -> str | None:  # noqa: ANN401
    bus_id = getattr(told, "busId", "")
    return pci_address(bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id))


def _pcie(nvml: Nvml, device: object) -> dict[str, int]:
    asked = {
        "generation": "nvmlDeviceGetCurrPcieLinkGeneration",
        "width": "nvmlDeviceGetCurrPcieLinkWidth",
        "max_generation": "nvmlDeviceGetMaxPcieLinkGeneration",
        "max_width": "nvmlDeviceGetMaxPcieLinkWidth",
    }
    return {word: value for word, name in asked.items() if (value := nvml.number(name, device))}


def _nvlinks(nvml: Nvml, device: object) -> int | None:
    """How many NVLinks are active; None where the board does not tell of a single one."""
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
    told = nvml.number("nvmlDeviceGetTemperature", device, GPU_SENSOR)
    return told if told is not None else nvml.number("nvmlDeviceGetTemperatureV", device, GPU_SENSOR)


def _throttle(nvml: Nvml, device: object) -> tuple[str, ...] | None:
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        if (bits := nvml.number(name, device)) is not None:
            return reasons_of_bits(bits)
    return None


def _mig_devices(nvml: Nvml, device: object) -> tuple[MigDevice, ...]:
    found = []
    for index in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", device) or 0):
        part = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
        if part is None:  # not every place is taken
            continue
        attributes = nvml.ask("nvmlDeviceGetAttributes_v2", part)
        found.append(
            MigDevice(
                index=index,
                uuid=nvml.text("nvmlDeviceGetUUID", part),
                gpu_instance=nvml.number("nvmlDeviceGetGpuInstanceId", part),
                compute_instance=nvml.number("nvmlDeviceGetComputeInstanceId", part),
                multiprocessors=int(attributes.multiprocessorCount) if attributes is not None else None,
                memory_bytes=int(attributes.memorySizeMB) * 2**20 if attributes is not None else None,
            )
        )
    return tuple(found)
