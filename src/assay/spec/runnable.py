"""What a document of the right shape may say that no run could do: refused before anything is planned.

These are not rules of the sections themselves: results that were kept before a rule was made must still be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.errors import Problem
from assay.spec.benchmark import Benchmark, Definition
from assay.spec.matrix import Point
from assay.spec.problems import place_of
from assay.spec.protocols import needs_model
from assay.spec.source import SourceDocument
from assay.spec.target import Served

# Stands for the model's name in the file that `assay init URL` writes when the endpoint could not be asked.
PLACEHOLDER = "CHANGE-ME"
# Tasks of ours, which put the item's text into the prompt; those of others may read it as they like.
_OWN_TASKS = frozenset({None, "synthetic", "prompts", "conversation", "wikipedia-summary", "embedding"})


def unrunnable(definition: Definition, source: SourceDocument, point: Point) -> list[Problem]:
    """Everything that would fail in every run, at its line of the file."""
    at = _At(source, point)
    return [*_model(definition, at), *_prompt(definition, at), *_file(definition, at), *_monitoring(definition, at)]


@dataclass(frozen=True, slots=True)
class _At:
    """Where a key stands."""

    source: SourceDocument
    point: Point

    def __call__(self, path: str) -> str:
        return place_of(tuple(path.split(".")), self.source, self.point)


def _model(definition: Definition, at: _At) -> Iterator[Problem]:
    target = definition.target
    if not isinstance(target, Served) or not needs_model(target):
        return
    model = target.options.get("model", target.model)
    ask = "many servers list their models under /v1/models"
    if not model:
        yield Problem(
            "missing-key",
            f"target.model is missing, and {target.api} needs the name of a model",
            at("target.model"),
            f"add model: … to target; {ask}",
        )
    elif model == PLACEHOLDER:
        yield Problem(
            "placeholder",
            f"target.model is {PLACEHOLDER}, which stands for the name of your model",
            at("target.model"),
            f"write the name of the model there; {ask}",
        )


def _prompt(definition: Definition, at: _At) -> Iterator[Problem]:
    prompt = definition.workload.prompt
    if prompt is not None and "{text}" not in prompt and definition.workload.task in _OWN_TASKS:
        yield Problem(
            "prompt-template",
            f"workload.prompt is {prompt[:60]!r}, which has no place for the item's text",
            at("workload.prompt"),
            "write {text} where it belongs; prompts of your own are read with workload.file",
        )


def _file(definition: Definition, at: _At) -> Iterator[Problem]:
    if definition.workload.task == "prompts" and definition.workload.file is None:
        yield Problem(
            "workload-file",
            "the task prompts reads a file, and workload.file is not given",
            at("workload.file"),
            'name a JSONL file with lines such as {"prompt": "…"}',
        )


def _monitoring(definition: Definition, at: _At) -> Iterator[Problem]:
    if not isinstance(definition, Benchmark) or not definition.monitoring:
        return
    who = {"kubernetes": "pods", "fleet": "agents of a server"}.get(definition.place.engine)
    if who is not None:
        yield Problem(
            "monitoring",
            f"monitoring is for runs on one machine and on a Slurm cluster; {who} start no Prometheus",
            at("monitoring"),
            "remove it; telemetry of every job is recorded anyway (measure.probe)",
        )
