"""A language model of the Transformers library: from a folder to its device, and what it is once it is there."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run import torch_devices as devices
from assay.run.contract import Order
from assay.run.models.folder import weights_of
from assay.run.policy import refuse_program
from assay.run.records import DeviceProof, Phase
from assay.run.torch_devices import TorchPlacement
from assay.run.torch_devices import library as torch_library
from assay.spec.target import ModelTarget

if TYPE_CHECKING:
    from torch import Tensor

_DTYPES = {name: name for name in ("float64", "float32", "float16", "bfloat16")} | {
    "fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16",
}  # fmt: skip

# What `target.session_options` may hold: arguments of `from_pretrained` that change how the model computes.
_OPTIONS = ("attn_implementation",)
_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate|cannot allocate", re.IGNORECASE)
_CODE = re.compile(r"trust_remote_code|custom code|execute the configuration file", re.IGNORECASE)


def library(target: ModelTarget) -> Any:  # noqa: ANN401  (a module)
    """Transformers, quiet, or an error that says how to install it."""
    torch_library()
    # Several threads of the tokenizer would count against a model that was given fewer.
    if target.threads is not None:
        os.environ.setdefault("RAYON_NUM_THREADS", str(target.threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        import transformers
    except ImportError as problem:
        message = f"Transformers cannot be imported: {problem}"
        raise MeasureError(message, code="runtime", try_="pip install 'assay-bench[torch]'") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def dtype_of(target: ModelTarget) -> Any:  # noqa: ANN401  (a torch.dtype, or `auto`)
    """The number type that the file asks for; the model's own when it asks for none."""
    if target.dtype is None:
        return "auto"
    if target.dtype.lower() not in _DTYPES:
        message = f"target.dtype is {target.dtype!r}, which is no number type that a model is loaded in"
        try_ = f"use one of {', '.join(_DTYPES)}; a quantised model says so in its own folder: leave dtype out"
        raise MeasureError(message, code="usage", at="target.dtype", try_=try_)
    return getattr(torch_library(), _DTYPES[target.dtype.lower()])


class ModelFolder:
    """A model folder that may be loaded: its configuration is read and its code imported, its weights are not."""

    def __init__(self, folder: Path, target: ModelTarget, placement: TorchPlacement) -> None:
        if not folder.is_dir():
            message = f"{folder} is a file; transformers loads a folder"
            try_ = "give the folder that save_pretrained wrote"
            raise MeasureError(message, code="model", at="target.model", try_=try_)
        if target.remote_code:
            refuse_program("code beside the model is to run (target.remote_code)", "target.remote_code")
        refuse_kernels(folder, target)
        self._folder, self._target, self._placement = folder, target, placement
        self._transformers = library(target)
        self._dtype, self._options = dtype_of(target), _checked_options(target)
        self.config = self._loaded(self._transformers.AutoConfig.from_pretrained)
        for name in self.config.architectures or ():  # its code is part of the library, not of the load
            getattr(self._transformers, name, None)

    def tokenizer(self) -> Any:  # noqa: ANN401  (a tokenizer of Transformers)
        tokenizer = self._loaded(self._transformers.AutoTokenizer.from_pretrained)
        # Without its files the library may hand out an empty one, which turns every text into nothing.
        if tokenizer is None or not tokenizer.encode("token", add_special_tokens=False):
            raise _failed("its folder holds no tokenizer", "put the model's tokenizer files beside its weights")
        return tokenizer

    def load(self, kind: str) -> Any:  # noqa: ANN401  (a model of Transformers)
        """Read the weights and put them on the device.

        Args:
            kind: the class of Transformers that finds the architecture, such as `AutoModelForCausalLM`.
        """
        maker = getattr(self._transformers, kind)
        model = self._loaded(maker.from_pretrained, dtype=self._dtype, use_safetensors=True, **self._options)
        try:
            return model.to(self._placement.name).eval()
        except RuntimeError as problem:
            raise explained(problem) from problem

    def _loaded(self, make: Any, **more: Any) -> Any:  # noqa: ANN401  (anything that Transformers loads)
        # Both are passed each time: a setting in the folder that asks to run code has no effect.
        always = {"trust_remote_code": self._target.remote_code, "local_files_only": True}
        try:
            return make(self._folder, **always, **more)
        except (UsageError, MeasureError):
            raise
        except Exception as problem:  # the library and what it calls raise many kinds
            raise explained(problem) from problem


class LanguageModel:
    """A model in our process, its tokenizer, and the phase that its calls belong to.

    Making one reads configuration and tokenizer; `load` reads the weights. So each is timed apart.
    """

    architecture: ClassVar[str]
    """The class of Transformers that finds the architecture."""

    def __init__(self, order: Order, target: ModelTarget, folder: Path) -> None:
        self._order, self._folder = order, folder
        self._placement = devices.place(target.device)
        devices.set_threads(target)
        self._source = ModelFolder(folder, target, self._placement)
        self.check(self._source.config)
        begun = perf_counter()
        self._tokenizer = self._source.tokenizer()
        self._tokenizer_s = perf_counter() - begun
        self._model: Any = None
        self._phase: Phase = "load"
        self._device_memory: tuple[dict[str, float], dict[str, str]] = ({}, {})

    def check(self, config: Any) -> None:  # noqa: ANN401  (a configuration of Transformers)
        """Refuse an architecture that this is not for, before anything else of it is read."""

    def load(self) -> None:
        self._model = self._source.load(self.architecture)

    def start(self) -> None:
        """Set what chance and memory begin with, before the first call."""
        devices.library().manual_seed(self._order.job.definition.workload.seed)
        devices.start_memory(self._placement)

    def proved(self, output: Tensor | None) -> DeviceProof:
        """Where the weights lie and the last output was computed."""
        self._device_memory = devices.peak_memory(self._placement)
        outputs = [] if output is None else [output]
        return devices.prove(self._placement, tensors_of(self._model), outputs, "after the last call")

    def model_facts(self) -> dict[str, JsonValue]:
        return _model_facts(self._model, self._folder, self._order, self._placement)

    def tokenizer_facts(self) -> JsonValue:
        return {"class": type(self._tokenizer).__name__, "load_ms": self._tokenizer_s * 1e3}


def refuse_kernels(folder: Path, target: ModelTarget) -> None:
    """Refuse a model that asks for a kernel of the hub, where remote code is off: a kernel is third-party code."""
    if target.remote_code:
        return
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = {}  # the library says what is wrong with it
    kernels = [*_kernels(config), *_kernels(target.session_options)]
    if kernels:
        raise _unrun_code(f"the model asks for {kernels[0]}, a kernel from the hub, and remote_code is off")


def _kernels(value: object) -> Iterator[str]:
    """Values of `attn_implementation` and its like that name a repository."""
    if isinstance(value, list):
        for item in value:
            yield from _kernels(item)
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if str(name).endswith("_implementation"):
            yield from (text for text in _texts(item) if "/" in text)
        else:
            yield from _kernels(item)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


def explained(problem: BaseException) -> MeasureError:
    reason = next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
    if _CODE.search(str(problem)):
        return _unrun_code("the model needs code that lies beside its weights, and remote_code is off")
    if _MEMORY.search(str(problem)) or isinstance(problem, MemoryError):
        message = f"memory ran out: {reason}"
        try_ = "lower workload.batch, input_tokens or output_tokens, or set target.dtype: bfloat16"
        return MeasureError(message, code="out-of-memory", at="target.model", try_=try_)
    return _failed(f"{type(problem).__name__}: {reason}", "check the folder and the version of transformers")


def _unrun_code(message: str) -> MeasureError:
    try_ = "read that code; if you trust it, set target.remote_code: true"
    return MeasureError(message, code="model", at="target.remote_code", try_=try_)


def _failed(reason: str, try_: str) -> MeasureError:
    return MeasureError(f"the model cannot be loaded: {reason}", code="model", at="target.model", try_=try_)


def _checked_options(target: ModelTarget) -> dict[str, str]:
    for key in target.session_options:
        if key not in _OPTIONS:
            message = f"{key!r} is no option of this runtime"
            try_ = f"use {', '.join(_OPTIONS)}"
            raise UsageError(message, code="session-option", at=f"target.session_options.{key}", try_=try_)
    return dict(target.session_options)


def tensors_of(model: Any) -> Iterator[Tensor]:  # noqa: ANN401  (a torch module)
    yield from model.parameters()
    yield from model.buffers()


def stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:  # noqa: ANN401  (of Transformers)
    """Tokens that end an answer: those of the model's generation settings, else the tokenizer's."""
    end_tokens = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    end_tokens = tokenizer.eos_token_id if end_tokens is None else end_tokens
    return frozenset() if end_tokens is None else frozenset([end_tokens] if isinstance(end_tokens, int) else end_tokens)


def _model_facts(model: Any, folder: Path, order: Order, placement: TorchPlacement) -> dict[str, JsonValue]:  # noqa: ANN401
    import transformers

    config = model.config
    parameters = list(model.parameters())
    dtypes = Counter(str(parameter.dtype).removeprefix("torch.") for parameter in parameters)
    return {
        "runtime": "transformers",
        "runtime_version": str(transformers.__version__),
        **devices.facts(placement),
        "dtype": dtypes.most_common(1)[0][0] if dtypes else None,
        "attention": getattr(config, "_attn_implementation", None),
        "remote_code": type(model).__module__.startswith("transformers_modules"),
        "model": {
            "file": folder.name,
            "sha256": order.model_sha256,
            "architecture": type(model).__name__,
            "type": config.model_type,
            "parameters": sum(parameter.numel() for parameter in parameters),
            "weights_bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
            "dtypes": {**dict(sorted(dtypes.items()))},
            "quantised": getattr(config, "quantization_config", None) is not None,
            "weights": list(weights_of(folder)),
        },
    }
