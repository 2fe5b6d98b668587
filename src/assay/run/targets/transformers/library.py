"""The Transformers library: imported quietly, once, before anything is timed."""

from __future__ import annotations

import os
from typing import Any

from assay.errors import MeasureError
from assay.run.torch_devices import library as torch_library
from assay.spec.target import ModelTarget

_DTYPES = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "fp32": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}


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
        raise MeasureError(
            f"Transformers cannot be imported: {problem}", code="runtime", try_="pip install 'assay-bench[torch]'"
        ) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def dtype_of(target: ModelTarget) -> Any:  # noqa: ANN401  (a torch.dtype, or `auto`)
    """The number type that the file asks for; the model's own when it asks for none.

    Raises:
        MeasureError: for a name that is no floating-point type of ours.
    """
    if target.dtype is None:
        return "auto"
    if target.dtype.lower() not in _DTYPES:
        raise MeasureError(
            f"target.dtype is {target.dtype!r}, which is no number type that a model is loaded in",
            code="usage",
            at="target.dtype",
            try_=f"use one of {', '.join(_DTYPES)}; a quantised model says so in its own folder: leave dtype out",
        )
    return getattr(torch_library(), _DTYPES[target.dtype.lower()])
