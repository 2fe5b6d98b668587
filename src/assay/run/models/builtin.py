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
from typing import TYPE_CHECKING, Literal

from assay.errors import MeasureError
from assay.run.models.graph import read_outline

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

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


def is_path(model: str) -> bool:
    """Whether a model is named by a path: neither by a URL nor by a built-in name."""
    return "://" not in model and model not in BUILTIN_NAMES


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


SYMBOL = "batch"
# The first format version in which a weight need not be listed as an input as well.
_IR_WEIGHTS_APART = 4


def with_dynamic_batch(model: ModelProto) -> ModelProto:
    """Rewrite a model in place so that its inputs and outputs begin with a symbolic batch.

    Weights leave the list of inputs; a reshape of activations to `[1, …]` becomes `[0, …]`, which keeps
    the first dimension as it is; recorded shapes of inner tensors are dropped.
    """
    graph = model.graph
    weights = {weight.name for weight in graph.initializer}
    inputs = [one for one in graph.input if one.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    del graph.value_info[:]
    for one in (*graph.input, *graph.output):
        _free_first_dimension(one)
    _free_reshapes(graph, _activations(graph))
    model.ir_version = max(model.ir_version, _IR_WEIGHTS_APART)
    return model


def _free_first_dimension(one: ValueInfoProto) -> None:
    first = one.type.tensor_type.shape.dim[0]
    if first.dim_value != 1:
        raise ValueError(f"{one.name} begins with {first.dim_value}, not with a batch of 1")
    first.dim_param = SYMBOL


def _activations(graph: GraphProto) -> set[str]:
    """The tensors that depend on an input; nodes of an ONNX graph are in order."""
    found = {one.name for one in graph.input}
    for node in graph.node:
        if found & set(node.input):
            found |= set(node.output)
    return found


def _free_reshapes(graph: GraphProto, activations: set[str]) -> None:
    from onnx import numpy_helper

    weights = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type != "Reshape" or node.input[0] not in activations:
            continue
        shape = numpy_helper.to_array(weights[node.input[1]]).copy()
        if shape[0] != 1:
            raise ValueError(f"{node.output[0]} is reshaped to {shape.tolist()}, which has no batch of 1")
        shape[0] = 0
        # Its own constant: another node may need the old one.
        name = f"{node.output[0]}/shape"
        graph.initializer.append(numpy_helper.from_array(shape, name))
        node.input[1] = name
    used = {name for node in graph.node for name in node.input}
    kept = [weight for weight in graph.initializer if weight.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
