"""The machine in facts: identity, operating system, board and hypervisor. What cannot be read is left out."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import cache

import psutil
from pydantic import JsonValue

from assay.hardware import apple, cpu
from assay.hardware.components import counted_gpus
from assay.hardware.cpu import has_flag
from assay.hardware.limits import ProcessLimits, limits
from assay.hardware.source import Facts, FactSource, why_not

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


def operating_system(source: FactSource) -> Facts:
    facts: Facts = {"name": OS_NAMES.get(source.system, source.system), "architecture": source.architecture}
    if source.system == "darwin":
        settings = apple.settings(source)
        version, kernel = settings.get("kern.osproductversion", ""), settings.get("kern.osrelease", "")
    elif source.system == "linux":
        version, kernel = _pretty_name(source), source.text("/proc/sys/kernel/osrelease", "os.kernel")
    else:
        version, kernel = platform.version(), platform.release()
    for fact, value in (("version", version), ("kernel", kernel)):
        if value:
            facts[fact] = value
        else:
            source.lack(f"os.{fact}", "the system does not report it")
    return facts


def board(source: FactSource) -> Facts:
    """What the machine itself is called: by its firmware, its device tree, or its maker."""
    if source.system == "darwin":
        model = apple.settings(source).get("hw.model")
        if not model:
            source.lack("board", "sysctl has no hw.model")
        return {"vendor": "Apple", "product": model} if model else {}
    for tree in _TREES:
        if model := source.text(f"{tree}/model"):
            compatible = source.text(f"{tree}/compatible").replace("\0", " ").split()
            return {"product": model, **({"compatible": [*compatible]} if compatible else {})}
    board: Facts = {
        name: text for name, file in _BOARD.items() if (text := source.text(f"{_DMI}/{file}")).lower() not in _NOTHING
    }
    if not board:
        source.lack("board", f"neither {_DMI} nor a device tree is there")
    return board


def virtualisation(source: FactSource, blocks: Sequence[Mapping[str, str]]) -> Facts:
    """Whether this is a virtual machine, of which hypervisor, and what tells so."""
    if source.system == "darwin":
        return _of_a_mac(source)
    if "microsoft" in source.text("/proc/sys/kernel/osrelease").lower():
        return {"virtual": True, "hypervisor": "Hyper-V, by WSL", "told_by": "the name of the kernel"}
    name = _named(source)
    if any("flags" in block for block in blocks):  # x86 has a flag for it, so that its absence tells too
        if not has_flag(blocks, "hypervisor"):
            return {"virtual": False, "told_by": "the processor's flags"}
        signed = _signature(source)
        return {"virtual": True, "told_by": "the processor's flags", **(signed or name)}
    if name:
        return {"virtual": True, **name}
    source.lack("virtualisation", "this processor has no flag for it, and nothing else names a hypervisor")
    return {}


def _of_a_mac(source: FactSource) -> Facts:
    flag = apple.settings(source).get("kern.hv_vmm_present")
    if flag not in ("0", "1"):
        source.lack("virtualisation", "sysctl has no kern.hv_vmm_present")
        return {}
    return {"virtual": flag == "1", "told_by": "kern.hv_vmm_present"}


def _named(source: FactSource) -> Facts:
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


def _signature(source: FactSource) -> Facts:
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
        source.lack("virtualisation.hypervisor", "the hypervisor does not report its name")
        return {}
    hypervisor = _SIGNATURES.get(name) or name.decode("ascii", "replace")
    return {"hypervisor": hypervisor, "told_by": "the processor's identification"}


def _pretty_name(source: FactSource) -> str:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        for line in source.text(path).splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip("\"' ")
    source.lack("os.version", "/etc/os-release tells no name")
    return ""


_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


@cache
def machine() -> dict[str, JsonValue]:
    """Facts about this machine that do not change while it runs."""
    source = FactSource()
    blocks = cpu.cpuinfo(source) if sys.platform == "linux" else []
    model = cpu.model_name(blocks) or cpu_model()
    facts: dict[str, JsonValue | None] = {
        "id": machine_id(),
        "name": platform.node(),
        "soc": model,
        "cpu": model,
        "architecture": platform.machine(),
        "cores": psutil.cpu_count(logical=True),
        "physical_cores": psutil.cpu_count(logical=False),
        "usable_cores": own_limits().usable_cores,
        "memory_bytes": psutil.virtual_memory().total,
        "os": OS_NAMES.get(sys.platform, platform.system()),
        "os_version": os_version(),
        "kernel": platform.release(),
        "virtual": "yes" if has_flag(blocks, "hypervisor") else None,
        **_gpu(),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


@cache
def machine_id() -> str:
    """A stable, opaque name of this machine: a hash of the system's own id, so that the id itself stays here."""
    source = FactSource()
    own = next((text for path in _MACHINE_IDS if (text := source.text(path))), f"{uuid.getnode()}:{platform.node()}")
    return hashlib.sha256(f"assay:{own}".encode()).hexdigest()[:16]


@cache
def own_limits() -> ProcessLimits:
    """What of this machine this process may use."""
    return limits(FactSource())


def cpu_model() -> str:
    if sys.platform == "darwin":
        return FactSource().command("sysctl", "-n", "machdep.cpu.brand_string")
    return cpu.model_name(cpu.cpuinfo(FactSource())) or platform.processor()


def os_version() -> str:
    """The name and version of the system, as its maker writes it."""
    if sys.platform == "darwin":
        return platform.mac_ver()[0]
    return _pretty_name(FactSource()) if sys.platform == "linux" else platform.version()


def governor() -> str | None:
    """The frequency governor of the first core, where the system shows it."""
    return cpu.governor(FactSource())


def _gpu() -> dict[str, JsonValue | None]:
    """The first GPU on which work can be placed, as its driver names it, and how many there are."""
    from assay.hardware.gpu.detect import local_gpus

    boards = counted_gpus(local_gpus())
    if not boards:
        return {}
    first = boards[0]
    return {"gpu": first.name, "gpus": len(boards), "gpu_memory_bytes": first.memory_bytes, "driver": first.driver}
