"""The machine in facts: processor, memory, system. What cannot be read is left out."""

from __future__ import annotations

import hashlib
import platform
import sys
import uuid
from functools import cache

import psutil
from pydantic import JsonValue

from assay.hardware import cpu
from assay.hardware.accelerators import counted_gpus
from assay.hardware.instructions import has_flag
from assay.hardware.limits import Limits, limits
from assay.hardware.reading import Source
from assay.hardware.system import OS_NAMES

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


@cache
def machine() -> dict[str, JsonValue]:
    """Facts about this machine that do not change while it runs."""
    source = Source()
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
    source = Source()
    for path in _MACHINE_IDS:
        text = source.text(path)
        if text:
            return hashlib.sha256(f"assay:{text}".encode()).hexdigest()[:16]
    return hashlib.sha256(f"assay:{uuid.getnode()}:{platform.node()}".encode()).hexdigest()[:16]


@cache
def own_limits() -> Limits:
    """What of this machine this process may use."""
    return limits(Source())


def cpu_model() -> str:
    """The processor's own name."""
    if sys.platform == "darwin":
        return Source().command("sysctl", "-n", "machdep.cpu.brand_string")
    return cpu.model_name(cpu.cpuinfo(Source())) or platform.processor()


def os_version() -> str:
    """The name and version of the system, as its maker writes it."""
    if sys.platform == "darwin":
        return platform.mac_ver()[0]
    if sys.platform == "linux":
        try:
            return platform.freedesktop_os_release().get("PRETTY_NAME", "")
        except OSError:
            return ""
    return platform.version()


def governor() -> str | None:
    """The frequency governor of the first core, where the system shows it."""
    return cpu.governor(Source())


def _gpu() -> dict[str, JsonValue | None]:
    """The first GPU on which work can be placed, as its driver names it, and how many there are."""
    from assay.hardware.gpu.detect import local_gpus

    found = counted_gpus(local_gpus())
    if not found:
        return {}
    first = found[0]
    return {
        "gpu": first.name,
        "gpus": len(found),
        "gpu_memory_bytes": first.memory_bytes,
        "driver": first.driver,
    }
