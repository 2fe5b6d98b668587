"""A GPU in facts as one detection layer reports them, and the reason where a layer cannot."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One slice of a GPU that is split by MIG."""

    index: int
    uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    multiprocessors: int | None = None
    memory_bytes: int | None = None

    def record(self) -> dict[str, JsonValue]:
        """As JSON, without what is not known."""
        return _known_facts(self)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; None stands for what the layer does not say."""

    index: int
    name: str
    vendor: str
    """`nvidia`, `amd`, `intel`, `apple` …, or its PCI number where that is no known maker's."""
    layer: str
    """The source: `nvml`, `nvidia-smi`, `torch`, `amd-smi`, `rocm-smi`, `sysfs`, `system_profiler`."""
    uuid: str | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA that the driver supports."""
    capability: str | None = None
    """Compute capability, such as `9.0`."""
    multiprocessors: int | None = None
    """SMs, compute units or cores, as the maker calls them."""
    pci: str | None = None
    """Address on the bus as the kernel writes it: `0000:00:06.0`."""
    pcie: Mapping[str, int] = field(default_factory=dict)
    """`generation` and `width` of the link now, `max_generation` and `max_width`."""
    nvlinks: int | None = None
    """How many are active."""
    power_limit_w: float | None = None
    clocks_mhz: Mapping[str, float] = field(default_factory=dict)
    """Now: `sm` (`graphics` where the maker has no SMs) and `memory`."""
    max_clocks_mhz: Mapping[str, float] = field(default_factory=dict)
    temperature_c: float | None = None
    slowdown_c: float | None = None
    """The temperature from which it slows itself down."""
    throttle: tuple[str, ...] | None = None
    """Reasons for which its clocks are held down now; empty where it was asked and has none."""
    ecc: bool | None = None
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    architecture: str | None = None
    tensor_cores: int | None = None
    """Generation of its tensor cores; 0 where it has none, None where that is not known."""
    precisions: tuple[str, ...] = ()
    note: str = ""
    """What is in doubt about these facts."""
    agreed_by: tuple[str, ...] = ()
    """Other layers that tell the same."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """Fact → what another layer says of it, as `nvidia-smi: 575.57`."""

    def record(self) -> dict[str, JsonValue]:
        """As JSON, without what is not known."""
        record = _known_facts(self)
        if self.throttle is not None:  # an empty list says that nothing holds its clocks down
            record["throttle"] = list(self.throttle)
        if self.mig_devices:
            record["mig_devices"] = [device.record() for device in self.mig_devices]
        return record


def pci_address(text: str) -> str | None:
    """An address on the PCI bus as the kernel writes it; NVIDIA's tools write the domain with eight digits."""
    if match := re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", text.strip().lower()):
        return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}"
    return None


def _known_facts(device: Gpu | MigDevice) -> dict[str, JsonValue]:
    record: dict[str, JsonValue] = {}
    for field_ in fields(device):
        value = getattr(device, field_.name)
        if value is None or value == "" or (isinstance(value, (tuple, Mapping)) and not value):
            continue
        if isinstance(value, Mapping):
            value = dict(value)
        record[field_.name] = cast("JsonValue", list(value) if isinstance(value, tuple) else value)
    return record


Run = Callable[[Sequence[str]], str]
"""Runs a command and returns what it writes; raises `LayerUnavailableError`."""
# Where makers put their programs without adding the folder to the path: ROCm, Windows' Linux, some containers.
_ELSEWHERE = "/opt/rocm/bin:/usr/lib/wsl/lib:/usr/local/nvidia/bin"
_WITHIN_S = 30.0


class LayerUnavailableError(Exception):
    """A layer reports no GPU; its text is the reason."""


class LayerBrokenError(LayerUnavailableError):
    """A layer is installed and fails, so there may be a GPU that cannot be used."""


class LayerReport(NamedTuple):
    """The GPUs that a layer sees."""

    gpus: tuple[Gpu, ...]
    remark: str = ""
    """What it could not tell, and why."""


def output(command: Sequence[str]) -> str:
    """What a program writes."""
    name = command[0]
    program = shutil.which(name) or shutil.which(name, path=_ELSEWHERE)
    if program is None:
        raise LayerUnavailableError(f"{name} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as failure:
        raise LayerBrokenError(f"{name} does not answer: {failure}") from failure
    if done.returncode:
        message = (done.stdout.strip() or done.stderr.strip() or "no word").splitlines()[0]
        raise LayerBrokenError(f"{name} ended with code {done.returncode}: {message[:200]}")
    return done.stdout


def parsed(name: str, text: str) -> Any:  # noqa: ANN401  (JSON has no narrower type)
    """The JSON in a program's answer; warnings may stand before it."""
    begins = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    try:
        return json.JSONDecoder().raw_decode(text, min(begins))[0]
    except ValueError as failure:  # also of min() where there is no JSON at all
        raise LayerBrokenError(f"{name} does not answer in JSON: {text.strip()[:80]!r}") from failure
