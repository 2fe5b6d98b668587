"""What every section of a benchmark file shares: frozen, strict, units and names of devices parsed at the edge."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, JsonValue, WithJsonSchema

from assay import units


class Section(BaseModel):
    """A part of a benchmark file: unknown keys are errors, values are never coerced silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _quantity(examples: list[JsonValue]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}], "examples": examples})


def section_of(document: Mapping[str, JsonValue], *keys: str) -> dict[str, JsonValue]:
    """A section of a document that was not checked yet; empty where there is none, or something else."""
    section: JsonValue = dict(document)
    for key in keys:
        section = section.get(key) if isinstance(section, dict) else None
    return section if isinstance(section, dict) else {}


def refuse(*rules: tuple[object, str]) -> None:
    """Raise ValueError with the words of the first rule that is broken."""
    for is_broken, words in rules:
        if is_broken:
            raise ValueError(words)


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """A question after the nearest of some names; other words where none is near."""
    near = difflib.get_close_matches(word, known, 1, cutoff)
    return f"did you mean {near[0]}?" if near else otherwise


def each_key(fits: Callable[[str], object], words: str) -> AfterValidator:
    """Check the keys of a mapping; the message is a wrong key followed by `words`."""

    def check(value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not fits(name):
                raise ValueError(f"{name!r} {words}")
        return value

    return AfterValidator(check)


Duration = Annotated[float, BeforeValidator(units.seconds), _quantity(["30s", "500ms", "5m"])]
Share = Annotated[float, BeforeValidator(units.ratio), _quantity(["2%", 0.02])]
Size = Annotated[int, BeforeValidator(units.size_bytes), _quantity(["16GiB", "500MB"])]


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
    """The one name of a device: `GPU (ONNX)` and `gpu` are `cuda`, `gpu:1` is `cuda:1`."""
    lowered = name.strip().lower()
    indexed = _INDEXED.match(lowered)
    base, index = (indexed["device"], f":{indexed['index']}") if indexed else (lowered, "")
    device = _ALIASES.get(base, base)
    if device not in DEVICES:
        choices = ", ".join((*DEVICES, *COMPUTE_UNITS.values()))
        raise ValueError(f"unknown device {name!r}; use one of {choices}")
    return device + index


def split_index(device: str) -> tuple[str, int]:
    """Split `cuda:1` into `cuda` and 1; the index is 0 when none is given."""
    indexed = _INDEXED.match(device)
    return (indexed["device"], int(indexed["index"])) if indexed else (device, 0)


def compute_unit(device: str) -> str:
    """SARK's name for a canonical device, or the device's own name where SARK had none."""
    base, _ = split_index(device)
    return COMPUTE_UNITS.get(base, device)
