"""The files that a benchmark reads from this machine, looked at before anything is measured or sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.errors import AssayError, Problem, SpecError
from assay.plan.job import Job
from assay.plan.plan import Plan
from assay.run.models.builtin import BUILTIN_NAMES
from assay.run.models.sources import existing, is_folder
from assay.spec.benchmark import Definition
from assay.spec.load import Loaded
from assay.spec.paths import fetched_files, named_files
from assay.spec.problems import place_of, unique
from assay.spec.protocols import is_vector_database
from assay.spec.target import ModelTarget, Served

# Whether the server has a tokenizer is known only when it is asked.
_LATER = frozenset({"no-tokenizer"})
Wrong = tuple[str, Problem]  # key of the file, what is wrong with it


def refuse_inputs(loaded: Loaded, plan: Plan) -> None:
    """Refuse a benchmark whose files are missing or of another shape than their task reads.

    On a cluster an absolute path may exist on the nodes alone, so such a path is left to the run.

    Raises:
        SpecError: with every problem, at its line.
    """
    clustered = loaded.benchmark.place.on_cluster
    problems: list[Problem] = []
    seen: set[str] = set()
    for job in plan.jobs:
        if (what := _read_by(job)) in seen:
            continue
        seen.add(what)
        for key, problem in _wrong(job.definition, loaded.base, clustered=clustered):
            at = place_of(tuple(key.split(".")), loaded.source, job.point)
            problems.append(Problem(problem.code, _with_place(problem), at, problem.try_))
    if problems:
        raise SpecError.of(unique(problems))


def _read_by(job: Job) -> str:
    """What decides which files a job reads, and how: jobs that share it are looked at once."""
    definition = job.definition
    return f"{definition.target!r} {definition.workload!r} {definition.load!r} {sorted(fetched_files(definition))}"


def _wrong(definition: Definition, base: Path, *, clustered: bool) -> Iterator[Wrong]:
    missing = list(_missing(definition, base, clustered=clustered))
    yield from missing
    if not missing and (found := _data(definition, base)) is not None:
        yield found


def _missing(definition: Definition, base: Path, *, clustered: bool) -> Iterator[Wrong]:
    target = definition.target
    if isinstance(target, ModelTarget) and _is_path(target.model) and not is_folder(target, base):
        try:
            existing(target.model, base)
        except AssayError as wrong:
            if not _is_elsewhere(target.model, clustered=clustered):
                yield "target.model", wrong.problem
    inputs = {f"workload.inputs.{name}.file": one.file for name, one in definition.workload.inputs.items() if one.file}
    for key, name in {**inputs, **named_files(definition), **fetched_files(definition)}.items():
        if not _exists(name, base) and not _is_elsewhere(name, clustered=clustered):
            yield (
                key.replace("[", ".").rstrip("]"),
                Problem(
                    "file",
                    f"{key} names {name}, which does not exist",
                    "",
                    "a relative path starts from the folder of the benchmark file",
                ),
            )


def _data(definition: Definition, base: Path) -> Wrong | None:
    """What is wrong with the data that a built-in task reads, as the run would find it."""
    workload, load = definition.workload, definition.load
    if (workload.file, load.trace) == (None, None) or is_vector_database(definition.target):
        return None  # and nothing of what reads data is loaded
    from assay.run.workloads import is_built_in, make_workset
    from assay.run.workloads.rows import read_rows
    from assay.run.workloads.trace import read_trace

    if not is_built_in(workload):
        return None
    key = "workload.file"
    try:
        if load.trace is not None:
            key = "load.trace"
            read_trace(base / load.trace, within_s=load.duration, at_most=load.requests)
        elif isinstance(definition.target, Served):
            make_workset(definition, base, None)
        elif workload.file is not None:
            read_rows(workload.file, base)
    except AssayError as wrong:
        problem = wrong.problem
        if problem.code in _LATER:
            return None
        return (problem.at if problem.at.startswith("workload.") else key), problem
    return None


def _with_place(problem: Problem) -> str:
    """The message, and the line of the data file where it names one."""
    name, mark, line = problem.at.rpartition(":")
    return f"{name}:{line}: {problem.message}" if mark and line.isdigit() else problem.message


def _is_path(model: str) -> bool:
    return "://" not in model and model not in BUILTIN_NAMES


def _exists(name: str, base: Path) -> bool:
    try:
        return (base / Path(name).expanduser()).exists()
    except (RuntimeError, OSError, ValueError):  # the home folder of nobody, or no path at all
        return False


def _is_elsewhere(name: str, *, clustered: bool) -> bool:
    return clustered and Path(name).is_absolute()
