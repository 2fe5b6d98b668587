"""Sets of items: what a result says about them, and prompts that no run has asked before.

A server that keeps running remembers what it was asked. Prompts that come again are answered from its prefix cache, and
the cache is measured in place of the model. So each run has a seed of its own for the words of its prompts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import numpy as np
from pydantic import JsonValue

from assay.plan.digest import content_hash
from assay.plan.job import Job, is_part, point_key
from assay.run.load.http.recording import MEASURE, LoadRecording
from assay.run.load.shape import ClosedShape, shape_of
from assay.run.tokens import Tokenizer
from assay.run.workloads.records import Item, Workset
from assay.spec.benchmark import Definition
from assay.spec.workload import Tokens, Workload

# Counting is done before the clock starts, but a long file over a server's tokenizer would still take minutes.
_MOST_COUNTED = 1000
_NEW = "made for this run from prompt_seed; set workload.prompt_seed to ask them again"
_SAME_SEED = "made from the seed, the same in every run"
_GIVEN = "the same in every run: they are given, not made"
COUNTED = (
    "tokens of the prompt's own text; a chat template adds more, which the server's count of input tokens includes"
)


def workset(
    task: str,
    items: Sequence[Item],
    workload: Workload,
    tokenizer: Tokenizer | None,
    *,
    source: str,
    licence: str | None = None,
    scorers: tuple[str, ...] = (),
    more: Mapping[str, JsonValue] | None = None,
    made: bool = False,
) -> Workset:
    """Put items together with what is to be said about them.

    Args:
        scorers: what judges the answers unless the workload names others.
        made: whether the words of the prompts come from the seed, so that each run may have its own.
    """
    facts: dict[str, JsonValue] = {
        "task": task,
        "items": len(items),
        **_identity(task, items, workload, tokenizer, made=made),
        "source": source,
        "licence": licence,
        "seed": workload.seed,
        "tokenizer": tokenizer.name if tokenizer else None,
        "prompt_tokens": _prompt_tokens(items, workload, tokenizer),
        "output_tokens": {
            "asked": asked(workload.output_tokens),
            "drawn": spread(one.output_tokens for one in items if one.output_tokens is not None),
        },
        **(more or {}),
    }
    chosen = scorers if workload.scorers is None else workload.scorers
    return Workset(task, tuple(items), chosen, facts)


def _identity(
    task: str, items: Sequence[Item], workload: Workload, tokenizer: Tokenizer | None, *, made: bool
) -> dict[str, JsonValue]:
    """What tells two sets apart: what was asked for, and for new prompts their words as well.

    Prompts with a seed of their own have other words in every run, and mean the same: their digest leaves words out.
    """
    if not made or workload.prompt_seed is None:
        return {"digest": digest(items), "prompts": _SAME_SEED if made else _GIVEN}
    shape = [[one.id, one.input_tokens, one.output_tokens, len(one.turns)] for one in items]
    recipe = workload.model_dump(mode="json", exclude_defaults=True, exclude={"prompt_seed"})
    name = tokenizer.name if tokenizer else None
    return {
        "digest": content_hash([task, shape, recipe, name]),
        "texts_digest": digest(items),
        "prompt_seed": workload.prompt_seed,
        "prompts": _NEW,
    }


def digest(items: Iterable[Item]) -> str:
    """SHA-256 of everything that is asked and compared with, in order."""
    found = hashlib.sha256()
    for item in items:
        found.update(json.dumps(asdict(item), sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        found.update(b"\n")
    return found.hexdigest()


def spread(lengths: Iterable[int]) -> JsonValue:
    """Shortest, median, mean and longest of some lengths; None where there are none."""
    found = np.fromiter(lengths, dtype=np.int64)
    if not len(found):
        return None
    return {
        "min": int(found.min()),
        "median": float(np.median(found)),
        "mean": float(found.mean()),
        "max": int(found.max()),
    }


def asked(lengths: int | Tokens | None) -> JsonValue:
    """A length as the user wrote it."""
    return lengths.model_dump(mode="json") if isinstance(lengths, Tokens) else lengths


def _prompt_tokens(items: Sequence[Item], workload: Workload, tokenizer: Tokenizer | None) -> JsonValue:
    found: dict[str, JsonValue] = {"asked": asked(workload.input_tokens), "counts": COUNTED}
    if tokenizer is None:
        return {**found, "delivered": None, "because": "no tokenizer was given, and words are not tokens"}
    some = items[:_MOST_COUNTED]
    # What was made to length has been counted then.
    counts = iter(tokenizer.count([item.turns[0] for item in some if item.input_tokens is None]))
    delivered = [next(counts) if item.input_tokens is None else item.input_tokens for item in some]
    return {**found, "delivered": spread(delivered), "counted": len(some)}


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
    if isinstance(shape, ClosedShape):
        answer_s = _FASTEST_ANSWER_S + _FASTEST_TOKEN_S * _mean(definition.workload.output_tokens) + shape.think_s
        return shape.most * seconds / answer_s
    due = seconds * max(max(level.begin, level.end) for level in shape.levels)
    return due + 4 * math.sqrt(due) + 16  # arrivals by chance are sometimes more


def repeated_requests(recording: LoadRecording, items: Sequence[Item]) -> int:
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
