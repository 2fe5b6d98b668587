"""Greedy decoding, one step after another, with a time stamp at each: prefill and decode apart."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import MeasureError
from assay.run.targets.transformers.prompts import Batch

if TYPE_CHECKING:
    from torch import Tensor

# Names under which architectures hand back what they remember of the tokens so far.
_RECURRENT = "cache_params"
_MEMORIES = ("past_key_values", _RECURRENT)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """One call: when each step ended, and the tokens it gave."""

    started_ns: int
    """The prompts were tokens in host memory."""
    ends_ns: NDArray[np.int64]
    """The tokens of each step were in host memory; the first is the end of the prefill."""
    tokens: tuple[tuple[int, ...], ...]
    """Step by step, one token for each prompt."""


class Stepper:
    """A causal language model with its memory, driven token by token."""

    def __init__(self, model: Any, device: str, stops: frozenset[int] = frozenset()) -> None:  # noqa: ANN401
        """What to drive.

        Args:
            stops: tokens that end an answer; none to decode as many as asked.
        """
        import torch

        self._torch, self._model, self._device, self._stops = torch, model, device, stops
        taken = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in taken
        # All logits of a long prompt would take gigabytes, and only the last ones are looked at.
        self._always: dict[str, Any] = {"use_cache": True, "return_dict": True}
        if "logits_to_keep" in taken:
            self._always["logits_to_keep"] = 1
        self.last: Tensor | None = None  # the logits of the last step, to see where they were computed
        self.memory: str | None = None  # class of what the model remembers in

    def run(self, batch: Batch, output_tokens: int) -> Steps:
        """Answer the prompts of one batch, each with `output_tokens` tokens or up to a stop token."""
        with self._torch.inference_mode():
            return self._run(batch, output_tokens)

    def _run(self, batch: Batch, output_tokens: int) -> Steps:
        torch, clock = self._torch, perf_counter_ns
        ends: list[int] = []
        tokens: list[tuple[int, ...]] = []
        open_rows = set(range(len(batch.lengths))) if self._stops else None
        started = clock()
        width = batch.ids.shape[1]
        ids = batch.ids.to(self._device)
        mask = torch.ones((ids.shape[0], width + output_tokens), dtype=torch.long, device=self._device)
        mask[:, :width] = batch.mask
        positions = (mask[:, :width].cumsum(-1) - 1).clamp(min=0)
        memory: dict[str, Any] = {}
        while True:
            ids, memory = self._step(ids, mask[:, : width + len(ends)], positions, memory)
            # Reading the tokens waits for the device: a token counts once the host has it.
            row = tuple(ids.tolist())
            ends.append(clock())
            tokens.append(row)
            if len(ends) == output_tokens or (open_rows is not None and not self._left(open_rows, row)):
                break
            ids, positions = ids.unsqueeze(1), positions[:, -1:] + 1
        return Steps(started, np.array(ends, dtype=np.int64), tuple(tokens))

    def _step(
        self, ids: Tensor, mask: Tensor, positions: Tensor, memory: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """One forward pass; the most likely next token of each row, and what to remember."""
        more = {"position_ids": positions} if self._takes_positions else {}
        # A recurrent model has the filling behind it after the prompt; it takes a mask as long as its input alone.
        if _RECURRENT not in memory:
            more["attention_mask"] = mask
        out = self._model(input_ids=ids, **more, **memory, **self._always)
        self.last = out.logits
        kept = {name: out[name] for name in _MEMORIES if name in out and out[name] is not None}
        if not kept:
            raise MeasureError(
                f"{type(self._model).__name__} gives back no memory of the tokens before, so it cannot be decoded "
                "step by step",
                code="model",
                at="target.model",
                try_="measure it as a service, for example with `transformers serve`",
            )
        self.memory = type(next(iter(kept.values()))).__name__
        return out.logits[:, -1].argmax(-1), kept

    def _left(self, open_rows: set[int], row: Sequence[int]) -> bool:
        """Whether an answer goes on after this step."""
        open_rows -= {index for index in open_rows if row[index] in self._stops}
        return bool(open_rows)
