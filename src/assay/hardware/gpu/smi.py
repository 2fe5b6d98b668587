"""Layer 2: GPUs of NVIDIA as `nvidia-smi -q -x` tells them, in the XML of every driver since 418."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from assay.hardware.gpu.asking import Answer, Run, Unanswered, output
from assay.hardware.gpu.capability import abilities
from assay.hardware.gpu.record import Gpu, MigDevice, pci_address
from assay.hardware.gpu.throttle import reasons_of_names

LAYER = "nvidia-smi"
_STATES = {"Enabled": True, "Disabled": False}


def by_smi(run: Run = output) -> Answer:
    """All GPUs that nvidia-smi sees.

    Raises:
        Unanswered: nvidia-smi is not here, fails, or sees none.
    """
    text = run(("nvidia-smi", "-q", "-x"))
    try:
        # The XML does not tell the compute capability, and nvidia-smi of driver 470 and before has no such field.
        capabilities = _capabilities(run(("nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv,noheader")))
    except Unanswered:
        capabilities = {}
    found = from_xml(text, capabilities)
    if not found:
        raise Unanswered("nvidia-smi sees no GPU")
    return Answer(found, "" if capabilities else "this nvidia-smi does not tell the compute capability")


def from_xml(text: str, capabilities: Mapping[int, str]) -> tuple[Gpu, ...]:
    """The GPUs in an answer of `nvidia-smi -q -x`."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (written by the driver's own program)
    except ElementTree.ParseError as broken:
        raise Unanswered(f"nvidia-smi does not answer in XML: {broken}") from broken
    shared = (_text(root, "driver_version"), _text(root, "cuda_version"))
    return tuple(_gpu(index, one, shared, capabilities.get(index)) for index, one in enumerate(root.iter("gpu")))


def _gpu(index: int, one: ElementTree.Element, shared: tuple[str | None, str | None], capability: str | None) -> Gpu:
    can = abilities(capability)
    mig = _STATES.get(_text(one, "mig_mode/current_mig") or "")
    return Gpu(
        index=index,
        name=_text(one, "product_name") or "GPU without a name",
        vendor="nvidia",
        layer=LAYER,
        uuid=_text(one, "uuid"),
        memory_bytes=_bytes(one, "fb_memory_usage/total"),
        driver=shared[0],
        cuda=shared[1],
        capability=capability,
        pci=pci_address(_text(one, "pci/pci_bus_id") or ""),
        pcie=_pcie(one),
        power_limit_w=_power_limit_w(one),
        clocks_mhz=_clocks(one, "clocks"),
        max_clocks_mhz=_clocks(one, "max_clocks"),
        temperature_c=_number(one, "temperature/gpu_temp", "C"),
        # Boards since Hopper tell this one relative to a limit; then it is not known from here.
        slowdown_c=_number(one, "temperature/gpu_temp_slow_threshold", "C"),
        throttle=_throttle(one),
        ecc=_STATES.get(_text(one, "ecc_mode/current_ecc") or ""),
        mig=mig,
        mig_devices=tuple(_mig_device(part) for part in one.iterfind("mig_devices/mig_device")) if mig else (),
        # Without a capability the driver's own word stands; an unknown capability stays unknown.
        architecture=can.architecture if capability else _text(one, "product_architecture"),
        tensor_cores=can.tensor_cores,
        precisions=can.precisions,
        note=can.note,
    )


def _capabilities(csv: str) -> dict[int, str]:
    found = re.findall(r"^\s*(\d+)\s*,\s*(\d+\.\d+)\s*$", csv, re.MULTILINE)
    return {int(index): capability for index, capability in found}


def _text(one: ElementTree.Element, path: str) -> str | None:
    """A word of the answer; None for every way in which nvidia-smi says that it has none."""
    word = (one.findtext(path) or "").strip()
    said_no = ("N/A", "[", "Unknown Error", "ERR!", "GPU is lost", "Requested functionality", "Not Supported")
    return None if not word or word.startswith(said_no) else word


def _number(one: ElementTree.Element, path: str, unit: str) -> float | None:
    match = re.fullmatch(rf"(-?\d+(?:\.\d+)?) ?{re.escape(unit)}", _text(one, path) or "")
    return float(match[1]) if match else None


def _bytes(one: ElementTree.Element, path: str) -> int | None:
    mib = _number(one, path, "MiB")
    return int(mib) * 2**20 if mib else None


def _count(one: ElementTree.Element, path: str) -> int | None:
    number = _number(one, path, "")
    return None if number is None else int(number)


def _pcie(one: ElementTree.Element) -> dict[str, int]:
    link = "pci/pci_gpu_link_info"
    told = {
        "generation": _number(one, f"{link}/pcie_gen/current_link_gen", ""),
        "width": _number(one, f"{link}/link_widths/current_link_width", "x"),
        "max_generation": _number(one, f"{link}/pcie_gen/max_link_gen", ""),
        "max_width": _number(one, f"{link}/link_widths/max_link_width", "x"),
    }
    return {word: int(value) for word, value in told.items() if value}


def _power_limit_w(one: ElementTree.Element) -> float | None:
    for path in ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"):
        if limit := _number(one, path, "W"):
            return limit
    return None


def _clocks(one: ElementTree.Element, path: str) -> dict[str, float]:
    told = {"sm": _number(one, f"{path}/sm_clock", "MHz"), "memory": _number(one, f"{path}/mem_clock", "MHz")}
    return {word: mhz for word, mhz in told.items() if mhz}


def _throttle(one: ElementTree.Element) -> tuple[str, ...] | None:
    for kind in ("clocks_event_reason", "clocks_throttle_reason"):  # the second is the name before driver 535
        if (reasons := one.find(f"{kind}s")) is not None:
            return reasons_of_names({each.tag.removeprefix(f"{kind}_"): (each.text or "").strip() for each in reasons})
    return None


def _mig_device(part: ElementTree.Element) -> MigDevice:
    return MigDevice(
        index=_count(part, "index") or 0,
        uuid=_text(part, "uuid"),
        gpu_instance=_count(part, "gpu_instance_id"),
        compute_instance=_count(part, "compute_instance_id"),
        multiprocessors=_count(part, "device_attributes/shared/multiprocessor_count"),
        memory_bytes=_bytes(part, "fb_memory_usage/total"),
    )
