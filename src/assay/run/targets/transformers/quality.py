"""Answers of a run: kept, judged, and looked at for whether the same question always got the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from assay.run.contract import Order
from assay.run.records import SampleSet
from assay.run.scoring import OUTPUTS, Output, as_asked, scored, write_outputs
from assay.run.targets.transformers.figures import Generated


@dataclass(frozen=True, slots=True)
class Answers:
    """The first answer to each question, when it was begun, and how often it was answered otherwise."""

    outputs: tuple[Output, ...]
    at_ns: tuple[int, ...]
    asked: int
    differing: int


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What is said about the answers."""

    samples: tuple[SampleSet, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    facts: JsonValue = None
    files: Mapping[str, Path] = field(default_factory=dict)


def first_answers(calls: Iterable[Generated], text: Callable[[Generated, int], str]) -> Answers:
    """The first answer to each turn of each item in the measured phase.

    Decoding is greedy, so that a further answer to the same question says nothing new; where it differs (other
    prompts in its batch can change the last digits), it is counted.
    """
    own = [call for call in calls if call.phase == "measure"]
    kept: dict[tuple[str, int], tuple[Output, int, tuple[int, ...]]] = {}
    asked = differing = 0
    for call in own:
        for row, ask in enumerate(call.asks):
            asked += 1
            key = (ask.item.id, ask.turn)
            tokens = tuple(step[row] for step in call.steps.tokens[: call.output_tokens[row]])
            if key in kept:
                differing += kept[key][2] != tokens
                continue
            last = ask.turn + 1 == len(ask.item.turns)
            output = Output(
                ask.item.id,
                ask.session,
                ask.turn,
                text(call, row),
                ask.item.reference if last else None,
                ask.item.data,
                more={
                    "input_tokens": call.input_tokens[row],
                    "output_tokens": call.output_tokens[row],
                    **as_asked(ask.item.turns[ask.turn]),
                },
            )
            kept[key] = (output, call.begun_ns - own[0].begun_ns, tokens)
    found = list(kept.values())
    return Answers(tuple(one[0] for one in found), tuple(one[1] for one in found), asked, differing)


def judge(answers: Answers, scorers: Sequence[str], order: Order) -> Judged:
    """Score the answers and keep them where the file asks for it, or where something scores them."""
    said = scored(answers.outputs, scorers)
    at = np.array(answers.at_ns, dtype=np.int64)
    samples = tuple(SampleSet(metric, "measure", at, values) for metric, values in said.values.items())
    keep = order.job.definition.workload.keep_outputs
    files = {}
    if answers.outputs and (keep or (keep is None and scorers)):
        files[OUTPUTS] = Path(order.scratch) / OUTPUTS
        write_outputs(files[OUTPUTS], answers.outputs)
    facts: JsonValue = {
        "asked": answers.asked,
        "different_questions": len(answers.outputs),
        "repeats_answered_otherwise": answers.differing,
        "scorers": dict(said.facts),
        "kept": bool(files),
    }
    return Judged(samples, dict(said.absent), facts, files)
