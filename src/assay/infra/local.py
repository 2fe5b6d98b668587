"""The whole system on this machine, as supervised processes: brought up, looked at, taken down without a trace."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from assay.errors import MeasureError, UsageError
from assay.infra.processes.control import bring_up, notes_of, stop
from assay.infra.processes.parts import (
    HERE,
    OPTIONAL,
    PREPARE,
    RECORD,
    STORES,
    UNPACKED,
    LocalRecord,
    answer_of,
    parts_of,
)
from assay.infra.processes.setup import accounts, give_memory_back, ports_again, ports_for, programs_for, set_up
from assay.infra.processes.supervisor import PartNote, supervisor_runs
from assay.infra.record import (
    DEFAULT,
    Keys,
    PartState,
    Status,
    folder_of,
    how_to_use,
    keep,
    kept,
    make_folder,
    make_keys,
    remove_folder,
)
from assay.run.processes import is_alive
from assay.run.scratch import held
from assay.version import __version__

Tell = Callable[[str], None]
_MEMORY_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """What is asked for."""

    name: str = DEFAULT
    host: str = HERE
    port: int | None = None
    """Of the server; a free one, 8080 if it is, when left out."""
    without: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    fetch: bool = True
    """Whether programs that are not here may be fetched."""
    within_s: float = 300.0


def create(wish: LocalOptions, tell: Tell) -> Status:
    """Bring the system up, or bring it up again; one that is up stays as it is.

    Raises:
        UsageError: if something that is needed is missing, or the wish cannot be met.
        MeasureError: if a part does not get healthy; everything is ended then.
    """
    _refuse_unfit(wish)
    folder = folder_of("local", wish.name)
    made = make_folder(folder)
    with held(folder, lambda: tell("waiting for another `assay infra` that works on this system")):
        record = kept(folder, RECORD, LocalRecord)
        if record is not None and supervisor_runs(folder):
            tell(f"{wish.name} is up already, and stays as it is; `assay infra destroy` takes it down")
            return status(wish.name)
        try:
            fresh = _first(folder, wish, made, tell) if record is None else _again(folder, record, wish, tell)
        except BaseException:
            if record is None:
                remove_folder(folder, made)
            raise
        bring_up(folder, fresh.tag, wish.within_s, tell)
    return status(wish.name)


def is_there(name: str) -> bool:
    """Whether a system of this name was set up, whether or not it runs."""
    return (folder_of("local", name) / RECORD).is_file()


def status(name: str = DEFAULT) -> Status:
    """How a system is: every part is asked now."""
    folder = folder_of("local", name)
    record = kept(folder, RECORD, LocalRecord)
    if record is None:
        return Status("local", name, "absent")
    keys = make_keys(folder)
    notes = {one.name: one for one in notes_of(folder)}
    asked = [_part(one.name, folder, record, keys, notes) for one in parts_of(folder, record, keys)]
    # The step between two parts is only worth a line when it is what everything waits for.
    parts = tuple(one for one in asked if one.name != PREPARE or one.state not in ("done", "stopped"))
    good = all(one.state == "healthy" for one in parts)
    then = _then(folder, record) if supervisor_runs(folder) else {"bring it up": _create_again(name)}
    return Status("local", name, "healthy" if good else "unhealthy", parts, str(folder), then)


def destroy(name: str, tell: Tell, *, keep_data: bool = False) -> None:
    """End every process of a system, and remove everything of it.

    Args:
        keep_data: only end the processes; `create` brings them up again with all that they knew.

    Raises:
        UsageError: if it belongs to another user.
        MeasureError: if something stays; it says what.
    """
    folder = folder_of("local", name)
    if not folder.is_dir():
        return
    record = kept(folder, RECORD, LocalRecord)
    stop(folder, record.tag if record else "", tell)
    if keep_data:
        tell(f"all processes have ended; the data stay in {folder}")
        return
    if record is not None:
        _give_memory_back(folder, record, tell)
    remove_folder(folder, record.made if record else ())
    tell(f"all processes have ended, and {folder} is removed")


def _give_memory_back(folder: Path, record: LocalRecord, tell: Tell) -> None:
    until_s = time.monotonic() + _MEMORY_WITHIN_S
    while True:
        try:
            give_memory_back(folder, record)
        except MeasureError as problem:
            # The kernel may take a moment until the last process of a killed PostgreSQL has let go of it.
            if time.monotonic() < until_s:
                time.sleep(0.5)
                continue
            # Some bytes, until the machine starts again: no reason to keep everything else.
            tell(f"PostgreSQL was killed, and what it shared in memory stays: {problem.problem.message}")
        return


def _refuse_unfit(wish: LocalOptions) -> None:
    if sys.platform == "win32":
        raise UsageError("a system of plain processes needs Linux or macOS", code="platform", try_="use --with docker")
    if unknown := set(wish.without) - set(OPTIONAL):
        raise UsageError(
            f"{min(unknown)!r} is no part that can be left out",
            code="without",
            at="--without",
            try_=f"use {', '.join(OPTIONAL)}",
        )
    for package in ("fastapi", "psycopg", "redis"):
        if find_spec(package) is None:
            raise UsageError(
                f"the server needs a package that is not installed: {package}",
                code="missing-server",
                try_="pip install 'assay-bench[server]'",
            )


def _first(folder: Path, wish: LocalOptions, made: Sequence[str], tell: Tell) -> LocalRecord:
    """Choose programs and ports, and set everything up for the first time."""
    stores = [part for part in STORES if part not in wish.without]
    programs = programs_for(stores, folder / UNPACKED, tell, may_fetch=wish.fetch)
    known = accounts()
    record = LocalRecord(
        version=__version__,
        created_at=time.time(),
        tag=secrets.token_hex(8),
        host=wish.host,
        ports=ports_for(stores, wish.host, wish.port),
        programs=programs,
        accounts={part: known[part] for part in stores if part in known},
        agent="agent" not in wish.without,
        allow=wish.allow,
        made=tuple(made),
    )
    if record.accounts:
        folder.chmod(0o711)  # the accounts of its parts must reach their own folders; the others are closed to them
    return _set_up(folder, record)


def _again(folder: Path, record: LocalRecord, wish: LocalOptions, tell: Tell) -> LocalRecord:
    """Bring a system up that was up before: as it was, but for what has changed around it."""
    if (wish.host, wish.without, wish.allow) != (HERE, (), ()):
        tell("this system was set up before: --host, --without and --allow of then are used")
    stores = [part for part in STORES if record.has(part)]
    ports = ports_again(record.ports, record.host, wish.port, tell)
    programs = programs_for(stores, folder / UNPACKED, tell, may_fetch=wish.fetch, known=record.programs)
    return _set_up(folder, replace(record, version=__version__, ports=ports, programs=programs))


def _set_up(folder: Path, record: LocalRecord) -> LocalRecord:
    set_up(folder, record, make_keys(folder))
    keep(folder, RECORD, record)
    return record


def _part(part: str, folder: Path, record: LocalRecord, keys: Keys, notes: Mapping[str, PartNote]) -> PartState:
    """A part as it is at this moment: whether its process lives, and whether it answers."""
    note, address, log = notes.get(part), record.address(part), str(folder / "logs" / f"{part}.log")
    runs = note is not None and note.pid is not None and is_alive(note.pid, note.started or 0.0)
    if note is None or (not runs and not supervisor_runs(folder)):
        return PartState(part, "stopped", address, log=log)
    if not runs or part == PREPARE:
        return PartState(part, note.state, address, None, note.restarts, note.detail, log)
    answer = answer_of(part, record, keys)
    word = "healthy" if answer is None else "unhealthy"
    return PartState(part, word, address, note.pid, note.restarts, answer or "", log)


def _create_again(name: str) -> str:
    return f"assay infra create{'' if name == DEFAULT else f' --name {name}'}"


def _then(folder: Path, record: LocalRecord) -> dict[str, str]:
    then = how_to_use(record.server_url, folder)
    if record.has("prometheus"):
        then["metrics"] = f"{record.address('prometheus')}/graph"
    return then
