"""Embedding as a target: vectors of tokens pooled to the vector of a text, as the folder says or as their mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run.contract import Measured, Order, Stage
from assay.run.records import DeviceProof, Phase
from assay.run.targets.transformers.decoding import OwnTokenizer
from assay.run.targets.transformers.model import LanguageModel
from assay.run.workloads import Workset, make_workset
from assay.spec.benchmark import Definition
from assay.spec.target import ModelTarget

if TYPE_CHECKING:
    from torch import Tensor


_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class Pooling:
    modes: tuple[str, ...] = ("mean_tokens",)
    """Joined one after another where there are several."""
    normalised: bool = True
    max_tokens: int | None = None
    """Longer texts are cut."""
    source: str = "our default: the mean over all tokens, normalised to length 1"

    def __call__(self, hidden: Tensor, mask: Tensor) -> Tensor:
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
    """The pooling that sentence-transformers wrote into a folder, or our default."""
    if not (folder / "modules.json").is_file():
        return Pooling()
    modules = _json(folder / "modules.json")
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    for kind in kinds:
        if kind not in _KNOWN_MODULES:
            raise _unknown(f"modules.json of {folder.name} has the step {kind}")
    pooling = next((module for module, kind in zip(modules, kinds, strict=True) if kind == "Pooling"), None)
    settings = _json(folder / str(pooling.get("path", "")) / "config.json") if pooling else {}
    modes = tuple(mode for mode in _MODES if settings.get(f"pooling_mode_{mode}")) or _single(settings)
    others = sorted(key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True)
    if not modes or len(others) > len(modes):
        raise _unknown(f"the pooling of {folder.name} is {', '.join(others) or settings}")
    limit = _json(folder / "sentence_bert_config.json") if (folder / "sentence_bert_config.json").is_file() else {}
    longest = limit.get("max_seq_length")
    return Pooling(modes, "Normalize" in kinds, longest if isinstance(longest, int) else None, "modules.json")


def _single(settings: dict[str, Any]) -> tuple[str, ...]:
    """Newer folders name one mode, some of them shortly: `{"pooling_mode": "mean"}`."""
    mode = str(settings.get("pooling_mode"))
    short = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
    mode = short.get(mode, mode if mode in ("lasttoken", "mean_sqrt_len_tokens") else "")
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
        message = f"{path} cannot be read: {problem}"
        raise MeasureError(message, code="model", at="target.model", try_="save the model again") from None


def _unknown(what: str) -> MeasureError:
    message = f"{what}, which is not known here; without it the vectors would be others"
    try_ = "serve the model with its own library and measure the service"
    return MeasureError(message, code="model", at="target.model", try_=try_)


@dataclass(frozen=True, slots=True)
class _Embedded:
    phase: Phase
    taken_ns: int
    tokens: int


class Embedder(LanguageModel):
    """A model that turns texts into vectors, the texts of one item in each call."""

    architecture = "AutoModel"

    def __init__(self, order: Order, target: ModelTarget, folder: Path) -> None:
        super().__init__(order, target, folder)
        self._pooling = read_pooling(folder)
        self._workset = self._made(order.job.definition)
        self.items_per_call = len(self._workset.items[0].turns)
        self._longest = self._room()
        self._cut = self._prepare()
        self._last: tuple[Tensor, Tensor] | None = None  # on the device, on the host
        self._next = 0
        self._calls: list[_Embedded] = []

    def begin(self, phase: Phase) -> None:
        """Hear which phase begins; each starts from the first item."""
        if phase == "warmup":  # it continues: what was measured so far belonged to it
            self._calls = [replace(call, phase=phase) if call.phase == "measure" else call for call in self._calls]
        self._phase, self._next = phase, 0

    def call(self) -> Callable[[], object]:
        """Turn the texts of the next item into vectors in host memory."""
        self.start()
        return self._embed

    def _embed(self) -> None:
        import torch

        begun = perf_counter_ns()
        texts = self._workset.items[self._next % len(self._workset.items)].turns
        read = self._tokenizer(
            list(texts),
            padding=True,
            truncation=self._longest is not None,
            max_length=self._longest,
            return_tensors="pt",
        )
        fed = {name: value.to(self._placement.name) for name, value in read.items()}
        with torch.inference_mode():
            vectors = self._pooling(self._model(**fed).last_hidden_state, fed["attention_mask"])
            host = vectors.cpu()  # waits for the device
        self._calls.append(_Embedded(self._phase, perf_counter_ns() - begun, int(read["attention_mask"].sum())))
        self._last, self._next = (vectors, host), self._next + 1

    def proof(self) -> DeviceProof:
        """Where the weights lie and the last vectors were computed."""
        return self.proved(self._last[0] if self._last else None)

    def facts(self) -> Mapping[str, JsonValue]:
        self.begin("score")
        self._embed()  # the first item once more, so that runs can be compared
        host = self._last[1] if self._last else None
        output: JsonValue = None
        if host is not None:
            content = host.float().contiguous().numpy().tobytes()
            output = {
                "shape": list(host.shape),
                "dtype": str(host.dtype).removeprefix("torch."),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        return {
            **self.model_facts(),
            "use": "embed",
            "tokenizer": self.tokenizer_facts(),
            "pooling": self._pooling.facts(),
            "texts_cut": self._cut,
            "workset": {**self._workset.facts},
            "output_of_first_item": output,
        }

    def close(self) -> None:
        self._model = self._last = None

    def complete(self, measured: Measured, stage: Stage) -> Measured:  # noqa: ARG002  (nothing is scored)
        """Add what only the calls tell: tokens."""
        own = [call for call in self._calls if call.phase == "measure"]
        tokens, taken_s = sum(call.tokens for call in own), sum(call.taken_ns for call in own) / 1e9
        on_device, not_on_device = self._device_memory
        texts = len(own) * self.items_per_call
        metrics = {"input_tokens": tokens / texts, "input_tokens_per_s": tokens / taken_s, **on_device}
        return replace(measured, metrics={**measured.metrics, **metrics}, absent={**measured.absent, **not_on_device})

    def _made(self, definition: Definition) -> Workset:
        workload = definition.workload
        if workload.task not in (None, "embedding"):
            message = f"task {workload.task} asks for answers, and use: embed gives vectors"
            raise UsageError(message, code="usage", at="workload.task", try_="set workload.task: embedding")
        as_task = workload.model_copy(update={"task": "embedding"})
        return make_workset(
            definition.model_copy(update={"workload": as_task}),
            Path(self._order.job.base),
            OwnTokenizer(self._tokenizer, self._folder),
        )

    def _room(self) -> int | None:
        """The longest text that the model takes, with its special tokens."""
        limits = [
            self._pooling.max_tokens,
            getattr(self._source.config, "max_position_embeddings", None),
            self._tokenizer.model_max_length,
        ]
        usable = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**9]
        return min(usable, default=None)

    def _prepare(self) -> int:
        """Let batches be filled, and count the texts that are too long and will be cut."""
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.convert_ids_to_tokens(0)
        if self._longest is None:
            return 0
        texts = [text for item in self._workset.items for text in item.turns]
        return sum(len(ids) > self._longest for ids in self._tokenizer(texts)["input_ids"])
