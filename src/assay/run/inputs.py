"""The input files of a benchmark: hashed, since a changed file is a changed job, and checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assay.errors import AssayError, MeasureError, Problem, SpecError
from assay.files import file_digest
from assay.folders import cache_folder
from assay.plan.job import JobFile
from assay.plan.plan import Plan, make_plan
from assay.run.code_archive import pack
from assay.run.models.folder import digest_of, find_folder, parts_of
from assay.run.models.graph import OUTSIDE, external_files
from assay.run.models.sources import existing, is_folder, is_path, whole_digest
from assay.run.targets.launcher import command_words
from assay.spec.benchmark import Definition
from assay.spec.load import Loaded
from assay.spec.paths import fetched_files, named_files, service_programs
from assay.spec.problems import place_of, unique
from assay.spec.target import CommandTarget, ModelTarget, Served, is_vector_database

# A larger file on a command line is its data, not its code; hashing it would hold up every plan.
MAX_COMMAND_FILE = 64 * 2**20
TOKENIZER = "tokenizer.json"
CODE = "code.tar"


@dataclass(frozen=True, slots=True)
class LocalPart:
    """A file on this machine that a definition depends on."""

    name: str
    """Without folder; for weights beside a model, as the model names them, which may hold folders."""
    path: Path
    sha256: str
    size_bytes: int


Files = dict[str, tuple[LocalPart, ...]]


def files_of(definition: Definition, base: Path) -> Files:
    """Text in the definition that names a file → the file, then those that lie beside it and belong to it.

    A file that is not there is left out; measuring it will say so.
    """
    names = [entry.file for entry in definition.workload.inputs.values() if entry.file]
    files: Files = {name: (part,) for name in names if (part := _part(_below(base, name))) is not None}
    target = definition.target
    if isinstance(target, ModelTarget):
        files |= _folder_files(target, base) if is_folder(target, base) else _model_files(target.model, base)
    if isinstance(target, CommandTarget) and not target.is_boxed:  # words in a container name files of its image
        files |= _command_files(command_words(target)[1 if not target.shell else 0 :], base / (target.cwd or ""))
    for key, name in named_files(definition).items():
        files |= _code_files(name, base) if key == "target.code" else _data_files(name, base)
    for name in fetched_files(definition).values():
        files |= _data_files(name, base)
    for program in service_programs(definition):
        files |= _command_files(program.words, base / program.folder)
    return files


def fingerprints(definition: Definition, base: Path) -> dict[str, str]:
    """Text in the definition that names a file → SHA-256 of the content behind it."""
    return {text: fingerprint_of(parts) for text, parts in files_of(definition, base).items()}


def plan_of(loaded: Loaded) -> Plan:
    """The plan of a benchmark, with the content of its files hashed in."""
    return make_plan(loaded, lambda definition: fingerprints(definition, loaded.base))


def fingerprint_of(parts: Sequence[JobFile | LocalPart]) -> str:
    """The SHA-256 that stands for a file and those beside it, from their digests alone: no file is read."""
    if len(parts) == 1:
        return parts[0].sha256
    return whole_digest([(part.sha256, part.name) for part in parts])


def _model_files(name: str, base: Path) -> Files:
    """The model file with the weights that lie beside it; a built-in name is no file, whatever lies in the folder."""
    if not is_path(name):
        return {}
    path = _below(base, name)
    external = external_files(path) if path.is_file() else ()  # refused before anything is hashed
    if (own := _part(path)) is None:
        return {}
    beside = (_part(path.parent / weights, weights) for weights in external)
    return {name: (own, *(part for part in beside if part is not None))}


def _folder_files(target: ModelTarget, base: Path) -> Files:
    """The files of a language model that lies in a folder, its configuration first; none for a name on the hub."""
    folder = find_folder(target.model, base)
    if folder is None:
        return {}
    try:
        paths = [(name, folder / name) for name in parts_of(folder, code=target.remote_code)]
        parts = [LocalPart(name, path, digest_of(path), path.stat().st_size) for name, path in paths]
        return {target.model: tuple(parts)}
    except (MeasureError, OSError) as problem:
        if isinstance(problem, MeasureError) and problem.problem.code == OUTSIDE:
            raise
        return {}  # measuring it will say so


def _command_files(words: Sequence[str], folder: Path) -> Files:
    """Scripts and small files that a command names: `python train.py` depends on train.py."""
    parts = {word: _part(folder / word, at_most=MAX_COMMAND_FILE) for word in words if not word.startswith("-")}
    return {word: (part,) for word, part in parts.items() if part is not None}


def _data_files(name: str, base: Path) -> Files:
    path = _below(base, name)
    part = _part(path) or _part(path / TOKENIZER)
    return {} if part is None else {name: (part,)}


def _code_files(name: str, base: Path) -> Files:
    """The code of a command, packed into one file."""
    path = _below(base, name)
    if not path.exists():
        return {}
    packed = pack(path, cache_folder())
    # Under a name of its own, whatever it is called here: that of the archive is no part of what it holds.
    return {name: (LocalPart(CODE, packed.path, packed.sha256, packed.size_bytes),)}


def _below(base: Path, name: str) -> Path:
    try:
        return base / Path(name).expanduser()
    except RuntimeError:  # no such user's home folder
        return base / name


def _part(path: Path, name: str = "", at_most: float = math.inf) -> LocalPart | None:
    try:
        stat = path.stat()
        if not path.is_file() or stat.st_size > at_most:
            return None
        digest = _hash_file(path, stat.st_mtime_ns, stat.st_size)
        return LocalPart(name or path.name, path, digest, stat.st_size)
    except (OSError, ValueError):  # ValueError: a command word with a NUL is no path
        return None


@cache
def _hash_file(path: Path, modified_ns: int, size: int) -> str:  # noqa: ARG001  (they make the cache forget a changed file)
    return file_digest(path)


# Whether the server has a tokenizer is known only when it is asked.
_LATER = frozenset({"no-tokenizer"})
Wrong = tuple[str, Problem]  # key of the file, what is wrong with it


def refuse_inputs(loaded: Loaded, plan: Plan) -> None:
    """Refuse a benchmark whose files are missing or of another shape than their task reads.

    On a cluster an absolute path may exist on the nodes alone, so such a path is left to the run.
    """
    clustered = loaded.benchmark.place.on_cluster
    problems: list[Problem] = []
    seen: set[str] = set()
    for job in plan.jobs:
        definition = job.definition
        # What decides which files a job reads, and how: of jobs that share it, only the first is checked.
        read = f"{definition.target!r} {definition.workload!r} {definition.load!r} {sorted(fetched_files(definition))}"
        if read in seen:
            continue
        seen.add(read)
        for key, problem in _wrong(definition, loaded.base, clustered=clustered):
            at = place_of(tuple(key.split(".")), loaded.source, job.point)
            problems.append(Problem(problem.code, _with_place(problem), at, problem.try_))
    if problems:
        raise SpecError.of(unique(problems))


def _wrong(definition: Definition, base: Path, *, clustered: bool) -> Iterator[Wrong]:
    missing = list(_missing(definition, base, clustered=clustered))
    yield from missing
    if not missing and (wrong := _data(definition, base)) is not None:
        yield wrong


def _missing(definition: Definition, base: Path, *, clustered: bool) -> Iterator[Wrong]:
    target = definition.target
    if isinstance(target, ModelTarget) and is_path(target.model) and not is_folder(target, base):
        try:
            existing(target.model, base)
        except AssayError as wrong:
            if not _is_elsewhere(target.model, clustered=clustered):
                yield "target.model", wrong.problem
    inputs = {
        f"workload.inputs.{name}.file": entry.file for name, entry in definition.workload.inputs.items() if entry.file
    }
    for key, name in {**inputs, **named_files(definition), **fetched_files(definition)}.items():
        exists = False
        with suppress(OSError, ValueError):  # no path at all
            exists = _below(base, name).exists()
        if not exists and not _is_elsewhere(name, clustered=clustered):
            message = f"{key} names {name}, which does not exist"
            hint = "a relative path starts from the folder of the benchmark file"
            yield key.replace("[", ".").rstrip("]"), Problem("file", message, "", hint)


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


def _is_elsewhere(name: str, *, clustered: bool) -> bool:
    return clustered and Path(name).is_absolute()
