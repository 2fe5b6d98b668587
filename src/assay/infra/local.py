"""The whole system on this machine, as supervised processes: brought up, looked at, taken down without a trace."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import psutil

from assay.errors import MeasureError, UsageError
from assay.infra.processes.parts import (
    HERE,
    OPTIONAL,
    PREPARE,
    RECORD,
    STORES,
    TAG_VARIABLE,
    UNPACKED,
    LocalRecord,
    answer_of,
    parts_of,
)
from assay.infra.processes.setup import accounts, give_memory_back, ports_again, ports_for, programs_for, set_up
from assay.infra.processes.supervisor import STATUS, Notes, PartNote, supervisor_runs
from assay.infra.record import (
    DEFAULT,
    InfraOptions,
    Keys,
    Notify,
    PartState,
    Status,
    find_system,
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
from assay.run.services import tail_of
from assay.version import __version__

_POLL_S = 0.1
_LINES = 8
# Above what all parts together are given, one after the other.
_STOP_WITHIN_S = 120.0
_KILLED_WITHIN_S = 10.0
_BEGINS_WITHIN_S = 30.0
_GOOD = ("healthy", "done")


def notes_of(folder: Path) -> tuple[PartNote, ...]:
    """What the supervisor reported last of each part."""
    notes = kept(folder, STATUS, Notes)
    return () if notes is None else notes.parts


def bring_up(folder: Path, tag: str, within_s: float, notify: Notify) -> None:
    """Start the supervisor of a system, and wait until every part is healthy."""
    (folder / STATUS).unlink(missing_ok=True)  # what an earlier supervisor reported is no longer true
    try:
        _start(folder, tag)
        _await(folder, within_s, notify)
    except BaseException:
        stop(folder, tag, notify)
        raise


def stop(folder: Path, tag: str, notify: Notify) -> None:
    """End every process of a system: its supervisor ends them in good order; without one they are ended here."""
    notes = kept(folder, STATUS, Notes)
    if notes is not None and supervisor_runs(folder) and is_alive(notes.pid, notes.started):
        notify("ending all parts; a running job may take some seconds to be given back")
        _signal(notes.pid, signal.SIGTERM, folder)
        if not _until(lambda: not supervisor_runs(folder), _STOP_WITHIN_S):
            notify("the supervisor does not end; it is killed")
            _signal(notes.pid, signal.SIGKILL, folder)
            _until(lambda: not supervisor_runs(folder), _KILLED_WITHIN_S)
    left = list(_left(notes, tag))
    for process in left:
        with suppress(psutil.Error):
            process.terminate()
    for process in psutil.wait_procs(left, timeout=_KILLED_WITHIN_S)[1]:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=_KILLED_WITHIN_S)
    if left := list(_left(notes, tag)):
        raise MeasureError(
            f"{len(left)} processes do not end, such as process {left[0].pid}",
            code="infra",
            at=str(folder),
            try_="end them by hand, then destroy again",
        )


def _start(folder: Path, tag: str) -> None:
    with (folder / "logs" / "supervisor.log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-m", "assay.infra.processes", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder / "tmp",
            check=False,
            env={**os.environ, TAG_VARIABLE: tag},
        )
    if done.returncode:
        raise _not_up(folder, "supervisor", f"cannot be started: code {done.returncode}")


def _await(folder: Path, within_s: float, notify: Notify) -> None:
    begun_s = time.monotonic()
    reported: set[str] = set()
    while True:
        notes = notes_of(folder)
        for note in notes:
            if note.state in _GOOD and note.name not in reported:
                reported.add(note.name)
                notify("the database is prepared" if note.name == PREPARE else f"{note.name} is healthy")
        if notes and all(note.state in _GOOD for note in notes):
            return
        _refuse_hopeless(folder, notes, time.monotonic() - begun_s, within_s)
        time.sleep(_POLL_S)


def _refuse_hopeless(folder: Path, notes: Sequence[PartNote], waited_s: float, within_s: float) -> None:
    for note in notes:
        if note.state == "failed":
            raise _not_up(folder, note.name, note.detail)
    if (notes or waited_s > _BEGINS_WITHIN_S) and not supervisor_runs(folder):
        raise _not_up(folder, "supervisor", "has ended")
    if waited_s > within_s:
        late = next((note for note in notes if note.state not in _GOOD), None)
        said = f": {late.detail}" if late and late.detail else ""
        raise _not_up(folder, late.name if late else "supervisor", f"was not healthy within {within_s:g} s{said}")


def _not_up(folder: Path, part: str, how: str) -> MeasureError:
    log = folder / "logs" / f"{part}.log"
    lines = "\n  ".join(tail_of(log, _LINES))
    last = f"; its last lines:\n  {lines}" if lines else ""
    return MeasureError(
        f"{part} {how}{last}",
        code="infra",
        at=str(log),
        try_="fix what it says and create again, or `assay infra destroy`",
    )


def _signal(pid: int, number: signal.Signals, folder: Path) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        raise UsageError(
            "this system belongs to another user",
            code="infra",
            at=str(folder),
            try_="use the account that brought it up",
        ) from None


def _until(condition: Callable[[], bool], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def _left(notes: Notes | None, tag: str) -> Iterator[psutil.Process]:
    """Processes of a system that no supervisor ended: by what it reported of them, and by the tag that they carry."""
    start_times = {part.pid: part.started for part in (notes.parts if notes else ()) if part.pid and part.started}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            started = start_times.get(process.pid)
            mine = started is not None and is_alive(process.pid, started)
            mine = mine or bool(tag and process.environ().get(TAG_VARIABLE) == tag)
            if mine and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                yield process


_MEMORY_WITHIN_S = 10.0


def create(options: InfraOptions, notify: Notify) -> Status:
    """Bring the system up, or bring it up again; one that is up stays as it is."""
    _refuse_unfit(options)
    folder = folder_of("local", options.name)
    made = make_folder(folder)
    with held(folder, lambda: notify("waiting for another `assay infra` that works on this system")):
        record = kept(folder, RECORD, LocalRecord)
        if record is not None and supervisor_runs(folder):
            notify(f"{options.name} is up already, and stays as it is; `assay infra destroy` takes it down")
            return status(options.name)
        try:
            fresh = _first(folder, options, made, notify) if record is None else _again(folder, record, options, notify)
            set_up(folder, fresh, make_keys(folder))
            keep(folder, RECORD, fresh)
        except BaseException:
            if record is None:
                remove_folder(folder, made)
            raise
        bring_up(folder, fresh.tag, options.within_s, notify)
    return status(options.name)


def status(name: str = DEFAULT) -> Status:
    folder, record = find_system("local", name, RECORD, LocalRecord)
    if record is None:
        return Status("local", name, "absent")
    keys = make_keys(folder)
    notes = {note.name: note for note in notes_of(folder)}
    asked = [_part(part.name, folder, record, keys, notes) for part in parts_of(folder, record, keys)]
    # The step between two parts is only worth a line when it is what everything waits for.
    parts = tuple(part for part in asked if part.name != PREPARE or part.state not in ("done", "stopped"))
    if not supervisor_runs(folder):
        then = {"bring it up": f"assay infra create{'' if name == DEFAULT else f' --name {name}'}"}
    else:
        metrics = {"metrics": f"{record.address('prometheus')}/graph"} if record.has("prometheus") else {}
        then = how_to_use(record.server_url, folder) | metrics
    return Status.of("local", name, parts, folder, then)


def destroy(name: str, notify: Notify, *, keep_data: bool = False) -> None:
    """End every process of a system, and remove everything of it.

    Args:
        keep_data: only end the processes; `create` brings them up again with all that they knew.
    """
    folder = folder_of("local", name)
    if not folder.is_dir():
        return
    record = kept(folder, RECORD, LocalRecord)
    stop(folder, record.tag if record else "", notify)
    if keep_data:
        notify(f"all processes have ended; the data stay in {folder}")
        return
    if record is not None:
        _give_memory_back(folder, record, notify)
    remove_folder(folder, record.made if record else ())
    notify(f"all processes have ended, and {folder} is removed")


def _give_memory_back(folder: Path, record: LocalRecord, notify: Notify) -> None:
    until_s = time.monotonic() + _MEMORY_WITHIN_S
    while True:
        try:
            return give_memory_back(folder, record)
        except MeasureError as problem:
            # The kernel may take a moment until the last process of a killed PostgreSQL has let go of it.
            if time.monotonic() >= until_s:
                # Some bytes, until the machine starts again: no reason to keep everything else.
                return notify(f"PostgreSQL was killed, and what it shared in memory stays: {problem.problem.message}")
        time.sleep(0.5)


def _refuse_unfit(options: InfraOptions) -> None:
    if sys.platform == "win32":
        raise UsageError("a system of plain processes needs Linux or macOS", code="platform", try_="use --with docker")
    if unknown := set(options.without) - set(OPTIONAL):
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


def _first(folder: Path, options: InfraOptions, made: Sequence[str], notify: Notify) -> LocalRecord:
    """Choose programs and ports, and set everything up for the first time."""
    stores = [part for part in STORES if part not in options.without]
    programs = programs_for(stores, folder / UNPACKED, notify, may_fetch=options.fetch)
    users = accounts()
    record = LocalRecord(
        version=__version__,
        created_at=time.time(),
        tag=secrets.token_hex(8),
        host=options.host or HERE,
        ports=ports_for(stores, options.host or HERE, options.port),
        programs=programs,
        accounts={part: users[part] for part in stores if part in users},
        agent="agent" not in options.without,
        allow=options.allow,
        made=tuple(made),
    )
    if record.accounts:
        folder.chmod(0o711)  # the accounts of its parts must reach their own folders; the others are closed to them
    return record


def _again(folder: Path, record: LocalRecord, options: InfraOptions, notify: Notify) -> LocalRecord:
    """Bring a system up that was up before: as it was, but for what has changed around it."""
    if (options.host or HERE, options.without, options.allow) != (HERE, (), ()):
        notify("this system was set up before: --host, --without and --allow of then are used")
    stores = [part for part in STORES if record.has(part)]
    ports = ports_again(record.ports, record.host, options.port, notify)
    programs = programs_for(stores, folder / UNPACKED, notify, may_fetch=options.fetch, known=record.programs)
    return replace(record, version=__version__, ports=ports, programs=programs)


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
