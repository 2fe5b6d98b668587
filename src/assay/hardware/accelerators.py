"""Accelerators: GPUs as their layers tell, and whatever else a driver shows in sysfs, by the driver's words alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.hardware.source import Facts, FactSource

if TYPE_CHECKING:
    from assay.hardware.gpu.detect import Detection
    from assay.hardware.gpu.record import Gpu


# Device classes of the drivers of NPUs and the like.
_CLASSES = ("accel", "apex", "hailo_chardev", "habanalabs", "neuron_device", "xrt_user", "npu", "vpu")
_PCI = "/sys/bus/pci/devices"
_USB = "/sys/bus/usb/devices"
# "Processing accelerator" in the classes of the PCI standard.
_PCI_CLASS = 0x12
_GPU_DRIVERS = ("nvidia", "nouveau", "amdgpu", "radeon", "i915", "xe")
# Google's USB accelerator: as it is plugged in, and after its first use.
_USB_IDS = {("1a6e", "089a"), ("18d1", "9302")}
# What changes while the machine runs; a result keeps it with the moment at which it was read.
_MOMENTARY = ("temperature_c", "throttle", "clocks_mhz")


def gpu_facts(detection: Detection, *, now: bool) -> Facts:
    """The GPUs, the layer that told of them, and what each other layer answered."""
    return {**detection.record(), "gpus": [_facts(one, now=now) for one in detection.gpus]}


def counted_gpus(detection: Detection) -> tuple[Gpu, ...]:
    """The GPUs on which work can be placed: a bare display adapter, which has no memory of its own, is none."""
    return tuple(one for one in detection.gpus if one.layer != "sysfs" or one.memory_bytes)


def other_accelerators(source: FactSource) -> list[JsonValue]:
    found = [*_by_class(source), *_by_pci(source), *_by_usb(source)]
    unique: dict[str, Facts] = {}
    for one in found:
        unique.setdefault(str(one.get("pci") or one.get("usb") or one["name"]), one)
    return [*unique.values()]


def _facts(gpu: Gpu, *, now: bool) -> Facts:
    told = gpu.record()
    if now:
        return told
    facts = {name: value for name, value in told.items() if name not in _MOMENTARY}
    if gpu.pcie:  # an idle link goes slower
        facts["pcie"] = {name: value for name, value in gpu.pcie.items() if name.startswith("max_")}
    return facts


def _by_class(source: FactSource) -> Iterable[Facts]:
    for kind in _CLASSES:
        for name in source.names(f"/sys/class/{kind}"):
            folder = f"/sys/class/{kind}/{name}/device"
            told = _uevent(source, folder)
            facts = {
                "name": name,
                "class": kind,
                "driver": told.get("DRIVER") or source.link(f"{folder}/driver"),
                "pci": told.get("PCI_SLOT_NAME", ""),
                "pci_id": told.get("PCI_ID", "").lower(),
            }
            yield {fact: text for fact, text in facts.items() if text}


def _by_pci(source: FactSource) -> Iterable[Facts]:
    for slot in source.names(_PCI):
        number = source.number(f"{_PCI}/{slot}/class")
        driver = source.link(f"{_PCI}/{slot}/driver")
        if number is None or number >> 16 != _PCI_CLASS or driver in _GPU_DRIVERS:
            continue
        pair = [source.text(f"{_PCI}/{slot}/{part}").removeprefix("0x") for part in ("vendor", "device")]
        facts: Facts = {"name": slot, "class": "processing accelerator", "pci": slot}
        facts |= {"driver": driver} if driver else {}
        yield facts | ({"pci_id": ":".join(pair)} if all(pair) else {})


def _by_usb(source: FactSource) -> Iterable[Facts]:
    for name in source.names(_USB):
        ids = (source.text(f"{_USB}/{name}/idVendor"), source.text(f"{_USB}/{name}/idProduct"))
        if ids in _USB_IDS:
            product = source.text(f"{_USB}/{name}/product")
            yield {"name": product or name, "class": "usb", "usb": name, "usb_id": ":".join(ids)}


def _uevent(source: FactSource, folder: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in source.text(f"{folder}/uevent").splitlines())
    return {name: value for name, sign, value in pairs if sign}
