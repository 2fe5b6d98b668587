"""Devices and the execution providers of ONNX Runtime that serve them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from assay.errors import MeasureError
from assay.spec.section import INSTALL, split_index

CPU = "CPUExecutionProvider"
PROVIDERS = {
    "cpu": CPU,
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "directml": "DmlExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "coreml-gpu": "CoreMLExecutionProvider",
    "coreml-ane": "CoreMLExecutionProvider",
}
_COMPUTE_UNITS = {"coreml": "ALL", "coreml-gpu": "CPUAndGPU", "coreml-ane": "CPUAndNeuralEngine"}
_INDEXED = ("cuda", "tensorrt", "directml")
# The smallest model: one Identity of one float. It tells whether a provider's libraries really load.
_IDENTITY = bytes.fromhex(
    "080812003a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08"
    "080112040a020801620f0a0179120a0a08080112040a02080142040a00100d"
)


@dataclass(frozen=True, slots=True)
class OnnxPlacement:
    """A device, the provider that serves it, and the options of its session."""

    device: str
    provider: str
    providers: tuple[tuple[str, dict[str, str]], ...]


def runtime() -> Any:  # noqa: ANN401  (a module)
    """ONNX Runtime, quiet, or an error that says how to install it."""
    # From 1.29 on, ONNX Runtime reports model names and timings to its maker from a thread of the measured process.
    # The user did not ask for that: it disturbs the measurement and discloses what is measured.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as problem:
        raise MeasureError(
            f"ONNX Runtime cannot be imported: {problem}", code="runtime", try_="pip install 'assay-bench[onnx]'"
        ) from None
    onnxruntime.set_default_logger_severity(3)
    return onnxruntime


def place(device: str, options: dict[str, str]) -> OnnxPlacement:
    """Decide the providers for a device."""
    base, index = split_index(device)
    provider = PROVIDERS.get(base)
    if provider is None:
        raise MeasureError(
            f"ONNX Runtime has no device {base}",
            code="device",
            at="target.device",
            try_=f"use one of {', '.join(PROVIDERS)}, or runtime: torch for {base}",
        )
    there = runtime().get_available_providers()
    if provider not in there:
        raise MeasureError(
            f"device {device} needs {provider}, which ONNX Runtime {runtime().__version__} has not; "
            f"it has {', '.join(there)}",
            code="device",
            at="target.device",
            try_=INSTALL.get(base.partition("-")[0], "pip install onnxruntime"),
        )
    if index and base not in _INDEXED:
        raise MeasureError(
            f"{device} asks for device number {index}, but {provider} takes no number",
            code="device",
            at="target.device",
            try_=f"write target.device: {base}",
        )
    own = {"device_id": str(index)} if base in _INDEXED else {}
    own |= {"MLComputeUnits": _COMPUTE_UNITS[base]} if base in _COMPUTE_UNITS else {}
    chain = [(provider, {**own, **options})]
    if base == "tensorrt" and PROVIDERS["cuda"] in there:
        chain.append((PROVIDERS["cuda"], {"device_id": str(index)}))
    if provider != CPU:
        chain.append((CPU, {}))
    return OnnxPlacement(device, provider, tuple(chain))


def preload(device: str) -> None:
    """Load CUDA's libraries from their Python packages, where ONNX Runtime can."""
    if split_index(device)[0] in ("cuda", "tensorrt") and hasattr(runtime(), "preload_dlls"):
        with contextlib.redirect_stdout(sys.stderr):  # it prints what it misses
            runtime().preload_dlls()


def available_devices() -> dict[str, str]:
    """The devices on which ONNX Runtime can work here, by trying each: canonical device → provider.

    Accelerators are tried in another process, because a tried one keeps memory on its device.
    """
    try:
        listed = set(runtime().get_available_providers())
    except MeasureError:
        return {}
    devices = {"cpu": CPU} if CPU in listed else {}
    candidates = {device: provider for device, provider in PROVIDERS.items() if provider in listed - {CPU}}
    working = _try_elsewhere() if candidates else set()
    return devices | {device: provider for device, provider in candidates.items() if provider in working}


def _try_elsewhere() -> set[str]:
    if getattr(sys, "frozen", False):  # a frozen program cannot start its own interpreter
        return _working()
    with contextlib.suppress(subprocess.SubprocessError, OSError, ValueError):
        command = [sys.executable, "-m", __name__]
        answer = subprocess.run(command, capture_output=True, timeout=120, check=True, text=True)
        return set(json.loads(answer.stdout.splitlines()[-1]))
    return set()


def _working() -> set[str]:
    """The listed providers that can really make a session."""
    ort, working = runtime(), set()
    for provider in set(PROVIDERS.values()) & set(ort.get_available_providers()):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(sys.stderr):
            if hasattr(ort, "preload_dlls"):
                ort.preload_dlls()
            session = ort.InferenceSession(_IDENTITY, providers=[provider], enable_fallback=0)
            if provider in session.get_providers():
                working.add(provider)
    return working


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sorted(_working())) + "\n")
