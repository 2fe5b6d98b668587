"""Files that travel with a job, put where it is measured: names that strangers chose never leave their folder."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from assay.errors import MeasureError, UsageError
from assay.files import file_digest
from assay.plan.job import Job, JobFile
from assay.run.models.sources import is_path
from assay.spec.benchmark import Definition
from assay.spec.paths import fetched_files, named_files, refetched, renamed, runs_programs, service_programs
from assay.spec.target import CommandTarget, ModelTarget
from assay.units import show_bytes

Fetch = Callable[[JobFile, Path], None]

FOLDER = "files"
MAX_NAME = 255  # bytes of one part of a name, on every common file system
_MAX_PLACE = 1024


@dataclass(frozen=True, slots=True)
class FilePlacement:
    """Where the files of a job go, and the definition that finds them there."""

    definition: Definition
    places: tuple[tuple[JobFile, str], ...]  # file, path with / below the job's folder
    folder: str = ""  # that a command starts in, to be made even when no file lies there


def local_paths(definition: Definition) -> tuple[str, ...]:
    """Texts of a definition that name a file of its author.

    Words of a command are left out: they may as well name a program of the machine that runs it.
    """
    target = definition.target
    model = [target.model] if isinstance(target, ModelTarget) and is_path(target.model) else []
    inputs = [entry.file for entry in definition.workload.inputs.values() if entry.file]
    names = [*named_files(definition).values(), *fetched_files(definition).values()]
    return tuple(dict.fromkeys([*model, *inputs, *names]))


def place_files(job: Job) -> FilePlacement:
    """Decide where the files of a job go; nothing is written, so that a server can refuse bad names immediately."""
    definition, files = job.definition, job.files
    target, folder, places = definition.target, "", list[tuple[JobFile, str]]()
    if isinstance(target, CommandTarget):
        folder, places = _beside_command(target, job)
    elif isinstance(target, ModelTarget) and files.get(target.model):
        places = [*_in_slot(0, files[target.model], "target.model")]
        target = target.model_copy(update={"model": places[0][1]})
    inputs = dict(definition.workload.inputs)
    for slot, (name, entry) in enumerate(definition.workload.inputs.items(), start=1):
        if entry.file and files.get(entry.file):
            here = [*_in_slot(slot, files[entry.file], f"workload.inputs.{name}.file")]
            places += here
            inputs[name] = entry.model_copy(update={"file": here[0][1]})
    workload = definition.workload.model_copy(update={"inputs": inputs})
    rewritten = definition.model_copy(update={"target": target, "workload": workload})
    slot = len(inputs) + 1
    names, data = _data(named_files(definition), files, slot)
    sources, more = _data(fetched_files(definition), files, slot + len(named_files(definition)))
    rewritten = refetched(renamed(rewritten, names), sources)
    return FilePlacement(rewritten, _distinct([*places, *data, *more, *_beside_services(job)]), folder)


def _data(
    named: Mapping[str, str], files: Mapping[str, tuple[JobFile, ...]], slot: int
) -> tuple[dict[str, str], list[tuple[JobFile, str]]]:
    """Where files of data go, and what the definition calls them there."""
    names: dict[str, str] = {}
    places: list[tuple[JobFile, str]] = []
    for number, (key, name) in enumerate(named.items(), start=slot):
        if files.get(name):
            here = [*_in_slot(number, files[name], key)]
            places += here
            names[key] = here[0][1]
    return names, places


def _beside_services(job: Job) -> list[tuple[JobFile, str]]:
    """Scripts that services are started with stay where their commands look for them."""
    data = _data_names(job.definition)
    return [
        (job.files[word][0], _inside(_inside("", program.folder, program.at), word, program.at))
        for program in service_programs(job.definition)
        for word in program.words
        if job.files.get(word) and word not in data
    ]


def _data_names(definition: Definition) -> frozenset[str]:
    """The texts that name files of data, which have places of their own."""
    return frozenset((*named_files(definition).values(), *fetched_files(definition).values()))


def materialise(job: Job, base: Path, fetch: Fetch) -> Job:
    """Put every file of a job below a folder; what lies there already, whole, is not fetched again.

    Returns:
        The job with its definition rewritten to the new places; its `files` are here now and left out.
    """
    placed = place_files(job)
    is_command = runs_programs(job.definition)
    with _explained(placed.folder or "."):
        (base / placed.folder).mkdir(parents=True, exist_ok=True)
    for file, place in placed.places:
        with _explained(file.name):
            _put(file, place, base, fetch)
            if is_command:
                (base / place).chmod(0o755)  # a script may be what the shell starts
    return replace(job, base=str(base), definition=placed.definition, files={})


def _in_slot(slot: int, parts: tuple[JobFile, ...], at: str) -> Iterator[tuple[JobFile, str]]:
    """A folder of its own for each text, so that files of the same name do not meet."""
    for part in parts:
        yield part, posixpath.join(FOLDER, str(slot), *_checked_parts(part.name, at))


def _beside_command(target: CommandTarget, job: Job) -> tuple[str, list[tuple[JobFile, str]]]:
    """Words of a command stay what they are; their files go where the command will look for them."""
    if target.is_boxed:  # its words and its folder are of the image
        return "", []
    cwd = target.cwd or ""
    data = _data_names(job.definition)
    files = [(word, part) for word, parts in job.files.items() if word not in data for part in parts[:1]]
    if PurePosixPath(cwd).is_absolute() or PureWindowsPath(cwd).is_absolute():
        if files:
            raise _refused(files[0][0], f"target.cwd is {cwd!r}, outside the job's folder", "target.cwd")
        return "", []  # a folder of the machine itself
    folder = _inside("", cwd, "target.cwd")
    return folder, [(part, _inside(folder, word, "target.command")) for word, part in files]


def _inside(folder: str, text: str, at: str) -> str:
    """A path as written, taken from a folder, if it stays below the job's own folder."""
    if text.startswith("/"):
        raise _refused(text, "it is absolute", at)
    place = posixpath.normpath(posixpath.join(folder, text or "."))
    if place == ".." or place.startswith("../"):
        raise _refused(text, "it leaves the folder of the benchmark", at)
    for part in place.split("/"):
        _check_part(part, text, at)
    return place


def _checked_parts(name: str, at: str) -> list[str]:
    """The parts of a name that may hold folders, such as `data/weights.bin`."""
    if name.startswith("/"):
        raise _refused(name, "it is absolute", at)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts:
        raise _refused(name, "it is empty", at)
    for part in parts:
        if part.startswith("."):
            raise _refused(name, "a part of it begins with a dot", at)
        _check_part(part, name, at)
    return parts


def _check_part(part: str, name: str, at: str) -> None:
    if any(character in "\\:" or ord(character) < 32 or ord(character) == 127 for character in part):
        raise _refused(name, "it holds a backslash, a colon or a control character", at)
    if len(part.encode("utf-8", "surrogatepass")) > MAX_NAME or len(name) > _MAX_PLACE:
        raise _refused(name[:60] + "…", f"it is longer than {MAX_NAME} bytes", at)
    if any(0xD800 <= ord(character) < 0xE000 for character in part):
        raise _refused(ascii(name), "it is not valid text", at)


def _distinct(places: list[tuple[JobFile, str]]) -> tuple[tuple[JobFile, str], ...]:
    """Each place once; two contents for one place cannot both be meant."""
    taken: dict[str, JobFile] = {}
    for file, place in places:
        if taken.setdefault(place, file).sha256 != file.sha256:
            raise _refused(file.name, "two different files have this name", place)
    return tuple((file, place) for place, file in taken.items())


def _put(file: JobFile, place: str, base: Path, fetch: Fetch) -> None:
    path = base / place
    path.parent.mkdir(parents=True, exist_ok=True)
    # A job that ran here before may have left links behind.
    if not path.parent.resolve().is_relative_to(base.resolve()) or path.is_symlink() or path.is_dir():
        raise _refused(file.name, f"{place} is no place for a file of the job", place)
    if _is_whole(file, path):
        return
    fetch(file, path)
    if _is_whole(file, path):
        return
    size = path.stat().st_size if path.is_file() else 0
    path.unlink(missing_ok=True)
    raise MeasureError(
        f"{file.name} arrived as another file than announced: {show_bytes(size)} "
        f"in place of {show_bytes(file.size_bytes)} with SHA-256 {file.sha256}",
        code="checksum",
        try_="submit the benchmark again, so that its files are uploaded again",
    )


def _is_whole(file: JobFile, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == file.size_bytes and file_digest(path) == file.sha256


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn errors of the disk into ours; those of a network are left to the caller."""
    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except OSError as problem:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        raise MeasureError(
            f"{name} cannot be put into the job's folder: {problem.strerror or problem}",
            code="disk-full" if full else "job-file",
            try_="free some space on this machine" if full else "check the permissions of the agent's state folder",
        ) from None


def _refused(name: str, why: str, at: str) -> UsageError:
    return UsageError(
        f"the file name {name!r} is refused: {why}",
        code="file-name",
        at=at,
        try_="name files by plain relative paths inside the folder of the benchmark file",
    )
