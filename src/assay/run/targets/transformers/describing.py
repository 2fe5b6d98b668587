"""What a loaded model is, read back from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.run import torch_devices as devices
from assay.run.contract import Order
from assay.run.models.folder import weights_of
from assay.run.torch_devices import TorchPlacement

if TYPE_CHECKING:
    from torch import Tensor


def tensors_of(model: Any) -> Iterator[Tensor]:  # noqa: ANN401  (a torch module)
    """Every parameter and buffer."""
    yield from model.parameters()
    yield from model.buffers()


def stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:  # noqa: ANN401  (of Transformers)
    """Tokens that end an answer: those of the model's generation settings, else the tokenizer's."""
    told = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    told = tokenizer.eos_token_id if told is None else told
    return frozenset() if told is None else frozenset([told] if isinstance(told, int) else told)


def model_facts(model: Any, folder: Path, order: Order, placement: TorchPlacement) -> dict[str, JsonValue]:  # noqa: ANN401
    """Versions, device and the model itself."""
    import transformers

    config = model.config
    parameters = list(model.parameters())
    dtypes = Counter(str(one.dtype).removeprefix("torch.") for one in parameters)
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
            "parameters": sum(one.numel() for one in parameters),
            "weights_bytes": sum(one.numel() * one.element_size() for one in parameters),
            "dtypes": {**dict(sorted(dtypes.items()))},
            "quantised": getattr(config, "quantization_config", None) is not None,
            "weights": list(weights_of(folder)),
        },
    }
