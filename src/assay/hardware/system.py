"""The system, the board it runs on, and whether a hypervisor stands between them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from assay.hardware import apple
from assay.hardware.instructions import has_flag
from assay.hardware.reading import Source, why_not

Facts = dict[str, JsonValue]

OS_NAMES = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_DMI = "/sys/class/dmi/id"
_TREES = ("/proc/device-tree", "/sys/firmware/devicetree/base")
# Serial numbers and ids of the machine stay where they are.
_BOARD = {
    "vendor": "sys_vendor", "product": "product_name", "board_vendor": "board_vendor", "board": "board_name",
    "firmware_vendor": "bios_vendor", "firmware": "bios_version", "firmware_date": "bios_date",
}  # fmt: skip
_NOTHING = ("", "none", "not specified", "default string", "to be filled by o.e.m.", "system product name", "unknown")
# Firmware of virtual machines names itself; a vendor that also sells bare machines is not in this list.
_FIRMWARE = {
    "QEMU": "QEMU", "KVM": "KVM", "VMware": "VMware", "VirtualBox": "VirtualBox", "innotek": "VirtualBox",
    "Xen": "Xen", "Bochs": "Bochs", "Parallels": "Parallels", "BHYVE": "bhyve", "Virtual Machine": "Hyper-V",
    "Google Compute Engine": "KVM of Google Compute Engine", "OpenStack": "OpenStack", "Firecracker": "Firecracker",
    "Apple Virtualization": "Apple Virtualization", "HVM domU": "Xen",
}  # fmt: skip
# What a hypervisor answers to the processor's own question for its name.
_LEAF = 0x4000_0000
_SIGNATURES = {
    b"KVMKVMKVM": "KVM", b"Microsoft Hv": "Hyper-V", b"VMwareVMware": "VMware", b"XenVMMXenVMM": "Xen",
    b"VBoxVBoxVBox": "VirtualBox", b"TCGTCGTCGTCG": "QEMU without acceleration", b"bhyve bhyve": "bhyve",
    b"ACRNACRNACRN": "ACRN", b"prl hyperv": "Parallels", b"QNXQVMBSQG": "QNX",
}  # fmt: skip


def operating_system(source: Source) -> Facts:
    """The system's name, version and kernel."""
    facts: Facts = {"name": OS_NAMES.get(source.system, source.system), "architecture": source.architecture}
    if source.system == "darwin":
        told = apple.settings(source)
        version, kernel = told.get("kern.osproductversion", ""), told.get("kern.osrelease", "")
    elif source.system == "linux":
        version, kernel = _pretty_name(source), source.text("/proc/sys/kernel/osrelease", "os.kernel")
    else:
        version, kernel = platform.version(), platform.release()
    for fact, value in (("version", version), ("kernel", kernel)):
        if value:
            facts[fact] = value
        else:
            source.lack(f"os.{fact}", "the system does not tell")
    return facts


def board(source: Source) -> Facts:
    """What the machine itself is called: by its firmware, its device tree, or its maker."""
    if source.system == "darwin":
        model = apple.settings(source).get("hw.model")
        if not model:
            source.lack("board", "sysctl does not tell hw.model")
        return {"vendor": "Apple", "product": model} if model else {}
    for tree in _TREES:
        if model := source.text(f"{tree}/model"):
            compatible = source.text(f"{tree}/compatible").replace("\0", " ").split()
            return {"product": model, **({"compatible": [*compatible]} if compatible else {})}
    found: Facts = {
        name: text for name, file in _BOARD.items() if (text := source.text(f"{_DMI}/{file}")).lower() not in _NOTHING
    }
    if not found:
        source.lack("board", f"neither {_DMI} nor a device tree is there")
    return found


def virtualisation(source: Source, blocks: Sequence[Mapping[str, str]]) -> Facts:
    """Whether this is a virtual machine, of which hypervisor, and what tells so."""
    if source.system == "darwin":
        return _of_a_mac(source)
    if "microsoft" in source.text("/proc/sys/kernel/osrelease").lower():
        return {"virtual": True, "hypervisor": "Hyper-V, by WSL", "told_by": "the name of the kernel"}
    named = _named(source)
    if any("flags" in block for block in blocks):  # x86 has a flag for it, so that its absence tells too
        if not has_flag(blocks, "hypervisor"):
            return {"virtual": False, "told_by": "the processor's flags"}
        signed = _signature(source)
        return {"virtual": True, "told_by": "the processor's flags", **(signed or named)}
    if named:
        return {"virtual": True, **named}
    source.lack("virtualisation", "this processor has no flag for it, and nothing else names a hypervisor")
    return {}


def _of_a_mac(source: Source) -> Facts:
    told = apple.settings(source).get("kern.hv_vmm_present")
    if told not in ("0", "1"):
        source.lack("virtualisation", "sysctl does not tell kern.hv_vmm_present")
        return {}
    return {"virtual": told == "1", "told_by": "kern.hv_vmm_present"}


def _named(source: Source) -> Facts:
    """The hypervisor as the kernel, the device tree or the firmware names it."""
    if kind := source.text("/sys/hypervisor/type"):
        return {"hypervisor": kind.capitalize(), "told_by": "/sys/hypervisor/type"}
    for tree in _TREES:
        if compatible := source.text(f"{tree}/hypervisor/compatible"):
            name = compatible.split("\0")[0].rpartition(",")[2]
            return {"hypervisor": name.upper() if name == "kvm" else name.capitalize(), "told_by": "the device tree"}
    for file in ("product_name", "sys_vendor", "board_vendor", "bios_vendor"):
        text = source.text(f"{_DMI}/{file}")
        for word, name in _FIRMWARE.items():
            if word in text:
                return {"hypervisor": name, "told_by": f"the firmware ({text})"}
    return {}


def _signature(source: Source) -> Facts:
    """The name that the hypervisor gives when the processor is asked, where this may be asked."""
    path = "/dev/cpu/0/cpuid"
    try:
        with os.fdopen(os.open(source.at(path), os.O_RDONLY), "rb", buffering=0) as file:
            answer = os.pread(file.fileno(), 16, _LEAF)
    except OSError as problem:
        source.lack("virtualisation.hypervisor", why_not(problem, path))
        return {}
    name = answer[4:16].rstrip(b"\0 ")
    if len(answer) != 16 or not name:
        source.lack("virtualisation.hypervisor", "the hypervisor does not tell its name")
        return {}
    known = _SIGNATURES.get(name) or name.decode("ascii", "replace")
    return {"hypervisor": known, "told_by": "the processor's identification"}


def _pretty_name(source: Source) -> str:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        for line in source.text(path).splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip("\"' ")
    source.lack("os.version", "/etc/os-release tells no name")
    return ""
