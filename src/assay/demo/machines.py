"""The machines of the demo fleet: what each is, what it offers, and how fast it is beside the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pydantic import JsonValue

from assay.place.fleet.protocol import Enrolment
from assay.place.needs import Profile
from assay.sim.history.settings import SimulatedHost
from assay.version import __version__

# What an agent tells of its machine, of the facts in a result.
_DEVICE_FACTS = ("cpu", "cores", "memory_bytes", "os", "os_version", "kernel", "architecture", "gpu", "gpus", "driver")
_OS = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}


class DemoMachine(SimulatedHost):
    """One machine that never was."""

    name: str = ""
    kind: str
    """In a word, for its labels."""
    kernel: str = "6.1.0-28-amd64"
    packages: dict[str, str] = {"onnxruntime": "1.22.0", "numpy": "2.2.4"}  # noqa: RUF012  (pydantic copies it)
    speed: float = 1.0
    """How long its processor takes beside that of a server."""
    gpu_speed: float = 0.0
    """What its GPU does beside an H100."""
    idle_w: float = 60.0
    busy_w: float = 180.0
    spread: float = 0.006
    """How far two runs are apart, as a share."""
    price: float = 0.0
    """Per hour, in dollars; 0 where it is not paid by the hour."""
    commands: bool = True

    @property
    def device(self) -> str:
        """What it computes on beside its processor; empty where there is nothing else."""
        if self.os == "macos":
            return "mps"
        return "cuda" if self.gpu else ""

    @property
    def identity(self) -> str:
        """What such a machine would keep for ever."""
        return f"demo:{self.name}"


def enrolment(machine: DemoMachine) -> Enrolment:
    """A machine as its agent would make it known."""
    runtimes = {name: version for name, version in machine.packages.items() if name != "numpy"}
    runtimes = {name.removesuffix("-gpu"): version for name, version in runtimes.items()}
    devices: dict[str, Mapping[str, str]] = {"onnxruntime": {"cpu": "CPUExecutionProvider"}}
    if machine.device == "cuda":
        devices["onnxruntime"] = {**devices["onnxruntime"], "cuda": "CUDAExecutionProvider"}
        devices["torch"] = {"cpu": "torch", "cuda": "torch.cuda"}
    elif machine.device == "mps":
        devices["coreml"] = {"mps": "Core ML"}
    labels = {"demo": "simulated", "kind": machine.kind} | ({"gpu": _short(machine.gpu)} if machine.gpu else {})
    profile = Profile(
        machine.name,
        machine.os,
        machine.cores,
        machine.memory,
        runtimes,
        devices,
        machine.gpus if machine.gpu else 0,
        machine.gpu or "",
        machine.gpu_memory or 0,
        labels,
        commands=machine.commands,
    )
    facts = machine_facts(machine.name, machine.identity, machine)
    device_facts = {"demo": "simulated"} | {name: facts[name] for name in _DEVICE_FACTS if name in facts}
    return Enrolment(machine.identity, machine.name, profile, device_facts, version=__version__)


def machine_facts(name: str, identity: str, machine: SimulatedHost) -> dict[str, JsonValue]:
    """A machine in the words of an environment record."""
    facts: dict[str, JsonValue] = {
        "id": hashlib.sha256(identity.encode()).hexdigest()[:16],
        "name": name,
        "soc": machine.cpu,
        "cpu": machine.cpu,
        "architecture": machine.architecture,
        "cores": machine.cores,
        "physical_cores": machine.cores,
        "memory_bytes": machine.memory,
        "os": _OS[machine.os],
        "os_version": machine.os_version,
        "kernel": machine.kernel,
        "gpu": machine.gpu,
        "gpus": machine.gpus if machine.gpu else None,
        "gpu_memory_bytes": machine.gpu_memory,
        "driver": machine.driver,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _short(gpu: str) -> str:
    """A GPU as people call it: `h100`."""
    words = [word for word in gpu.replace("-", " ").lower().split() if any(char.isdigit() for char in word)]
    return words[0] if words else gpu.split()[0].lower()
