"""What a language model is fed: tasks by name, ours and those of others, and the sets of items that they make.

A server that keeps running remembers what it was asked. Prompts that come again are answered from its prefix cache, and
the cache is measured in place of the model. So each run has a seed of its own for the words of its prompts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.plan.job import Job, content_hash, is_part, point_key
from assay.plugins import plugin_names
from assay.run.apis import find_protocol
from assay.run.load.http.recording import MEASURE, LoadRecording
from assay.run.load.shape import ClosedShape, shape_of
from assay.run.tokens import Tokenizer
from assay.spec.benchmark import Definition
from assay.spec.target import VECTORS, Served
from assay.spec.workload import Tokens, Workload

GROUP = "assay.tasks"

# Built-in task, whose function `make_…` is loaded when it is asked for → the keys of `workload` that it heeds.
_BUILT_IN = {
    "synthetic": "input_tokens output_tokens items shared_prefix prompt prompt_seed",
    "prompts": "file prompt output_tokens items",
    "conversation": "file prompt prompt_seed input_tokens output_tokens items turns shared_prefix",
    "wikipedia-summary": "prompt output_tokens items",
    "embedding": "file prompt prompt_seed input_tokens items batch",
}
_FOR_ALL = {"task", "seed", "scorers", "keep_outputs"}


def task_name(workload: Workload) -> str:
    """Which task a workload means: its own word, else what its keys tell."""
    if workload.task is not None:
        return workload.task
    return "prompts" if workload.file is not None else "synthetic"


def is_built_in(workload: Workload) -> bool:
    """Whether one of our own tasks makes what a workload asks for."""
    return task_name(workload) in _BUILT_IN


def make_workset(definition: Definition, base: Path, tokenizer: Tokenizer | None) -> Workset:
    """Make what a definition asks for."""
    name = _task_of(definition)
    if name in _BUILT_IN:
        _refuse_unheeded(definition.workload, name)
    return _find(name)(definition, base, tokenizer)


def with_new_prompts(job: Job, run_id: int) -> Definition:
    """The job's definition with the seed of prompts that only this run asks; prompts that are given stay the same."""
    definition = job.definition
    name = _task_of(definition)
    if name in _BUILT_IN and "prompt_seed" not in _BUILT_IN[name].split():
        return definition
    new = definition.workload.model_copy(update={"prompt_seed": prompt_seed(job, run_id)})
    return definition.model_copy(update={"workload": new})


def _task_of(definition: Definition) -> str:
    target = definition.target
    protocol = find_protocol(target.api) if definition.workload.task is None and isinstance(target, Served) else None
    return (protocol and protocol.task) or task_name(definition.workload)


def _find(name: str) -> Task:
    if name == "knn":
        message = "the task knn asks for neighbours of vectors, and this target answers text"
        try_ = f"use it with a vector database: {', '.join(plugin_names(VECTORS))}"
        raise MeasureError(message, code="task", at="workload.task", try_=try_)
    if name in _BUILT_IN:
        module = import_module(f"{__name__}.{'synthetic' if name == 'synthetic' else 'tasks'}")
        return cast("Task", getattr(module, f"make_{name.replace('-', '_')}"))
    registered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in registered:
        available = ", ".join(sorted({*_BUILT_IN, *registered}))
        message = f"there is no task {name!r} here"
        try_ = f"use one of {available}, or install a package that registers it under {GROUP}"
        raise MeasureError(message, code="task", at="workload.task", try_=try_)
    return cast("Task", registered[name].load())


def _refuse_unheeded(workload: Workload, name: str) -> None:
    """A key that looks decisive and does nothing makes wrong numbers."""
    heeded = {*_BUILT_IN[name].split(), *_FOR_ALL}
    # A value equal to its default changes nothing, so only the others can mislead.
    given = (key for key, field in Workload.model_fields.items() if getattr(workload, key) != field.default)
    for key in given:
        if key not in heeded:
            message = f"workload.{key} would do nothing for the task {name}"
            try_ = f"remove it; {name} heeds {', '.join(sorted(_BUILT_IN[name].split()))}"
            raise MeasureError(message, code="task-key", at=f"workload.{key}", try_=try_)


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
    """Put items together with the facts about them.

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
            "drawn": spread(entry.output_tokens for entry in items if entry.output_tokens is not None),
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
    shape = [[entry.id, entry.input_tokens, entry.output_tokens, len(entry.turns)] for entry in items]
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
    held = hashlib.sha256()
    for item in items:
        held.update(json.dumps(asdict(item), sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        held.update(b"\n")
    return held.hexdigest()


def spread(lengths: Iterable[int]) -> JsonValue:
    """Shortest, median, mean and longest of some lengths; None where there are none."""
    counts = np.fromiter(lengths, dtype=np.int64)
    if not len(counts):
        return None
    middle, mean = float(np.median(counts)), float(counts.mean())
    return {"min": int(counts.min()), "median": middle, "mean": mean, "max": int(counts.max())}


def asked(lengths: int | Tokens | None) -> JsonValue:
    """A length as the user wrote it."""
    return lengths.model_dump(mode="json") if isinstance(lengths, Tokens) else lengths


def _prompt_tokens(items: Sequence[Item], workload: Workload, tokenizer: Tokenizer | None) -> JsonValue:
    facts: dict[str, JsonValue] = {"asked": asked(workload.input_tokens), "counts": COUNTED}
    if tokenizer is None:
        return {**facts, "delivered": None, "because": "no tokenizer was given, and words are not tokens"}
    some = items[:_MOST_COUNTED]
    # What was made to length has been counted then.
    counts = iter(tokenizer.count([item.turns[0] for item in some if item.input_tokens is None]))
    delivered = [next(counts) if item.input_tokens is None else item.input_tokens for item in some]
    return {**facts, "delivered": spread(delivered), "counted": len(some)}


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
    measured_s = load.duration or sum(stage.duration for stage in load.stages) or until.at_most
    asked = definition.measure.warmup
    warm_s = asked if isinstance(asked, float) else 0.0 if asked == "none" else max(1.0, measured_s)
    seconds = measured_s + (load.ramp or 0.0) + warm_s
    if isinstance(shape, ClosedShape):
        answer_s = _FASTEST_ANSWER_S + _FASTEST_TOKEN_S * mean_length(definition.workload.output_tokens) + shape.think_s
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


def mean_length(lengths: int | Tokens | None) -> float:
    return lengths.mean if isinstance(lengths, Tokens) else float(lengths or 0)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to ask: a prompt, a conversation, or the texts of one embedding request."""

    id: str
    """Stable name inside the task."""
    turns: tuple[str, ...]
    """What the user says, one turn after another; for embedding the texts of one request."""
    system: str | None = None
    reference: str | None = None
    """What a scorer compares the last answer with."""
    input_tokens: int | None = None
    """Tokens of the first turn, where the task makes prompts of a length."""
    output_tokens: int | None = None
    """Tokens asked for; the server's own default when None."""
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    """What a custom scorer may want."""


@dataclass(frozen=True, slots=True)
class Workset:
    """All items of one run; session number s uses items[s % len(items)]."""

    task: str
    items: tuple[Item, ...]
    scorers: tuple[str, ...]
    facts: Mapping[str, JsonValue]


class Task(Protocol):
    """Makes the items of a definition. Registered by name under the entry-point group `assay.tasks`."""

    def __call__(self, definition: Definition, base: Path, tokenizer: Tokenizer | None, /) -> Workset:
        """Make them; raise MeasureError when they cannot be made as asked."""
        ...
