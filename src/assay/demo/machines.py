"""The machines of the demo fleet: what each is, what it offers, and how fast it is beside the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from assay.place.fleet.protocol import Enrolment
from assay.place.needs import Profile
from assay.version import __version__

GIB = 2**30
_DEBIAN = "Debian GNU/Linux 12 (bookworm)"
_UBUNTU = "Ubuntu 24.04.2 LTS"
_TORCH = {"torch": "2.7.0", "transformers": "5.0.0", "onnxruntime-gpu": "1.22.0", "numpy": "2.2.4"}
# What an agent tells of its machine, of the facts in a result.
_DEVICE_FACTS = ("cpu", "cores", "memory_bytes", "os", "os_version", "kernel", "architecture", "gpu", "gpus", "driver")
_OS = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}


@dataclass(frozen=True, slots=True)
class DemoMachine:
    """One machine that never was."""

    name: str
    kind: str
    """In a word, for its labels."""
    cpu: str
    cores: int
    memory_gib: int
    os: str = "linux"
    os_version: str = _DEBIAN
    kernel: str = "6.1.0-28-amd64"
    architecture: str = "x86_64"
    gpu: str = ""
    gpus: int = 0
    gpu_gib: int = 0
    driver: str = ""
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
    packages: Mapping[str, str] = field(default_factory=lambda: {"onnxruntime": "1.22.0", "numpy": "2.2.4"})
    commands: bool = True

    @property
    def device(self) -> str:
        """What it computes on beside its processor; empty where there is nothing else."""
        if self.os == "macos":
            return "mps"
        return "cuda" if self.gpus else ""

    @property
    def identity(self) -> str:
        """What such a machine would keep for ever."""
        return f"demo:{self.name}"

    @property
    def machine_id(self) -> str:
        return hashlib.sha256(self.identity.encode()).hexdigest()[:16]


# The first ones do most of the work, so that a small fleet has them all.
_KINDS = (
    DemoMachine("demo-server-01", "server", "AMD EPYC 9454P", 48, 128, price=1.2),
    DemoMachine("demo-h100-01", "gpu-server", "Intel Xeon Platinum 8468", 96, 512, os_version=_UBUNTU,
                kernel="6.8.0-52-generic", gpu="NVIDIA H100 80GB HBM3", gpus=2, gpu_gib=80, driver="570.86.15",
                gpu_speed=1.0, idle_w=210, busy_w=690, price=5.9, packages=_TORCH),
    DemoMachine("demo-pi-01", "raspberry-pi", "Cortex-A76", 4, 8, kernel="6.6.62+rpt-rpi-2712", architecture="aarch64",
                speed=7.5, idle_w=3.1, busy_w=8.4, spread=0.012),
    DemoMachine("demo-laptop-01", "laptop", "Intel Core i7-1365U", 12, 32, kernel="6.12.9-amd64",
                os_version="Debian GNU/Linux 13 (trixie)", speed=1.9, idle_w=6, busy_w=28, spread=0.035),
    DemoMachine("demo-mac-mini-01", "mac", "Apple M2", 8, 16, "macos", "15.3", "24.3.0", "arm64", speed=0.95,
                gpu_speed=0.07, idle_w=5, busy_w=22, packages={"onnxruntime": "1.22.0", "coremltools": "8.2"}),
    DemoMachine("demo-l4-01", "gpu-server", "Intel Xeon Platinum 8480+", 16, 64, os_version=_UBUNTU,
                kernel="6.8.0-52-generic", gpu="NVIDIA L4", gpus=1, gpu_gib=24, driver="570.86.15", gpu_speed=0.13,
                idle_w=30, busy_w=72, price=0.8, packages=_TORCH),
    DemoMachine("demo-workstation-01", "workstation", "AMD Ryzen 9 7950X", 32, 128, os_version=_UBUNTU,
                kernel="6.11.0-19-generic", gpu="NVIDIA GeForce RTX 4090", gpus=1, gpu_gib=24, driver="570.86.15",
                speed=0.82, gpu_speed=0.36, idle_w=70, busy_w=430, spread=0.009, packages=_TORCH),
    DemoMachine("demo-xeon-01", "server", "Intel Xeon Gold 6430", 32, 256, speed=1.15, idle_w=95, busy_w=260,
                price=1.4),
    DemoMachine("demo-a100-01", "gpu-server", "AMD EPYC 7763", 64, 256, os_version=_UBUNTU, kernel="6.8.0-52-generic",
                gpu="NVIDIA A100-SXM4-80GB", gpus=4, gpu_gib=80, driver="570.86.15", gpu_speed=0.52, idle_w=150,
                busy_w=400, price=3.4, packages=_TORCH),
    DemoMachine("demo-jetson-01", "edge", "Cortex-A78AE", 8, 16, os_version="Ubuntu 22.04.5 LTS",
                kernel="5.15.148-tegra", architecture="aarch64", gpu="Orin (nvgpu)", gpus=1, gpu_gib=16,
                driver="540.4.0", speed=4.1, gpu_speed=0.03, idle_w=6, busy_w=21, spread=0.01),
)  # fmt: skip
_EPYC, _H100, _PI, _LAPTOP, _MAC, _L4, _WORKSTATION, _XEON = _KINDS[:8]
FLEET: tuple[DemoMachine, ...] = (
    *_KINDS,
    replace(_EPYC, name="demo-server-02"),
    replace(_H100, name="demo-h100-02"),
    replace(_PI, name="demo-pi-02"),
    replace(_PI, name="demo-pi-03", cpu="Cortex-A72", memory_gib=4, speed=16.0, busy_w=6.4, kernel="6.6.62+rpt-rpi-v8"),
    replace(_LAPTOP, name="demo-laptop-02", cpu="AMD Ryzen 7 7840U", cores=16, speed=1.4, spread=0.024),
    replace(_LAPTOP, name="demo-laptop-03", os="windows", os_version="10.0.26100", kernel="11", speed=2.2,
            spread=0.05, commands=False),
    replace(_MAC, name="demo-macbook-01", cpu="Apple M3 Max", cores=16, memory_gib=64, speed=0.7, gpu_speed=0.16,
            busy_w=58),
    replace(_XEON, name="demo-xeon-02"),
    replace(_EPYC, name="demo-server-03", memory_gib=256),
    replace(_L4, name="demo-l4-02"),
)  # fmt: skip


def fleet(count: int) -> tuple[DemoMachine, ...]:
    """Machines; beyond those that have a name of their own, more servers."""
    more = (replace(_EPYC, name=f"demo-server-{number:02}") for number in range(4, 4 + max(0, count - len(FLEET))))
    return (*FLEET[:count], *more)


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
        machine.memory_gib * GIB,
        runtimes,
        devices,
        machine.gpus,
        machine.gpu,
        machine.gpu_gib * GIB,
        labels,
        commands=machine.commands,
    )
    facts = machine_facts(machine)
    device_facts = {"demo": "simulated"} | {name: facts[name] for name in _DEVICE_FACTS if name in facts}
    return Enrolment(machine.identity, machine.name, profile, device_facts, version=__version__)


def machine_facts(machine: DemoMachine) -> dict[str, JsonValue]:
    """A machine in the words of an environment record."""
    facts: dict[str, JsonValue] = {
        "id": machine.machine_id,
        "name": machine.name,
        "soc": machine.cpu,
        "cpu": machine.cpu,
        "architecture": machine.architecture,
        "cores": machine.cores,
        "physical_cores": machine.cores,
        "memory_bytes": machine.memory_gib * GIB,
        "os": _OS[machine.os],
        "os_version": machine.os_version,
        "kernel": machine.kernel,
        "gpu": machine.gpu,
        "gpus": machine.gpus,
        "gpu_memory_bytes": machine.gpu_gib * GIB,
        "driver": machine.driver,
    }
    return {name: value for name, value in facts.items() if value not in ("", 0)}


def _short(gpu: str) -> str:
    """A GPU as people call it: `h100`."""
    words = [word for word in gpu.replace("-", " ").lower().split() if any(char.isdigit() for char in word)]
    return words[0] if words else gpu.split()[0].lower()
