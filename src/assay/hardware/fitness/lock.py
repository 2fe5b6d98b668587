"""One measurement per device at a time, across processes and users; whoever waits is told for whom.

The kernel's lock on a file decides who holds a device, so that the end of a process, however it comes, frees it. What
the file says about the holder is for people, and believed only while the file is locked and its process lives.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import JsonValue

from assay.clock import SYSTEM_CLOCK, iso
from assay.errors import UsageError
from assay.hardware.fitness.lock_files import (
    Holder,
    ancestors,
    lock_folder,
    myself,
    open_lock,
    open_to_look,
    read_words,
    still_there,
    try_lock,
    write_words,
)

Mode = Literal["wait", "try", "off"]
VARIABLE = "ASSAY_LOCK"
TELL_EVERY_S = 30.0
# Each look wakes a core of a machine on which somebody measures.
_POLL_S = 0.2
# Between the kernel's lock and the holder's words lie microseconds; a look at the lock takes as long.
_LOOKS = 20
_LOOK_AGAIN_S = 0.005


def mode_from(asked: str | None, environment: Mapping[str, str] | None = None) -> Mode:
    """How to go about a device that is held: as asked, else as ASSAY_LOCK says, else wait.

    Raises:
        UsageError: for a word that is none of these.
    """
    word = asked or (os.environ if environment is None else environment).get(VARIABLE) or "wait"
    if word not in get_args(Mode):
        raise UsageError(
            f"{word!r} is no way to lock a device",
            code="lock",
            at="--lock" if asked else VARIABLE,
            try_="use wait, try or off",
        )
    return cast("Mode", word)


@dataclass(frozen=True, slots=True)
class HeldLock:
    """What came of the wish to hold some devices."""

    mode: Mode
    devices: tuple[str, ...]
    """All that are wanted."""
    taken: tuple[str, ...] = ()
    """Those that this process holds."""
    together: tuple[Holder, ...] = ()
    """Those held for us: by a process that started this one, or by one that drives the same load."""
    others: tuple[Holder, ...] = ()
    """Those that somebody else holds, beside whom we go on."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Device → why it could not be locked."""
    waited_s: float = 0.0

    @property
    def held(self) -> bool | None:
        """Whether nobody else can measure on any of the devices now; None where nobody asked for it."""
        return None if self.mode == "off" else not self.others and not self.absent

    @property
    def waited(self) -> bool:
        return self.waited_s >= _POLL_S

    def record(self) -> dict[str, JsonValue]:
        """What the environment of a result says about it."""
        record: dict[str, JsonValue] = {"mode": self.mode, "devices": list(self.devices), "held": self.held}
        if self.mode == "off":
            return record
        record["waited_s"] = round(self.waited_s, 3)
        for name, group in (("together", self.together), ("others", self.others)):
            if group:
                record[name] = [holder.record() for holder in group]
        return record | ({"absent": dict(self.absent)} if self.absent else {})


@contextmanager
def device_lock(
    devices: Collection[str],
    purpose: str,
    mode: Mode,
    tell: Callable[[str], None],
    *,
    load: str = "",
    folder: Path | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[HeldLock]:
    """Hold devices, so that no other measurement on this machine shares them.

    A lock that cannot be had for another reason than a holder (no folder that all users share) is no reason to
    measure nothing: `absent` says why, and the result carries it.

    Args:
        devices: such as `cpu` and the UUID of a GPU; taken in sorted order, so that no two processes can wait for
            each other.
        mode: `wait` until all are free; `try` and go on beside whoever holds one; or `off`.
        tell: is told whom we wait for, at once and then every half minute.
        load: processes that name the same one drive one load together, and do not wait for each other.
    """
    wanted = tuple(sorted(set(devices)))
    if mode == "off" or not wanted:
        yield HeldLock(mode, wanted)
        return
    began_s = now()
    with ExitStack() as taken:
        held = HeldLock(mode, wanted)
        try:
            place = folder or lock_folder()
        except OSError as problem:
            held = replace(held, absent=dict.fromkeys(wanted, f"no folder for locks can be used: {_why(problem)}"))
        else:
            seats = _Seats(place, myself(purpose, load), ancestors(), tell, now, sleep)
            for device in wanted:
                held = _with(held, device, seats, taken)
        yield replace(held, waited_s=now() - began_s)


def _with(held: HeldLock, device: str, seats: _Seats, taken: ExitStack) -> HeldLock:
    """What is held once this device was asked for as well."""
    try:
        got = seats.waited_for(device) if held.mode == "wait" else seats.tried(device)
    except OSError as problem:
        return replace(held, absent={**held.absent, device: _why(problem)})
    if isinstance(got, int):
        taken.callback(_free, got)
        return replace(held, taken=(*held.taken, device))
    if seats.is_ours(got):
        return replace(held, together=(*held.together, got))
    return replace(held, others=(*held.others, got))


@dataclass(frozen=True, slots=True)
class _Seats:
    """The locks of one folder, asked for by one process."""

    folder: Path
    me: Holder
    above: frozenset[int]
    """Processes that started this one, one through the other."""
    tell: Callable[[str], None]
    now: Callable[[], float]
    sleep: Callable[[float], None]

    def tried(self, device: str) -> int | Holder:
        """The locked file of a device with our words in it, or whoever holds it."""
        path = _path(self.folder, device)
        for _ in range(_LOOKS):
            handle = open_lock(path)
            if not try_lock(handle):
                holder = read_words(handle, device)
                os.close(handle)
                if holder is not None:
                    return holder
                self.sleep(_LOOK_AGAIN_S)  # taken a moment ago, or only looked at
            elif still_there(handle, path):
                with suppress(OSError):  # no room on the disk: held all the same, without a word
                    write_words(handle, replace(self.me, device=device, since=iso(SYSTEM_CLOCK.utc())))
                return handle
            else:
                os.close(handle)
        return Holder(device)

    def waited_for(self, device: str) -> int | Holder:
        """The locked file of a device, however long it takes; or whoever holds it for us.

        Whoever waits first holds a second lock, the place at the head of the queue: a campaign that frees the device
        between two jobs cannot take it again before the one who waits.
        """
        told_s = float("-inf")
        with ExitStack() as queue:
            first = False
            while True:
                first = first or self._first(device, queue)
                got = self.tried(device) if first else _look(_path(self.folder, device), device)
                if isinstance(got, int) or (got is not None and self.is_ours(got)):
                    return got
                if got is not None and self.now() - told_s >= TELL_EVERY_S:
                    told_s = self.now()
                    self.tell(f"waiting for {device}: {got.sentence()}")
                self.sleep(_POLL_S)

    def _first(self, device: str, queue: ExitStack) -> bool:
        handle = open_lock(_path(self.folder, device, "queue"))
        if try_lock(handle):
            queue.callback(os.close, handle)
            return True
        os.close(handle)
        return False

    def is_ours(self, holder: Holder) -> bool:
        """Whether somebody holds a device for us: a process that we are part of, or one of the same load."""
        if self.me.load and holder.load == self.me.load:
            return True
        return holder.is_near and holder.pid in self.above


def holders(folder: Path | None = None) -> tuple[Holder, ...]:
    try:
        place = folder or lock_folder(make=False)
        paths = sorted(place.glob("*.lock"))
    except OSError:
        return ()
    holders = (_look(path, path.stem) for path in paths)
    return tuple(holder for holder in holders if holder is not None)


def _look(path: Path, device: str) -> Holder | None:
    """Whoever holds the lock of a file; None where it is free or not to be seen."""
    try:
        handle = open_to_look(path)
    except OSError:
        return None
    try:
        for _ in range(_LOOKS):
            if try_lock(handle, shared=True):
                return None
            if (holder := read_words(handle, device)) is not None:
                return holder
            time.sleep(_LOOK_AGAIN_S)
        return Holder(device)
    finally:
        os.close(handle)


def _path(folder: Path, device: str, kind: str = "lock") -> Path:
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]', '-', device)}.{kind}"


def _free(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.close(handle)


def _why(problem: OSError) -> str:
    where = f"{problem.filename}: " if problem.filename else ""
    return f"{where}{problem.strerror or problem}"
