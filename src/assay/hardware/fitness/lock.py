"""One measurement per device at a time, across processes and users; a waiting process names the holder.

The kernel's lock on a file decides who holds a device, so that the end of the process always frees it. The holder's
entry in the file is for people, and valid only while the file is locked and its process lives.
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
    open_for_reading,
    open_lock,
    read_words,
    still_there,
    try_lock,
    write_words,
)

Mode = Literal["wait", "try", "off"]
VARIABLE = "ASSAY_LOCK"
NOTIFY_EVERY_S = 30.0
# Each look wakes a core of a machine that is measuring.
_POLL_S = 0.2
# Microseconds pass between the kernel's lock and the holder's entry; a look at the lock takes as long.
_CHECKS = 20
_RECHECK_S = 0.005


def mode_from(option: str | None, environment: Mapping[str, str] | None = None) -> Mode:
    """What to do about a device that is held: the option, else ASSAY_LOCK, else wait."""
    word = option or (os.environ if environment is None else environment).get(VARIABLE) or "wait"
    if word not in get_args(Mode):
        raise UsageError(
            f"{word!r} is not a lock mode",
            code="lock",
            at="--lock" if option else VARIABLE,
            try_="use wait, try or off",
        )
    return cast("Mode", word)


@dataclass(frozen=True, slots=True)
class HeldLock:
    """Which of the wanted devices are held, and by whom."""

    mode: Mode
    devices: tuple[str, ...]
    """All that are wanted."""
    taken: tuple[str, ...] = ()
    """Those that this process holds."""
    together: tuple[Holder, ...] = ()
    """Holders that belong to this measurement: a process that started this one, or one that drives the same load."""
    others: tuple[Holder, ...] = ()
    """Other holders, beside which this process measures anyway."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Device → why it could not be locked."""
    waited_s: float = 0.0

    @property
    def held(self) -> bool | None:
        """Whether no other process can measure on the devices now; None where locks are off."""
        return None if self.mode == "off" else not self.others and not self.absent

    @property
    def waited(self) -> bool:
        return self.waited_s >= _POLL_S

    def record(self) -> dict[str, JsonValue]:
        """The entry in the environment of a result."""
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
    notify: Callable[[str], None],
    *,
    load: str = "",
    folder: Path | None = None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[HeldLock]:
    """Hold devices, so that no other measurement on this machine shares them.

    A lock that fails for another reason than a holder (no folder that all users share) does not stop the measurement:
    `absent` says why, and the result carries it.

    Args:
        devices: such as `cpu` and the UUID of a GPU; taken in sorted order, so that no two processes can wait for
            each other.
        mode: `wait` until all are free; `try`, and measure beside a holder; or `off`.
        notify: called with the holder that this process waits for, immediately and then every half minute.
        load: processes that name the same one drive one load together, and do not wait for each other.
    """
    names = tuple(sorted(set(devices)))
    if mode == "off" or not names:
        yield HeldLock(mode, names)
        return
    began_s = now()
    with ExitStack() as taken:
        held = HeldLock(mode, names)
        try:
            place = folder or lock_folder()
        except OSError as problem:
            held = replace(held, absent=dict.fromkeys(names, f"no folder for locks can be used: {_why(problem)}"))
        else:
            locks = _Locks(place, myself(purpose, load), ancestors(), notify, now, sleep)
            for device in names:
                held = _with(held, device, locks, taken)
        yield replace(held, waited_s=now() - began_s)


def _with(held: HeldLock, device: str, locks: _Locks, taken: ExitStack) -> HeldLock:
    """Add the outcome of locking one more device."""
    try:
        lock = locks.wait_for(device) if held.mode == "wait" else locks.try_once(device)
    except OSError as problem:
        return replace(held, absent={**held.absent, device: _why(problem)})
    if isinstance(lock, int):
        taken.callback(_free, lock)
        return replace(held, taken=(*held.taken, device))
    if locks.is_own(lock):
        return replace(held, together=(*held.together, lock))
    return replace(held, others=(*held.others, lock))


@dataclass(frozen=True, slots=True)
class _Locks:
    """The locks of one folder, used by one process."""

    folder: Path
    me: Holder
    above: frozenset[int]
    """The ancestors of this process."""
    notify: Callable[[str], None]
    now: Callable[[], float]
    sleep: Callable[[float], None]

    def try_once(self, device: str) -> int | Holder:
        """The locked file of a device with this process's entry in it, or its holder."""
        path = _path(self.folder, device)
        for _ in range(_CHECKS):
            handle = open_lock(path)
            if not try_lock(handle):
                holder = read_words(handle, device)
                os.close(handle)
                if holder is not None:
                    return holder
                self.sleep(_RECHECK_S)  # taken a moment ago, or only looked at
            elif still_there(handle, path):
                with suppress(OSError):  # no room on the disk: held, without an entry
                    write_words(handle, replace(self.me, device=device, since=iso(SYSTEM_CLOCK.utc())))
                return handle
            else:
                os.close(handle)
        return Holder(device)

    def wait_for(self, device: str) -> int | Holder:
        """The locked file of a device, however long it takes; or a holder of this measurement.

        The first to wait holds a second lock, the head of the queue: a campaign that frees the device between two jobs
        cannot take it again before the one that waits.
        """
        notified_s = float("-inf")
        with ExitStack() as queue:
            first = False
            while True:
                first = first or self._first(device, queue)
                lock = self.try_once(device) if first else _holder_of(_path(self.folder, device), device)
                if isinstance(lock, int) or (lock is not None and self.is_own(lock)):
                    return lock
                if lock is not None and self.now() - notified_s >= NOTIFY_EVERY_S:
                    notified_s = self.now()
                    self.notify(f"waiting for {device}: {lock.sentence()}")
                self.sleep(_POLL_S)

    def _first(self, device: str, queue: ExitStack) -> bool:
        handle = open_lock(_path(self.folder, device, "queue"))
        if try_lock(handle):
            queue.callback(os.close, handle)
            return True
        os.close(handle)
        return False

    def is_own(self, holder: Holder) -> bool:
        """Whether a holder belongs to this measurement: an ancestor, or a process of the same load."""
        if self.me.load and holder.load == self.me.load:
            return True
        return holder.is_near and holder.pid in self.above


def holders(folder: Path | None = None) -> tuple[Holder, ...]:
    try:
        place = folder or lock_folder(make=False)
        paths = sorted(place.glob("*.lock"))
    except OSError:
        return ()
    holders = (_holder_of(path, path.stem) for path in paths)
    return tuple(holder for holder in holders if holder is not None)


def _holder_of(path: Path, device: str) -> Holder | None:
    """The holder of a file's lock; None where it is free or cannot be read."""
    try:
        handle = open_for_reading(path)
    except OSError:
        return None
    try:
        for _ in range(_CHECKS):
            if try_lock(handle, shared=True):
                return None
            if (holder := read_words(handle, device)) is not None:
                return holder
            time.sleep(_RECHECK_S)
        return Holder(device)
    finally:
        os.close(handle)


def _path(folder: Path, device: str, kind: str = "lock") -> Path:
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]', '-', device)}.{kind}"


def _free(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.close(handle)


def _why(problem: OSError) -> str:
    path = f"{problem.filename}: " if problem.filename else ""
    return f"{path}{problem.strerror or problem}"
