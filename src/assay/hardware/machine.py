"""The machine in facts: processor, memory, system. What cannot be read is left out."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path

import psutil
from pydantic import JsonValue

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_OS_NAMES = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


@cache
def machine() -> dict[str, JsonValue]:
    """Facts about this machine that do not change while it runs."""
    facts: dict[str, JsonValue | None] = {
        "id": machine_id(),
        "name": platform.node(),
        "soc": cpu_model(),
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": psutil.cpu_count(logical=True),
        "physical_cores": psutil.cpu_count(logical=False),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
        "os": _OS_NAMES.get(sys.platform, platform.system()),
        "os_version": os_version(),
        "kernel": platform.release(),
        "virtual": "yes" if _has_cpu_flag("hypervisor") else None,
        **_gpu(),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


@cache
def machine_id() -> str:
    """A stable, opaque name of this machine: a hash of the system's own id, so that the id itself stays here."""
    for path in _MACHINE_IDS:
        text = _read(path)
        if text:
            return hashlib.sha256(f"assay:{text}".encode()).hexdigest()[:16]
    return hashlib.sha256(f"assay:{uuid.getnode()}:{platform.node()}".encode()).hexdigest()[:16]


def cpu_model() -> str:
    """The processor's own name."""
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string")
    for pattern in (r"^model name\s*:\s*(.+)$", r"^Model\s*:\s*(.+)$", r"^Hardware\s*:\s*(.+)$"):
        if match := re.search(pattern, _read("/proc/cpuinfo"), re.MULTILINE):
            return match[1].strip()
    return platform.processor()


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
    return _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None


def _gpu() -> dict[str, JsonValue | None]:
    """The first NVIDIA GPU as its driver names it, and how many there are."""
    text = _output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
    parts = [part.strip() for part in text.splitlines()[0].split(",")] if text else []
    if len(parts) != 3 or not parts[1].isdigit():
        return {}
    count = len(text.splitlines())
    return {"gpu": parts[0], "gpus": count, "gpu_memory_bytes": int(parts[1]) * 2**20, "driver": parts[2]}


def _has_cpu_flag(flag: str) -> bool:
    return re.search(rf"^flags\s*:.*\b{flag}\b", _read("/proc/cpuinfo"), re.MULTILINE) is not None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
