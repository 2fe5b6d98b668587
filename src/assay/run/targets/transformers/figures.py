"""From the steps of each call to samples and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.run.records import Phase, SamplePhase, SampleSet
from assay.run.targets.transformers.prompts import Ask
from assay.run.targets.transformers.stepping import Steps


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """One call: what was asked, when, and what came."""

    phase: Phase
    begun_ns: int
    """The prompts were text."""
    asks: tuple[Ask, ...]
    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    """Tokens that count as each answer: up to its own length, or up to its stop token."""
    steps: Steps

    @property
    def ended_ns(self) -> int:
        """The last token was there."""
        return int(self.steps.ends_ns[-1])


def answer_lengths(tokens: Sequence[Sequence[int]], limits: Sequence[int], stops: frozenset[int]) -> tuple[int, ...]:
    """How many tokens of each row are its answer."""
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
    found = []
    for metric, read in _READ.items():
        parts = [read(call) for call in own]
        values = np.concatenate([part[1] for part in parts]) if parts else np.empty(0)
        if values.size:
            at = np.concatenate([part[0] for part in parts]) - own[0].begun_ns
            found.append(SampleSet(metric, phase, at, values))
    return found


def counted(calls: Sequence[Generated], facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What was done in the measured phase: the items of the load, and their tokens."""
    known = facts.get("counted")
    tokens = sum(count for call in calls if call.phase == "measure" for count in call.output_tokens)
    return {**(known if isinstance(known, dict) else {}), "output_tokens": tokens}


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
