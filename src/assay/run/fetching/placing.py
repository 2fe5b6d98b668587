"""Where a program finds what was fetched: mounted into its container, or laid out for a plain process.

A container has folders of its own, so that a file can lie at the very path that the benchmark names. A plain process
has not: its files lie below a folder of the job, in the same order, and whatever word or variable of it names such a
path is given the true place.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from assay.errors import MeasureError
from assay.run.fetching.having import Had
from assay.spec.benchmark import Definition, Service
from assay.spec.paths import words
from assay.spec.target import CommandTarget

P = TypeVar("P", CommandTarget, Service)
# A path from the root inside a longer text: not behind a letter, a dot or a brace, which make it part of another one.
_PATH = re.compile(r"(?<![\w/.~})-])/[\w.@+~%-]+(?:/[\w.@+~%-]+)*")


def placed(definition: Definition, had: Mapping[str, Iterable[Had]], folder: Path) -> Definition:
    """The definition whose programs find what was fetched for them.

    Args:
        had: for whom it was fetched, as `spec.paths.fetches` names them → what is here.

    Raises:
        MeasureError: if two files want the same place.
    """
    target = definition.target
    if isinstance(target, CommandTarget) and "target" in had:
        target = _given(target, tuple(had["target"]), folder / "target", boxed=target.is_boxed)
    services = dict(definition.services)
    for name, service in definition.services.items():
        if (owner := f"services.{name}") in had:
            services[name] = service_placed(service, had[owner], folder / owner)
    return definition.model_copy(update={"target": target, "services": services})


def service_placed(service: Service, had: Iterable[Had], folder: Path) -> Service:
    """A service that finds what was fetched for it.

    Raises:
        MeasureError: if two files want the same place.
    """
    boxed = service.image is not None and service.container != "none"
    return _given(service, tuple(had), folder, boxed=boxed)


def _given(part: P, had: tuple[Had, ...], folder: Path, *, boxed: bool) -> P:
    _refuse_crowding(had)
    if boxed:
        mounts = dict(part.mounts)
        for one in had:
            here = str(one.here.resolve())
            # Read-only, where the runtime can: what is kept for the next time must stay what it is.
            mounts[here if here not in mounts else str(_linked(one, folder))] = f"{one.path}:ro"
        return part.model_copy(update={"mounts": mounts})
    for one in had:
        _linked(one, folder)
    move = mover([one.path for one in had], folder)
    update: dict[str, object] = {"env": {name: move(value) for name, value in part.env.items()}}
    if part.command is not None:
        update["command"] = _moved(part, move)
    return part.model_copy(update=update)


def _linked(one: Had, folder: Path) -> Path:
    """A file in the order of the root, below a folder."""
    place = folder / one.path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(one.here.resolve())
    return place


def _moved(part: CommandTarget | Service, move: Callable[[str], str]) -> str | tuple[str, ...]:
    command = part.command or ()
    if isinstance(part, CommandTarget) and part.shell:
        return move(command) if isinstance(command, str) else tuple(map(move, command))
    return tuple(map(move, words(command)))


def mover(paths: Iterable[str], folder: Path) -> Callable[[str], str]:
    """What puts a folder in front of these paths in a text, of those below them and of the folders that they lie in."""
    known = frozenset(paths)
    above = {posixpath.dirname(path) for path in known}
    while further := {posixpath.dirname(path) for path in above} - above:
        above |= further
    above.discard("/")

    def is_ours(path: str) -> bool:
        parents = [path]
        while parents[-1] != "/":
            parents.append(posixpath.dirname(parents[-1]))
        return path in above or not known.isdisjoint(parents)

    def move(text: str) -> str:
        return _PATH.sub(
            lambda match: f"{folder}{match[0]}" if is_ours(posixpath.normpath(match[0])) else match[0], text
        )

    return move


def _refuse_crowding(had: tuple[Had, ...]) -> None:
    """Refuse two files at one place, and a file where another needs a folder."""
    paths = [one.path for one in had]
    for one in had:
        inside = [path for path in paths if path.startswith(f"{one.path}/")]
        if paths.count(one.path) > 1 or inside:
            raise MeasureError(
                f"{one.src} goes to {one.path}, where another file goes too",
                code="fetch",
                at="fetch",
                try_="give each a path of its own; one that ends with / is the folder around it",
            )
