"""Models below folders: walked once, each file known by its name and checked by its first bytes; nothing is run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import JsonValue

from assay.errors import UsageError
from assay.hardware.model_formats import (
    UnreadableModelError,
    gguf,
    huggingface,
    is_openvino,
    onnx,
    openvino,
    safetensors,
    summed,
    torch_archive,
)
from assay.hardware.source import Facts

# What a model may tell of itself; what it does not is named with the reason.
_WANTED = ("architecture", "parameters", "dtype")
# Weights that belong to the folder of a `config.json`, whole or in shards; other names are variants of them.
_WEIGHTS = re.compile(r"([A-Za-z_]+?)(?:-\d+-of-\d+)?\.(?:safetensors|bin)")
_MAIN = ("model", "diffusion_pytorch_model", "adapter_model", "consolidated", "pytorch_model")
_SKIPPED = (".git", ".cache", "__pycache__", "node_modules")


def find_models(folders: Iterable[Path]) -> list[JsonValue]:
    """Every model in some folders and below them: format, size, and what its header tells."""
    entries: list[JsonValue] = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"{folder} is no folder", code="no-folder", at="--models", try_="give the folder of models"
            )
        entries += _below(folder)
    return entries


def _below(folder: Path) -> Iterator[Facts]:
    closed: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=closed.append):
        here = Path(place)
        packages = [name for name in folders if name.endswith(".mlpackage")]
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and name not in packages)
        for name in packages:
            yield _entry(here / name, "mlpackage", lambda _: {}, [*(here / name).rglob("*")])
        yield from _in(here, sorted(files))
    for problem in closed:
        why = f"it cannot be listed: {problem.strerror or problem}"
        yield {"path": str(problem.filename), "format": "folder", "absent": {"models": why}}


def _in(folder: Path, files: list[str]) -> Iterator[Facts]:
    """The models of one folder: one where a config says what its weights are, else one per file."""
    weights = _weights(folder, files) if "config.json" in files else []
    if weights:
        yield _entry(folder, "huggingface", lambda path: huggingface(path, weights), weights)
    for name in files:
        path = folder / name
        if path in weights:
            continue
        if (file_format := _FORMATS.get(path.suffix)) is not None:
            yield _entry(path, file_format[0], file_format[1], [path])
        elif path.suffix == ".xml" and is_openvino(path):
            yield _entry(path, "openvino", openvino, [path, path.with_suffix(".bin")])


def _weights(folder: Path, files: Iterable[str]) -> list[Path]:
    """The weights that a config speaks of: the first of the usual names, safetensors before pickles."""
    sets: dict[tuple[str, str], list[Path]] = {}
    for name in files:
        if match := _WEIGHTS.fullmatch(name):
            sets.setdefault((Path(name).suffix, match[1]), []).append(folder / name)
    ordered = ((suffix, name) for suffix in (".safetensors", ".bin") for name in _MAIN)
    return next((sets[key] for key in ordered if key in sets), [])


def _entry(path: Path, form: str, read: Callable[[Path], Facts], parts: Iterable[Path]) -> Facts:
    """One model; a part of it that cannot be read is named, and the rest stands."""
    facts: Facts = {"path": str(path), "format": form}
    absent: dict[str, JsonValue] = {}
    size = 0
    for part in parts:
        try:
            size += part.stat().st_size if not part.is_dir() else 0
        except OSError as problem:
            absent["size_bytes"] = f"{part.name}: {problem.strerror or problem}"
    if not absent:  # half a size is none
        facts["size_bytes"] = size
    try:
        answer = read(path)
        if isinstance(missing := answer.pop("absent", None), dict):
            absent |= missing
        facts |= answer
        why = "its header does not say"
    except UnreadableModelError as problem:
        why = str(problem)
    except OSError as problem:
        why = f"it cannot be read: {problem.strerror or problem}"
    for fact in _WANTED:
        if fact not in facts:
            absent.setdefault(fact, why)
    return facts | ({"absent": absent} if absent else {})


def _tflite(path: Path) -> Facts:
    with path.open("rb") as file:
        if file.read(8)[4:] != b"TFL3":
            raise UnreadableModelError("it is no TensorFlow Lite model")
    return {}


_FORMATS: dict[str, tuple[str, Callable[[Path], Facts]]] = {
    ".onnx": ("onnx", onnx),
    ".gguf": ("gguf", gguf),
    ".safetensors": ("safetensors", lambda path: summed(safetensors(path))),
    ".pt": ("torch", torch_archive),
    ".pth": ("torch", torch_archive),
    ".pt2": ("torch export", torch_archive),
    ".tflite": ("tflite", _tflite),
    ".mlmodel": ("mlmodel", lambda _: {}),
}
