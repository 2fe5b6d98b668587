"""From a folder to a model on its device: configuration and tokenizer before the clock, weights under it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import MeasureError, UsageError
from assay.run.policy import refuse_program
from assay.run.targets.transformers.library import dtype_of, library
from assay.run.torch_devices import TorchPlacement
from assay.spec.target import ModelTarget

# What `target.session_options` may hold: arguments of `from_pretrained` that change how the model computes.
_OPTIONS = ("attn_implementation",)
_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate|cannot allocate", re.IGNORECASE)
_CODE = re.compile(r"trust_remote_code|custom code|execute the configuration file", re.IGNORECASE)


class Source:
    """A model folder that may be loaded: its configuration is read and its code imported, its weights are not."""

    def __init__(self, folder: Path, target: ModelTarget, placement: TorchPlacement) -> None:
        if not folder.is_dir():
            raise MeasureError(
                f"{folder} is a file; transformers loads a folder",
                code="model",
                at="target.model",
                try_="give the folder that save_pretrained wrote",
            )
        if target.remote_code:
            refuse_program("code beside the model is to run (target.remote_code)", "target.remote_code")
        refuse_kernels(folder, target)
        self._folder, self._target, self._placement = folder, target, placement
        self._transformers = library(target)
        self._dtype, self._options = dtype_of(target), _checked_options(target)
        self.config = self._told(self._transformers.AutoConfig.from_pretrained)
        self._import_architecture()

    def tokenizer(self) -> Any:  # noqa: ANN401  (a tokenizer of Transformers)
        """The model's own tokenizer."""
        found = self._told(self._transformers.AutoTokenizer.from_pretrained)
        # Without its files the library may hand out an empty one, which turns every text into nothing.
        if found is None or not found.encode("token", add_special_tokens=False):
            raise _failed("its folder holds no tokenizer", "put the model's tokenizer files beside its weights")
        return found

    def load(self, kind: str) -> Any:  # noqa: ANN401  (a model of Transformers)
        """Read the weights and put them on the device.

        Args:
            kind: the class of Transformers that finds the architecture, such as `AutoModelForCausalLM`.
        """
        maker = getattr(self._transformers, kind)
        model = self._told(maker.from_pretrained, dtype=self._dtype, use_safetensors=True, **self._options)
        try:
            return model.to(self._placement.name).eval()
        except RuntimeError as problem:
            raise explained(problem) from problem

    def _import_architecture(self) -> None:
        """Import the model's code now: it is part of the library, not of the load."""
        for name in self.config.architectures or ():
            getattr(self._transformers, name, None)

    def _told(self, make: Any, **more: Any) -> Any:  # noqa: ANN401  (anything that Transformers loads)
        # Both are said each time: the folder's own wish to run code counts for nothing.
        always = {"trust_remote_code": self._target.remote_code, "local_files_only": True}
        try:
            return make(self._folder, **always, **more)
        except (UsageError, MeasureError):
            raise
        except Exception as problem:  # the library and what it calls raise many kinds
            raise explained(problem) from problem


def refuse_kernels(folder: Path, target: ModelTarget) -> None:
    """Refuse a model that asks for a kernel of the hub, where remote code is off: a kernel is code of somebody else.

    Raises:
        MeasureError: with the name of the kernel.
    """
    if target.remote_code:
        return
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = {}  # the library says what is wrong with it
    kernels = [*_kernels(config), *_kernels(target.session_options)]
    if kernels:
        raise MeasureError(
            f"the model asks for {kernels[0]}, a kernel from the hub, and remote_code is off",
            code="model",
            at="target.remote_code",
            try_="read that code; if you trust it, set target.remote_code: true",
        )


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
    """Say why a model could not be loaded or run."""
    reason = next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
    if _CODE.search(str(problem)):
        return MeasureError(
            "the model needs code that lies beside its weights, and remote_code is off",
            code="model",
            at="target.remote_code",
            try_="read that code; if you trust it, set target.remote_code: true",
        )
    if _MEMORY.search(str(problem)) or isinstance(problem, MemoryError):
        return MeasureError(
            f"memory ran out: {reason}",
            code="out-of-memory",
            at="target.model",
            try_="lower workload.batch, input_tokens or output_tokens, or set target.dtype: bfloat16",
        )
    return _failed(f"{type(problem).__name__}: {reason}", "check the folder and the version of transformers")


def _failed(reason: str, try_: str) -> MeasureError:
    return MeasureError(f"the model cannot be loaded: {reason}", code="model", at="target.model", try_=try_)


def _checked_options(target: ModelTarget) -> dict[str, str]:
    for key in target.session_options:
        if key not in _OPTIONS:
            raise UsageError(
                f"{key!r} is no option of this runtime",
                code="session-option",
                at=f"target.session_options.{key}",
                try_=f"use {', '.join(_OPTIONS)}",
            )
    return dict(target.session_options)
