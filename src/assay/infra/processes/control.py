"""Controls the supervisor: starts it and waits, stops it, and ends its parts if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from assay.errors import MeasureError, UsageError
from assay.infra.processes.parts import PREPARE, TAG_VARIABLE
from assay.infra.processes.supervisor import STATUS, Notes, PartNote, supervisor_runs
from assay.infra.record import kept
from assay.run.processes import is_alive
from assay.run.services.service import tail_of

_LOOK_EVERY_S = 0.1
_LINES = 8
# Above what all parts together are given, one after the other.
_STOP_WITHIN_S = 120.0
_KILLED_WITHIN_S = 10.0
_BEGINS_WITHIN_S = 30.0
_GOOD = ("healthy", "done")

Tell = Callable[[str], None]


def notes_of(folder: Path) -> tuple[PartNote, ...]:
    """What the supervisor told last of each part."""
    notes = kept(folder, STATUS, Notes)
    return () if notes is None else notes.parts


def bring_up(folder: Path, tag: str, within_s: float, tell: Tell) -> None:
    """Start the supervisor of a system, and wait until every part is healthy.

    Raises:
        MeasureError: if a part does not get healthy; everything is ended then.
    """
    (folder / STATUS).unlink(missing_ok=True)  # what an earlier supervisor told is no longer true
    try:
        _start(folder, tag)
        _await(folder, within_s, tell)
    except BaseException:
        stop(folder, tag, tell)
        raise


def stop(folder: Path, tag: str, tell: Tell) -> None:
    """End every process of a system: its supervisor ends them in good order; without one they are ended here.

    Raises:
        UsageError: if it belongs to another user.
        MeasureError: if a process does not end.
    """
    notes = kept(folder, STATUS, Notes)
    if notes is not None and supervisor_runs(folder) and is_alive(notes.pid, notes.started):
        tell("ending all parts; a running job may take some seconds to be given back")
        _signal(notes.pid, signal.SIGTERM, folder)
        if not _until(lambda: not supervisor_runs(folder), _STOP_WITHIN_S):
            tell("the supervisor does not end; it is killed")
            _signal(notes.pid, signal.SIGKILL, folder)
            _until(lambda: not supervisor_runs(folder), _KILLED_WITHIN_S)
    left = list(_left(notes, tag))
    for one in left:
        with suppress(psutil.Error):
            one.terminate()
    for one in psutil.wait_procs(left, timeout=_KILLED_WITHIN_S)[1]:
        with suppress(psutil.Error):
            one.kill()
    psutil.wait_procs(left, timeout=_KILLED_WITHIN_S)
    if left := list(_left(notes, tag)):
        raise MeasureError(
            f"{len(left)} processes do not end, such as process {left[0].pid}",
            code="infra",
            at=str(folder),
            try_="end them by hand, then destroy again",
        )


def _start(folder: Path, tag: str) -> None:
    """Start the supervisor, which leaves this process at once."""
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


def _await(folder: Path, within_s: float, tell: Tell) -> None:
    begun_s = time.monotonic()
    told: set[str] = set()
    while True:
        notes = notes_of(folder)
        for one in notes:
            if one.state in _GOOD and one.name not in told:
                told.add(one.name)
                tell("the database is prepared" if one.name == PREPARE else f"{one.name} is healthy")
        if notes and all(one.state in _GOOD for one in notes):
            return
        _refuse_hopeless(folder, notes, time.monotonic() - begun_s, within_s)
        time.sleep(_LOOK_EVERY_S)


def _refuse_hopeless(folder: Path, notes: Sequence[PartNote], waited_s: float, within_s: float) -> None:
    """Raise if waiting longer is of no use."""
    for one in notes:
        if one.state == "failed":
            raise _not_up(folder, one.name, one.detail)
    if (notes or waited_s > _BEGINS_WITHIN_S) and not supervisor_runs(folder):
        raise _not_up(folder, "supervisor", "has ended")
    if waited_s > within_s:
        late = next((one for one in notes if one.state not in _GOOD), None)
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
        try_="mend what it says and create again, or `assay infra destroy`",
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
        time.sleep(_LOOK_EVERY_S)
    return True


def _left(notes: Notes | None, tag: str) -> Iterator[psutil.Process]:
    """Processes of a system that no supervisor ended: by what it told of them, and by the tag that they carry."""
    known = {one.pid: one.started for one in (notes.parts if notes else ()) if one.pid and one.started}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            started = known.get(process.pid)
            mine = started is not None and is_alive(process.pid, started)
            mine = mine or bool(tag and process.environ().get(TAG_VARIABLE) == tag)
            if mine and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                yield process
