"""Names of devices: one canonical name each, and the aliases users bring from other tools."""

from __future__ import annotations

import re

# SARK's compute units are the names its users know; its CSV files carry them.
COMPUTE_UNITS = {
    "cpu": "CPU (ONNX)",
    "cuda": "GPU (ONNX)",
    "coreml-gpu": "GPU (CoreML)",
    "coreml-ane": "Neural Engine (CoreML)",
    "directml": "DirectML (ONNX)",
    "openvino": "OpenVINO (ONNX)",
}

_ALIASES = {
    **{unit.lower(): device for device, unit in COMPUTE_UNITS.items()},
    "gpu": "cuda",
    "dml": "directml",
    "trt": "tensorrt",
    "ane": "coreml-ane",
    "neural engine": "coreml-ane",
}

DEVICES = ("cpu", "cuda", "tensorrt", "directml", "openvino", "coreml", "coreml-gpu", "coreml-ane", "mps")

# What gives a machine a device that it lacks.
INSTALL = {
    "cuda": "pip install onnxruntime-gpu (in place of onnxruntime), with an NVIDIA driver and CUDA 12",
    "tensorrt": "pip install onnxruntime-gpu (in place of onnxruntime) and tensorrt, with an NVIDIA driver",
    "directml": "pip install onnxruntime-directml (in place of onnxruntime), on Windows",
    "openvino": "pip install onnxruntime-openvino (in place of onnxruntime)",
    "coreml": "pip install onnxruntime on macOS; its wheels there hold the CoreML provider",
}

_INDEXED = re.compile(r"^(?P<device>.+?):(?P<index>\d+)$")


def canonical(name: str) -> str:
    """The one name of a device: `GPU (ONNX)` and `gpu` are `cuda`, `gpu:1` is `cuda:1`.

    Raises:
        ValueError: for a name that is neither a device nor an alias.
    """
    lowered = name.strip().lower()
    indexed = _INDEXED.match(lowered)
    base, index = (indexed["device"], f":{indexed['index']}") if indexed else (lowered, "")
    device = _ALIASES.get(base, base)
    if device not in DEVICES:
        known = ", ".join((*DEVICES, *COMPUTE_UNITS.values()))
        raise ValueError(f"unknown device {name!r}; use one of {known}")
    return device + index


def split_index(device: str) -> tuple[str, int]:
    """Split `cuda:1` into `cuda` and 1; the index is 0 when none is given."""
    indexed = _INDEXED.match(device)
    return (indexed["device"], int(indexed["index"])) if indexed else (device, 0)


def compute_unit(device: str) -> str:
    """SARK's name for a canonical device, or the device's own name where SARK had none."""
    base, _ = split_index(device)
    return COMPUTE_UNITS.get(base, device)
