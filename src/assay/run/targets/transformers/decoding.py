"""Greedy decoding with a time stamp at each step, prefill and decode apart, and the figures of the steps."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.records import Phase, SamplePhase, SampleSet
from assay.run.workloads import Item, Workset

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: an item, which of its turns, and the answers before."""

    item: Item
    session: int
    turn: int = 0
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PromptBatch:
    """Prompts as tensors, filled up on the left so that all end where the answer begins."""

    ids: Tensor
    mask: Tensor
    lengths: tuple[int, ...]


class OwnTokenizer:
    """The model's tokenizer as tasks know one: plain text, no special tokens."""

    def __init__(self, tokenizer: Any, folder: Path) -> None:  # noqa: ANN401  (a tokenizer of Transformers)
        self._tokenizer = tokenizer
        file = folder / "tokenizer.json"
        digest = f", sha256 {hashlib.sha256(file.read_bytes()).hexdigest()[:12]}" if file.is_file() else ""
        self.name = f"the model's own ({type(tokenizer).__name__}{digest})"

    def count(self, texts: Sequence[str]) -> list[int]:
        if not texts:  # the library would fail on nothing
            return []
        return [len(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


class Prompter:
    """Turns asks into tensors on the host."""

    def __init__(self, tokenizer: Any, workset: Workset) -> None:  # noqa: ANN401  (a tokenizer of Transformers)
        self._tokenizer = tokenizer
        # A prompt that was made N tokens long is read as it is: a template or a special token would lengthen it.
        as_it_is = workset.task != "conversation" and any(item.input_tokens is not None for item in workset.items)
        self.chat = not as_it_is and bool(getattr(tokenizer, "chat_template", None))
        self._special = not as_it_is and not self.chat  # a template writes them itself
        self._pad = tokenizer.pad_token_id
        if self._pad is None:  # any token will do: the mask hides it
            self._pad = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0

    def text(self, prompt: Prompt) -> str:
        said = [prompt.item.turns[0]]
        for answer, turn in zip(prompt.answers, prompt.item.turns[1:], strict=False):
            said += [answer, turn]
        if not self.chat:
            system = [prompt.item.system] if prompt.item.system else []
            return "\n\n".join([*system, *said])
        roles = ["user", "assistant"] * len(said)
        messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
        if prompt.item.system:
            messages.insert(0, {"role": "system", "content": prompt.item.system})
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return text

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=self._special)["input_ids"]
        return ids

    def batch(self, texts: Sequence[str]) -> PromptBatch:
        import torch

        rows = self.tokens(texts)
        lengths = tuple(len(row) for row in rows)
        width = max(lengths)
        ids = torch.tensor([[self._pad] * (width - len(row)) + row for row in rows], dtype=torch.long)
        mask = torch.tensor([[0] * (width - size) + [1] * size for size in lengths], dtype=torch.long)
        return PromptBatch(ids, mask, lengths)

    def facts(self) -> dict[str, JsonValue]:
        return {
            "chat_template": self.chat,
            "special_tokens_added": self._special,
            "padding": "left, hidden by the attention mask",
            "pad_token": self._pad,
        }


@dataclass(slots=True)
class Sessions:
    """The rows of a batch; session number s asks items[s % len(items)], as with a service."""

    items: Sequence[Item]
    rows: int
    prompts: list[Prompt] = field(default_factory=list)
    _next: int = 0

    def begin(self) -> None:
        """Start again from the first item, so that each phase of each run is asked the same."""
        self._next = 0
        self.prompts = [self._fresh() for _ in range(self.rows)]

    def advance(self, answer: Callable[[int], str]) -> None:
        """Advance to the next turns; `answer` gives the answer to a row, and is called only where it matters."""
        self.prompts = [self._after(row, prompt, answer) for row, prompt in enumerate(self.prompts)]

    def _after(self, row: int, prompt: Prompt, answer: Callable[[int], str]) -> Prompt:
        if prompt.turn + 1 < len(prompt.item.turns):
            return replace(prompt, turn=prompt.turn + 1, answers=(*prompt.answers, answer(row)))
        return self._fresh()

    def _fresh(self) -> Prompt:
        session, self._next = self._next, self._next + 1
        return Prompt(self.items[session % len(self.items)], session)


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

    def run(self, batch: PromptBatch, output_tokens: int) -> Steps:
        """Answer the prompts of one batch, each with `output_tokens` tokens or up to a stop token."""
        with self._torch.inference_mode():
            return self._run(batch, output_tokens)

    def _run(self, batch: PromptBatch, output_tokens: int) -> Steps:
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
        cache = {name: out[name] for name in _MEMORIES if name in out and out[name] is not None}
        if not cache:
            message = (
                f"{type(self._model).__name__} gives back no memory of the tokens before, so it cannot be decoded "
                "step by step"
            )
            try_ = "measure it as a service, for example with `transformers serve`"
            raise MeasureError(message, code="model", at="target.model", try_=try_)
        self.memory = type(next(iter(cache.values()))).__name__
        return out.logits[:, -1].argmax(-1), cache

    def _left(self, open_rows: set[int], row: Sequence[int]) -> bool:
        """Whether an answer continues after this step."""
        open_rows -= {index for index in open_rows if row[index] in self._stops}
        return bool(open_rows)


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """One call: what was asked, when, and what came."""

    phase: Phase
    begun_ns: int
    """The prompts were text."""
    prompts: tuple[Prompt, ...]
    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    """Tokens that count as each answer: up to its own length, or up to its stop token."""
    steps: Steps

    @property
    def ended_ns(self) -> int:
        """The last token was there."""
        return int(self.steps.ends_ns[-1])


def answer_lengths(tokens: Sequence[Sequence[int]], limits: Sequence[int], stops: frozenset[int]) -> tuple[int, ...]:
    return tuple(
        next((step + 1 for step, row in enumerate(tokens[:limit]) if row[index] in stops), min(limit, len(tokens)))
        for index, limit in enumerate(limits)
    )


# Metric → start and value (in its unit) of each sample of one call.
_Read = Callable[[Generated], tuple[NDArray[np.int64], NDArray[np.float64]]]


def _whole(begin: Callable[[Generated], int], value: Callable[[Generated], float]) -> _Read:
    return lambda call: (np.array([begin(call)], dtype=np.int64), np.array([value(call)], dtype=np.float64))


def _after_first(value: Callable[[int, int], float]) -> _Read:
    """One number over all tokens after the first; none for an answer of one token."""

    def read(call: Generated) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        ends = call.steps.ends_ns
        steps = len(ends) - 1
        values = [value(int(ends[-1] - ends[0]), steps)] if steps else []
        return ends[:1][: len(values)], np.array(values, dtype=np.float64)

    return read


def _each_step(call: Generated) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    ends = call.steps.ends_ns
    return ends[:-1], np.diff(ends) / 1e6


_READ: dict[str, _Read] = {
    "prefill_ms": _whole(lambda call: call.steps.started_ns, lambda c: (c.steps.ends_ns[0] - c.steps.started_ns) / 1e6),
    "decode_ms": _each_step,
    "ttft_ms": _whole(lambda call: call.begun_ns, lambda call: (call.steps.ends_ns[0] - call.begun_ns) / 1e6),
    "itl_ms": _each_step,
    "tpot_ms": _after_first(lambda taken_ns, steps: taken_ns / steps / 1e6),
    "e2e_ms": _whole(lambda call: call.begun_ns, lambda call: (call.ended_ns - call.begun_ns) / 1e6),
    "user_tokens_per_s": _after_first(lambda taken_ns, steps: steps / (taken_ns / 1e9)),
}


def sample_sets(calls: Sequence[Generated], phase: SamplePhase) -> list[SampleSet]:
    own = [call for call in calls if call.phase == phase]
    collected = []
    for metric, read in _READ.items():
        parts = [read(call) for call in own]
        values = np.concatenate([part[1] for part in parts]) if parts else np.empty(0)
        if values.size:
            at = np.concatenate([part[0] for part in parts]) - own[0].begun_ns
            collected.append(SampleSet(metric, phase, at, values))
    return collected


def counted(calls: Sequence[Generated], facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What was done in the measured phase: the items of the load, and their tokens."""
    counts = facts.get("counted")
    tokens = sum(count for call in calls if call.phase == "measure" for count in call.output_tokens)
    return {**(counts if isinstance(counts, dict) else {}), "output_tokens": tokens}


def numbers(calls: Sequence[Generated]) -> tuple[dict[str, float], dict[str, str]]:
    """Numbers of the whole measured phase, and what there is none of."""
    own = [call for call in calls if call.phase == "measure"]
    busy_s = sum(call.ended_ns - call.begun_ns for call in own) / 1e9
    inputs = [count for call in own for count in call.input_tokens]
    outputs = [count for call in own for count in call.output_tokens]
    metrics = {
        "input_tokens": float(np.mean(inputs)),
        "output_tokens": float(np.mean(outputs)),
        "input_tokens_per_s": sum(inputs) / busy_s,
        "output_tokens_per_s": sum(outputs) / busy_s,
    }
    if any(len(call.steps.ends_ns) > 1 for call in own):
        return metrics, {}
    reason = "answers of one token: the prefill gives it, and nothing is decoded after it"
    return metrics, dict.fromkeys(("decode_ms", "itl_ms", "tpot_ms", "user_tokens_per_s"), reason)
