"""What programs need from elsewhere: fetched once, checked, put where they look for it, and gone after the job.

A container has folders of its own, so that a file can lie at the very path that the benchmark names. A plain process
has not: its files lie below a folder of the job, in the same order, and whatever word or variable of it names such a
path is given the true place.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.code_archive import pack
from assay.run.fetch.source import FetchedFile, Progress, fetch
from assay.run.scratch import scratch_folder
from assay.spec.benchmark import Definition, Service
from assay.spec.paths import fetches, words
from assay.spec.target import CommandTarget, Fetch, in_folders

P = TypeVar("P", CommandTarget, Service)
# A path from the root inside a longer text: not behind a letter, a dot or a brace, which make it part of another one.
_PATH = re.compile(r"(?<![\w/.~})-])/[\w.@+~%-]+(?:/[\w.@+~%-]+)*")


def placed(definition: Definition, fetched: Mapping[str, Iterable[FetchedFile]], folder: Path) -> Definition:
    """The definition whose programs find what was fetched for them.

    Args:
        fetched: for whom it was fetched, as `spec.paths.fetches` names them → what is here.
    """
    target = definition.target
    if isinstance(target, CommandTarget) and "target" in fetched:
        target = _given(target, tuple(fetched["target"]), folder / "target", boxed=target.is_boxed)
    services = dict(definition.services)
    for name, service in definition.services.items():
        if (owner := f"services.{name}") in fetched:
            services[name] = service_placed(service, fetched[owner], folder / owner)
    return definition.model_copy(update={"target": target, "services": services})


def service_placed(service: Service, fetched: Iterable[FetchedFile], folder: Path) -> Service:
    """A service that finds what was fetched for it."""
    boxed = service.image is not None and service.container != "none"
    return _given(service, tuple(fetched), folder, boxed=boxed)


def _given(part: P, fetched: tuple[FetchedFile, ...], folder: Path, *, boxed: bool) -> P:
    _refuse_crowding(fetched)
    if boxed:
        mounts = dict(part.mounts)
        for file in fetched:
            here = str(file.here.resolve())
            # Read-only, where the runtime can: what is kept for the next time must stay what it is.
            mounts[here if here not in mounts else str(_linked(file, folder))] = f"{file.path}:ro"
        return part.model_copy(update={"mounts": mounts})
    for file in fetched:
        _linked(file, folder)
    move = mover([file.path for file in fetched], folder)
    update: dict[str, object] = {"env": {name: move(value) for name, value in part.env.items()}}
    if part.command is not None:
        is_shell = isinstance(part, CommandTarget) and part.shell
        command = part.command if is_shell else words(part.command)
        update["command"] = move(command) if isinstance(command, str) else tuple(map(move, command))
    return part.model_copy(update=update)


def _linked(fetched: FetchedFile, folder: Path) -> Path:
    """A file in the order of the root, below a folder."""
    place = folder / fetched.path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(fetched.here.resolve())
    return place


def mover(paths: Iterable[str], folder: Path) -> Callable[[str], str]:
    """What puts a folder in front of these paths in a text, of those below them and of the folders that they lie in."""
    own_paths = frozenset(paths)
    above = {posixpath.dirname(path) for path in own_paths}
    while further := {posixpath.dirname(path) for path in above} - above:
        above |= further
    above.discard("/")

    def is_ours(path: str) -> bool:
        parents = [path]
        while parents[-1] != "/":
            parents.append(posixpath.dirname(parents[-1]))
        return path in above or not own_paths.isdisjoint(parents)

    def move(text: str) -> str:
        return _PATH.sub(
            lambda match: f"{folder}{match[0]}" if is_ours(posixpath.normpath(match[0])) else match[0], text
        )

    return move


def _refuse_crowding(fetched: tuple[FetchedFile, ...]) -> None:
    """Refuse two files at one place, and a file where another needs a folder."""
    paths = [file.path for file in fetched]
    for file in fetched:
        inside = [path for path in paths if path.startswith(f"{file.path}/")]
        if paths.count(file.path) > 1 or inside:
            raise MeasureError(
                f"{file.src} goes to {file.path}, where another file goes too",
                code="fetch",
                at="fetch",
                try_="give each a path of its own; one that ends with / is the folder around it",
            )


Facts = dict[str, JsonValue]


@contextmanager
def fetched_inputs(
    job: Job,
    cache: Path,
    *,
    begin: Callable[[], None] = lambda: None,
    on_progress: Progress | None = None,
    running: Collection[str] = (),
) -> Iterator[tuple[Job, Facts]]:
    """Fetch what the programs of a job need and pack its code, and give the job that finds both.

    Costs nothing where a job needs neither.

    Args:
        running: services that run already, which need nothing more.
    """
    there = {f"services.{name}" for name in running}
    wanted = {owner: every for owner, every in fetches(job.definition).items() if owner not in there}
    if not wanted and getattr(job.definition.target, "code", None) is None:
        yield job, {}
        return
    begin()
    base = Path(job.base)
    definition, facts = _with_code(job.definition, base, cache)
    with scratch_folder() as folder:
        if wanted:
            fetched = {owner: _fetch_all(owner, every, base, cache, on_progress) for owner, every in wanted.items()}
            definition = placed(definition, fetched, folder)
            facts["fetched"] = {owner: [file.facts() for file in every] for owner, every in fetched.items()}
        yield replace(job, definition=definition), facts


@contextmanager
def fetched_service(name: str, service: Service, base: Path, cache: Path) -> Iterator[Service]:
    """Fetch what one service needs, where it is started by itself, and give the service that finds it."""
    if not service.fetch:
        yield service
        return
    owner = f"services.{name}"
    with scratch_folder() as folder:
        yield service_placed(service, _fetch_all(owner, service.fetch, base, cache, None), folder / owner)


def _with_code(definition: Definition, base: Path, cache: Path) -> tuple[Definition, Facts]:
    """The definition whose code is the packed file, the same for all runs, and what that file is."""
    target = definition.target
    if not isinstance(target, CommandTarget) or target.code is None:
        return definition, {}
    packed = pack(base / Path(target.code).expanduser(), cache)
    code: Facts = {"name": target.code, "sha256": packed.sha256, "size_bytes": packed.size_bytes, "files": packed.files}
    target = target.model_copy(update={"code": str(packed.path.absolute())})
    return definition.model_copy(update={"target": target}), {"code": code}


def _fetch_all(
    owner: str, wanted: tuple[Fetch, ...], base: Path, cache: Path, on_progress: Progress | None
) -> tuple[FetchedFile, ...]:
    return tuple(
        file
        for index, source in enumerate(in_folders(wanted))
        for file in fetch(source, f"{owner}.fetch[{index}]", base, cache, on_progress)
    )
