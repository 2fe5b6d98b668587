"""From the vectors of tokens to the vector of a text: as the folder says, or the mean of all tokens, normalised."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.errors import MeasureError

if TYPE_CHECKING:
    from torch import Tensor

_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class Pooling:
    """How token vectors become one."""

    modes: tuple[str, ...] = ("mean_tokens",)
    """Joined one after another where there are several."""
    normalised: bool = True
    max_tokens: int | None = None
    """Longer texts are cut."""
    source: str = "our default: the mean over all tokens, normalised to length 1"

    def __call__(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The vectors of a batch of texts."""
        import torch

        parts = [_MODES[mode](hidden, mask) for mode in self.modes]
        joined = torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]
        return torch.nn.functional.normalize(joined, p=2, dim=-1) if self.normalised else joined

    def facts(self) -> dict[str, JsonValue]:
        return {
            "modes": list(self.modes),
            "normalised": self.normalised,
            "max_tokens": self.max_tokens,
            "from": self.source,
        }


def read_pooling(folder: Path) -> Pooling:
    """The pooling that sentence-transformers wrote into a folder, or our default.

    Raises:
        MeasureError: for a step that we do not know; leaving it out would give other vectors.
    """
    if not (folder / "modules.json").is_file():
        return Pooling()
    modules = _json(folder / "modules.json")
    kinds = [str(one.get("type", "")).rpartition(".")[2] for one in modules]
    for kind in kinds:
        if kind not in _KNOWN_MODULES:
            raise _unknown(f"modules.json of {folder.name} has the step {kind}")
    pooling = next((one for one, kind in zip(modules, kinds, strict=True) if kind == "Pooling"), None)
    settings = _json(folder / str(pooling.get("path", "")) / "config.json") if pooling else {}
    modes = tuple(mode for mode in _MODES if settings.get(f"pooling_mode_{mode}")) or _single(settings)
    others = sorted(key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True)
    if not modes or len(others) > len(modes):
        raise _unknown(f"the pooling of {folder.name} is {', '.join(others) or settings}")
    limit = _json(folder / "sentence_bert_config.json") if (folder / "sentence_bert_config.json").is_file() else {}
    longest = limit.get("max_seq_length")
    return Pooling(modes, "Normalize" in kinds, longest if isinstance(longest, int) else None, "modules.json")


def _single(settings: dict[str, Any]) -> tuple[str, ...]:
    """Newer folders name one mode: `{"pooling_mode": "mean"}`."""
    named = {
        "cls": "cls_token",
        "mean": "mean_tokens",
        "max": "max_tokens",
        "lasttoken": "lasttoken",
        "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
        "weightedmean": "weightedmean_tokens",
    }
    mode = named.get(str(settings.get("pooling_mode")))
    return (mode,) if mode else ()


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def _mean_sqrt(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9).sqrt()


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    largest: Tensor = hidden.masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).max(1).values
    return largest


def _weighted(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = (mask.cumsum(-1) * mask).unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def _row(hidden: Tensor, places: Tensor) -> Tensor:
    import torch

    rows: Tensor = hidden[torch.arange(hidden.shape[0], device=hidden.device), places]
    return rows


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return _row(hidden, mask.argmax(-1))


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    return _row(hidden, mask.shape[1] - 1 - mask.flip(-1).argmax(-1))


_MODES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls_token": _first,
    "max_tokens": _max,
    "mean_tokens": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt,
    "weightedmean_tokens": _weighted,
    "lasttoken": _last,
}


def _json(path: Path) -> Any:  # noqa: ANN401  (whatever the file holds)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise MeasureError(
            f"{path} cannot be read: {problem}", code="model", at="target.model", try_="save the model again"
        ) from None


def _unknown(what: str) -> MeasureError:
    return MeasureError(
        f"{what}, which is not known here; without it the vectors would be others",
        code="model",
        at="target.model",
        try_="serve the model with its own library and measure the service",
    )
