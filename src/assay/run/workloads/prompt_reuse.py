"""Prompts that no run has asked before: the seed of their words, how many a load needs, and which are repeated.

A server that keeps running remembers what it was asked. Prompts that come again are answered from its prefix cache, and
the cache is measured in place of the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.plan.digest import content_hash
from assay.plan.job import Job
from assay.plan.parts import is_part, point_key
from assay.run.load.http.recording import MEASURE, Recording
from assay.run.load.shape import Closed, shape_of
from assay.run.workloads.records import Item
from assay.spec.benchmark import Definition
from assay.spec.workload import Tokens

# Twelve hexadecimal digits: no two runs share a seed by chance, and every JSON reader keeps such a number whole.
_DIGITS = 12
# No server is expected to answer faster than this; a closed loop asks at most so often.
_FASTEST_ANSWER_S, _FASTEST_TOKEN_S = 0.010, 0.001


def prompt_seed(job: Job, run_id: int) -> int:
    """The seed of the words of one run's prompts, unless the workload gives one.

    Machines that share a load get the same seed: they share the prompts out among themselves.
    """
    given = job.definition.workload.prompt_seed
    if given is not None:
        return given
    which = point_key(job) if is_part(job.definition) else job.index
    return int(content_hash([job.definition.workload.seed, job.campaign, which, run_id])[:_DIGITS], 16)


def requests_needed(definition: Definition) -> float:
    """About the most requests that a load sends, its warm-up included; infinite where nothing bounds it."""
    load, until = definition.load, definition.measure.until
    if load.requests is not None:
        return 2 * load.requests + 16  # those of the warm-up are further ones
    if load.rate == "search":
        return math.inf
    shape = shape_of(load)
    measured_s = load.duration or sum(one.duration for one in load.stages) or until.at_most
    asked = definition.measure.warmup
    warm_s = asked if isinstance(asked, float) else 0.0 if asked == "none" else max(1.0, measured_s)
    seconds = measured_s + (load.ramp or 0.0) + warm_s
    if isinstance(shape, Closed):
        answer_s = _FASTEST_ANSWER_S + _FASTEST_TOKEN_S * _mean(definition.workload.output_tokens) + shape.think_s
        return shape.most * seconds / answer_s
    due = seconds * max(max(level.begin, level.end) for level in shape.levels)
    return due + 4 * math.sqrt(due) + 16  # arrivals by chance are sometimes more


def repeated_requests(recording: Recording, items: Sequence[Item]) -> int:
    """How many measured requests asked what this run had asked before.

    Args:
        recording: what was sent; session s asked items[s % len(items)].
    """
    seen = {_words(items[-1])}
    repeats: dict[int, bool] = {}  # session → whether another one asked the same before
    again = 0
    for number in np.argsort(recording.sent_ns, kind="stable").tolist():
        if not recording.sent_ns[number]:
            continue  # it was due and never sent
        session = int(recording.session[number])
        if session not in repeats:
            words = _words(items[session % len(items)])
            repeats[session] = words in seen
            seen.add(words)
        again += repeats[session] and int(recording.phase[number]) == MEASURE
    return again


def _words(item: Item) -> tuple[str | None, tuple[str, ...]]:
    return item.system, item.turns


def _mean(lengths: int | Tokens | None) -> float:
    return lengths.mean if isinstance(lengths, Tokens) else float(lengths or 0)
