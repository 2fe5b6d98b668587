"""Built-in models: the light networks that come with the `onnx` package, with a dynamic batch.

Their architecture is the real one, but their weights are constants that the graph itself makes, so the files
are small. They measure speed; their answers mean nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from assay.errors import MeasureError
from assay.run.models.graph import read_outline

# Name → file of the onnx package, and what it is.
_LIGHT = {
    "squeezenet": ("squeezenet", "SqueezeNet 1.1"),
    "shufflenet": ("shufflenet", "ShuffleNet v1"),
    "resnet50": ("resnet50", "ResNet-50 v1"),
    "alexnet": ("bvlc_alexnet", "AlexNet"),
    "densenet121": ("densenet121", "DenseNet-121"),
    "inception_v1": ("inception_v1", "Inception v1 (GoogLeNet)"),
    "inception_v2": ("inception_v2", "Inception v2"),
    "vgg19": ("vgg19", "VGG-19"),
    "zfnet512": ("zfnet512", "ZFNet-512"),
}
BUILTIN_NAMES = tuple(_LIGHT)
_INPUT = "float32 [batch, 3, 224, 224]"


@dataclass(frozen=True, slots=True)
class BuiltinModel:
    """A model that needs no download."""

    name: str
    title: str
    input: str
    batch: Literal["dynamic", "fixed"]
    nodes: int  # operators, without those that only make weights
    file_bytes: int  # of the file that it is made from


def builtin_models() -> tuple[BuiltinModel, ...]:
    """The built-in models, or none where the `onnx` package is not installed."""
    try:
        folder = _folder()
    except MeasureError:
        return ()
    files = {name: folder / f"light_{file}.onnx" for name, (file, _) in _LIGHT.items()}
    return tuple(_listed(name, path) for name, path in files.items() if path.is_file())


def materialise(name: str, cache: Path) -> Path:
    """Write a built-in model to the cache and return its path; the same bytes for the same onnx version.

    Raises:
        MeasureError: when the `onnx` package is missing or the cache cannot be written.
    """
    content = build(name)
    folder = cache / "models" / "builtin" / f"onnx-{_onnx_version()}"
    path = folder / f"{name}.onnx"
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return path
    try:
        _write(path, content)
    except OSError as problem:
        raise MeasureError(
            f"{path} cannot be written: {problem.strerror or problem}",
            code="cache",
            try_="free some space, or choose another cache folder",
        ) from None
    return path


def build(name: str) -> bytes:
    """The bytes of a built-in model with a dynamic batch."""
    source = _folder() / f"light_{_LIGHT[name][0]}.onnx"
    if not source.is_file():
        raise MeasureError(
            f"onnx {_onnx_version()} does not hold {source.name}",
            code="model",
            at="target.model",
            try_="install another version of onnx, or give a model file",
        )
    import onnx

    from assay.run.models.batch import with_dynamic_batch

    content: bytes = with_dynamic_batch(onnx.load(str(source))).SerializeToString(deterministic=True)
    return content


def _listed(name: str, path: Path) -> BuiltinModel:
    nodes = sum(node.op_type != "ConstantOfShape" for node in read_outline(path).nodes)
    return BuiltinModel(name, _LIGHT[name][1], _INPUT, "dynamic", nodes, path.stat().st_size)


def _folder() -> Path:
    spec = importlib.util.find_spec("onnx")  # finds the package without the cost of importing it
    if spec is None or spec.origin is None:
        raise MeasureError(
            "built-in models come with the package onnx, which is not installed",
            code="runtime",
            at="target.model",
            try_="pip install 'assay-bench[onnx]'",
        )
    return Path(spec.origin).parent / "backend" / "test" / "data" / "light"


def _onnx_version() -> str:
    try:
        return version("onnx")
    except PackageNotFoundError:
        return "unknown"


def _write(path: Path, content: bytes) -> None:
    """Write whole or not at all, also when several processes do it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
