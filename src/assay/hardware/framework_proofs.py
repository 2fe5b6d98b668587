"""The process in which a framework is tried: a product of two small matrices on each device, and its result checked.

Called as `python -m assay.hardware.framework_proofs NAME [DEVICE…]`; it writes one JSON object per line: what the
framework is, the devices that it names, then the answer of each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

# The square of it is not symmetric, so that a swapped or forgotten product is seen.
_MATRIX = [[1.0, 2.0], [3.0, 4.0]]
_SQUARE = [[7.0, 10.0], [15.0, 22.0]]
_PRODUCT = "a matrix product"


class UnprovenError(Exception):
    """A device that cannot be tried here, with the reason."""


@dataclass(frozen=True, slots=True)
class DeviceTrials:
    """What a framework names: its version, and a trial for each device that returns the proof in words."""

    version: str
    devices: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    imports: str = ""  # what loading it alone shows, where nothing small can be run


def _onnxruntime() -> DeviceTrials:
    ort: Any = import_module("onnxruntime")
    ort.set_default_logger_severity(4)
    return DeviceTrials(
        ort.__version__, {name: partial(_on_provider, ort, name) for name in ort.get_available_providers()}
    )


def _on_provider(ort: Any, provider: str) -> str:  # noqa: ANN401  (a module)
    import numpy as np

    if provider == "AzureExecutionProvider":
        raise UnprovenError("it sends its work to a remote service")
    if hasattr(ort, "preload_dlls") and provider in ("CUDAExecutionProvider", "TensorrtExecutionProvider"):
        ort.preload_dlls()
    options = ort.SessionOptions()
    if provider != "CPUExecutionProvider":  # a provider that leaves the work to the processor proves nothing
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = ort.InferenceSession(_product_model(), options, providers=[provider], enable_fallback=0)
    if session.get_providers()[0] != provider:
        raise RuntimeError(f"the session runs on {session.get_providers()[0]} instead")
    _check(session.run(None, {"x": np.array(_MATRIX, np.float32)})[0].tolist())
    return _PRODUCT


def _torch() -> DeviceTrials:
    import torch

    devices: dict[str, Callable[[], str]] = {"cpu": partial(_on_torch, torch, "cpu")}
    built_for = torch.version.cuda or getattr(torch.version, "hip", None)
    if torch.cuda.is_available():
        devices |= {f"cuda:{i}": partial(_on_torch, torch, f"cuda:{i}") for i in range(torch.cuda.device_count())}
    elif built_for:
        devices["cuda"] = partial(_no_cuda, torch)
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        devices["mps"] = partial(_on_torch, torch, "mps")
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        devices["xpu"] = partial(_on_torch, torch, "xpu")
    return DeviceTrials(torch.__version__, devices)


def _on_torch(torch: Any, device: str) -> str:  # noqa: ANN401  (a module)
    matrix = torch.tensor(_MATRIX, device=device)
    _check((matrix @ matrix).cpu().tolist())
    return f"{_PRODUCT} on {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else _PRODUCT


def _no_cuda(torch: Any) -> str:  # noqa: ANN401  (a module)
    """PyTorch is built for CUDA and sees none: that is broken where there is a GPU, and as it should be elsewhere."""
    try:
        torch.cuda.init()
    except Exception as problem:
        if Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists():
            raise
        raise UnprovenError(_in_words(problem)) from None
    raise UnprovenError("it sees no GPU")


def _transformers() -> DeviceTrials:
    transformers: Any = import_module("transformers")

    def forward() -> str:
        try:
            import torch
        except ImportError as problem:
            raise UnprovenError(f"it imports, but has nothing to run on: {_in_words(problem)}") from None
        config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)
        with torch.no_grad():
            logits = transformers.GPT2LMHeadModel(config).eval()(torch.tensor([[1, 2, 3]])).logits
        if tuple(logits.shape) != (1, 3, 16) or not bool(torch.isfinite(logits).all()):
            raise RuntimeError(f"a language model of one layer gave {tuple(logits.shape)}")
        return "a language model of one layer"

    return DeviceTrials(transformers.__version__, {"cpu": forward})


def _tensorflow() -> DeviceTrials:
    tf: Any = import_module("tensorflow")

    def product(device: str) -> str:
        with tf.device(device):
            matrix = tf.constant(_MATRIX)
            result = tf.linalg.matmul(matrix, matrix)
        _check(result.numpy().tolist())
        return f"{_PRODUCT} on {result.device.rpartition('/')[2].removeprefix('device:')}"

    names = [physical.name.removeprefix("/physical_device:") for physical in tf.config.list_physical_devices()]
    return DeviceTrials(tf.__version__, {name: partial(product, name) for name in names if not name.startswith("XLA")})


def _jax() -> DeviceTrials:
    jax: Any = import_module("jax")

    def product(device: Any) -> str:  # noqa: ANN401  (of a library that may be missing)
        matrix = jax.device_put(jax.numpy.array(_MATRIX), device)
        _check((matrix @ matrix).tolist())
        return f"{_PRODUCT} on {device.device_kind}"

    devices = {str(jax_device): jax_device for jax_device in (*jax.devices("cpu"), *jax.devices())}
    return DeviceTrials(jax.__version__, {name: partial(product, jax_device) for name, jax_device in devices.items()})


def _openvino() -> DeviceTrials:
    openvino: Any = import_module("openvino")
    core = openvino.Core()

    def product(device: str) -> str:
        import numpy as np

        ops: Any = import_module("openvino.opset8")
        x = ops.parameter([2, 2], np.float32)
        compiled = core.compile_model(openvino.Model([ops.matmul(x, x, False, False)], [x], "product"), device)
        _check(next(iter(compiled([np.array(_MATRIX, np.float32)]).values())).tolist(), slack=0.1)
        return f"{_PRODUCT} on {core.get_property(device, 'FULL_DEVICE_NAME')}"

    return DeviceTrials(openvino.__version__, {name: partial(product, name) for name in core.available_devices})


def _coremltools() -> DeviceTrials:
    tools: Any = import_module("coremltools")

    def product() -> str:
        import numpy as np

        if sys.platform != "darwin":
            raise UnprovenError("it imports; models run on macOS alone")
        builder: Any = import_module("coremltools.converters.mil").Builder

        @builder.program(input_specs=[builder.TensorSpec(shape=(2, 2))])
        def square(x: Any) -> Any:  # noqa: ANN401
            return builder.matmul(x=x, y=x, name="y")

        model = tools.convert(square, convert_to="mlprogram")
        _check(next(iter(model.predict({"x": np.array(_MATRIX, np.float32)}).values())).tolist(), slack=0.1)
        return _PRODUCT

    return DeviceTrials(tools.__version__, {"coreml": product})


def _llama_cpp() -> DeviceTrials:
    llama: Any = import_module("llama_cpp")
    system_info = llama.llama_print_system_info().decode("utf-8", "replace").strip()
    return DeviceTrials(
        llama.__version__, imports=f"imports, and its library answers: {system_info}; to run it takes a model file"
    )


def _faiss() -> DeviceTrials:
    import faiss

    def search(gpu: int | None) -> str:
        import numpy as np

        index: Any = faiss.IndexFlatL2(2)
        if gpu is not None:
            index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), gpu, index)
        points = np.array(_MATRIX, np.float32)
        index.add(points)
        nearest = index.search(points[1:], 1)[1].tolist()
        if nearest != [[1]]:
            raise RuntimeError(f"the point nearest to the second one is {nearest}")
        return "a search among two points"

    gpus = faiss.get_num_gpus() if hasattr(faiss, "get_num_gpus") else 0
    devices: dict[str, Callable[[], str]] = {"cpu": partial(search, None)}
    return DeviceTrials(faiss.__version__, devices | {f"gpu:{i}": partial(search, i) for i in range(gpus)})


def _vllm() -> DeviceTrials:
    return DeviceTrials(import_module("vllm").__version__, imports="imports")


TRIALS: Mapping[str, Callable[[], DeviceTrials]] = {
    "onnxruntime": _onnxruntime, "torch": _torch, "transformers": _transformers, "tensorflow": _tensorflow,
    "jax": _jax, "openvino": _openvino, "coremltools": _coremltools, "llama-cpp-python": _llama_cpp,
    "faiss": _faiss, "vllm": _vllm,
}  # fmt: skip


def answers(offer: DeviceTrials, only: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """What a framework says, step by step, so that all before a crash is known."""
    yield {"version": str(offer.version)} | ({"works": None, "proof": offer.imports} if offer.imports else {})
    yield {"devices": list(offer.devices)}
    for device, attempt in offer.devices.items():
        if only and device not in only:
            continue
        begin = time.perf_counter()
        answer: dict[str, Any] = {"device": device}
        try:
            answer |= {"works": True, "proof": attempt()}
        except UnprovenError as reason:
            answer |= {"works": None, "why": str(reason)}
        except Exception as problem:  # noqa: BLE001, RUF100  (whatever a library raises, the next device is tried)
            answer |= {"works": False, "why": _in_words(problem)}
        yield answer | {"seconds": round(time.perf_counter() - begin, 3)}


def main(words: list[str], out: TextIO) -> None:
    """Try the framework that is named first, on the devices named after it or on all."""
    name, *devices = words
    try:
        offer = TRIALS[name]()
    except Exception as problem:  # noqa: BLE001, RUF100  (whatever stands in its way is the answer)
        out.write(json.dumps({"works": False, "why": _in_words(problem)}) + "\n")
        return
    for answer in answers(offer, tuple(devices)):
        out.write(json.dumps(answer) + "\n")
        out.flush()


def _check(rows: list[list[float]], slack: float = 1e-3) -> None:
    """Refuse a wrong product; devices with short numbers are allowed more."""
    pairs = (
        (value, true) for row, truth in zip(rows, _SQUARE, strict=True) for value, true in zip(row, truth, strict=True)
    )
    if any(not abs(value - true) <= slack for value, true in pairs):
        raise RuntimeError(f"the product of {_MATRIX} with itself came out as {rows}")


def _in_words(problem: BaseException) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[-1]}" if lines else type(problem).__name__


def _product_model() -> bytes:
    """The ONNX model y = x · x of two by two numbers, written as protobuf by hand: no package is needed for it."""

    def part(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    size = part(1, b"\x08\x02")  # a dimension of 2
    kind = part(2, part(1, b"\x08\x01" + part(2, size + size)))  # float32
    node = part(1, part(1, b"x") + part(1, b"x") + part(2, b"y") + part(4, b"MatMul"))
    graph = node + part(2, b"product") + part(11, part(1, b"x") + kind) + part(12, part(1, b"y") + kind)
    return b"\x08\x08" + part(7, graph) + part(8, part(1, b"") + b"\x10\x0d")  # IR 8, operators of version 13


if __name__ == "__main__":
    # Libraries print where they like; the answers go where nothing else does.
    answers_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main(sys.argv[1:], answers_to)
    answers_to.flush()
    os._exit(0)  # some libraries crash while they clean up, after the report
