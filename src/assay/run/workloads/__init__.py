"""What a language model is fed: tasks by name, ours and those of others."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from assay.errors import MeasureError
from assay.plan.job import Job
from assay.plugins import plugin_names
from assay.run.apis import find_protocol
from assay.run.tokens import Tokenizer
from assay.run.workloads.records import Item, Task, Workset
from assay.run.workloads.worksets import prompt_seed
from assay.spec.benchmark import Definition
from assay.spec.protocols import VECTORS
from assay.spec.target import Served
from assay.spec.workload import Workload

__all__ = ["GROUP", "Item", "Task", "Workset", "is_built_in", "make_workset", "task_name", "with_new_prompts"]

GROUP = "assay.tasks"

# Built-in task → its module, which is loaded when it is asked for, and the keys of `workload` that it heeds.
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
    """Make what a definition asks for.

    Raises:
        MeasureError: when the task is unknown or cannot make what is asked for.
    """
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
        raise MeasureError(
            "the task knn asks for neighbours of vectors, and this target answers text",
            code="task",
            at="workload.task",
            try_=f"use it with a vector database: {', '.join(plugin_names(VECTORS))}",
        )
    if name in _BUILT_IN:
        return _built_in(name)
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted({*_BUILT_IN, *found}))
        raise MeasureError(
            f"there is no task {name!r} here",
            code="task",
            at="workload.task",
            try_=f"use one of {known}, or install a package that registers it under {GROUP}",
        )
    task: Task = found[name].load()
    return task


def _built_in(name: str) -> Task:
    from assay.run.workloads.synthetic import make_synthetic
    from assay.run.workloads.tasks import make_conversation, make_embedding, make_prompts, make_wikipedia_summary

    tasks: dict[str, Task] = {
        "synthetic": make_synthetic,
        "prompts": make_prompts,
        "conversation": make_conversation,
        "wikipedia-summary": make_wikipedia_summary,
        "embedding": make_embedding,
    }
    return tasks[name]


def _refuse_unheeded(workload: Workload, name: str) -> None:
    """A key that looks decisive and does nothing makes wrong numbers."""
    heeded = {*_BUILT_IN[name].split(), *_FOR_ALL}
    # A value equal to its default changes nothing, so only the others can mislead.
    given = (key for key, field in Workload.model_fields.items() if getattr(workload, key) != field.default)
    for key in given:
        if key not in heeded:
            raise MeasureError(
                f"workload.{key} would do nothing for the task {name}",
                code="task-key",
                at=f"workload.{key}",
                try_=f"remove it; {name} heeds {', '.join(sorted(_BUILT_IN[name].split()))}",
            )
