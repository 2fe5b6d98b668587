"""The frameworks that are looked for, found without loading any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework by its module, and the packages that may bring it."""

    name: str
    module: str
    packages: tuple[str, ...]


FRAMEWORKS = (
    Framework(
        "onnxruntime",
        "onnxruntime",
        ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "onnxruntime-rocm",
         "onnxruntime-migraphx", "onnxruntime-qnn", "onnxruntime-silicon", "onnxruntime-training"),
    ),
    Framework("torch", "torch", ("torch",)),
    Framework("transformers", "transformers", ("transformers",)),
    Framework("tensorflow", "tensorflow", ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")),
    Framework("jax", "jax", ("jax",)),
    Framework("openvino", "openvino", ("openvino", "openvino-nightly")),
    Framework("coremltools", "coremltools", ("coremltools",)),
    Framework("llama-cpp-python", "llama_cpp", ("llama-cpp-python",)),
    Framework("faiss", "faiss", ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12", "faiss-gpu-cu11", "faiss")),
    Framework("vllm", "vllm", ("vllm",)),
)  # fmt: skip


def installed(
    find: Callable[[str], ModuleSpec | None] = find_spec, version_of: Callable[[str], str] = version
) -> dict[str, str]:
    """The frameworks that are here, with their versions; a version that no package tells is empty."""
    found = {}
    for one in FRAMEWORKS:
        known = _version(one, version_of)
        if known is not None or _is_there(one.module, find):
            found[one.name] = known or ""
    return found


def _version(framework: Framework, version_of: Callable[[str], str]) -> str | None:
    for package in framework.packages:
        try:
            return version_of(package)
        except PackageNotFoundError:
            continue
    return None


def _is_there(module: str, find: Callable[[str], ModuleSpec | None]) -> bool:
    try:
        spec = find(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # any folder of that name has a spec, but no origin
