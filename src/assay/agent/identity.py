"""How an agent was asked to work, and who it is: an identity bound to its machine, a state folder, private secrets."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.errors import UsageError
from assay.files import write_whole
from assay.http import is_loopback_url

MIN_FREE = 200_000_000
CACHE_BYTES = 20 * 2**30


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where the queue can be reached directly."""

    host: str
    port: int = 6379
    password: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The address, with the password if there is one: never to be shown."""
        from urllib.parse import quote

        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{secret}{self.host}:{self.port}/0"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything a user may say about an agent."""

    server: str
    state: Path
    token: str | None = field(default=None, repr=False)
    name: str = ""
    """In place of the machine's own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    """What jobs may do beside running models: `command`."""
    devices: tuple[str, ...] = ()
    """One slot for each; one slot for the whole machine when empty."""
    ca: Path | None = None
    verify: bool = True
    allow_private_urls: bool = False
    """Whether jobs may connect to this machine and its private networks."""
    allow_env: frozenset[str] = frozenset()
    """Names of environment variables that jobs may refer to."""
    redis: RedisAddress | None = None
    min_free: int = MIN_FREE
    cache_bytes: int = CACHE_BYTES
    grace_s: float = 60.0
    """How long a running attempt may continue once the agent is asked to stop."""
    finish: bool = False
    """Let a running attempt end, however long it takes."""
    address: str = ""
    """Where the agent itself can be asked, if it listens."""

    @property
    def url_policy(self) -> str:
        """Which addresses jobs may connect to: public ones, and this machine where the server is on it."""
        words = ["public", *(["loopback"] if self.allow_private_urls or is_loopback_url(self.server) else [])]
        return ",".join([*words, *(["private"] if self.allow_private_urls else [])])


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PR_SET_DUMPABLE = 4
# Fields of /proc/PID/stat, counted after the name in parentheses: where words and variables of the start lie.
_ARGUMENTS, _VARIABLES = 45, 47
STATE_VARIABLE = "ASSAY_AGENT_STATE"
_FILE = "identity.json"
# Read where the first cannot be: with a new identity the server would refuse results that are not delivered yet.
_COPY = "identity.copy.json"


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def try_lock(path: Path) -> int | None:
    """Hold a lock file until this process ends; None if another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def keep_private(names: Iterable[str], values: Iterable[str]) -> None:
    """Take secrets out of what others can see of this process, once they were read.

    The variables are gone from the environment, and what the kernel shows as the words and the environment of this
    process is overwritten where the values stand. On Linux no other process of the same user may look into this one
    from then on; an administrator still may. Processes that it starts are as open as ever.
    """
    gone = [os.environ.pop(name, "") for name in names]
    if sys.platform != "linux":
        return
    secrets = [os.fsencode(value) for value in {*gone, *values} if value]
    for begin, end in _shown():
        _overwrite(begin, end, secrets)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _shown() -> Iterator[tuple[int, int]]:
    """Where the words and the environment of this process lie in its memory."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        for first in (_ARGUMENTS, _VARIABLES):
            begin, end = int(fields[first]), int(fields[first + 1])
            if 0 < begin < end:
                yield begin, end


def _overwrite(begin: int, end: int, secrets: Iterable[bytes]) -> None:
    """Overwrite what is a secret as a whole: a word, or what follows the `=` of a variable or an option."""
    content = b"\0" + ctypes.string_at(begin, end - begin) + b"\0"
    for secret in secrets:
        for match in re.finditer(rb"(?<=[=\0])" + re.escape(secret) + rb"(?=\0)", content):
            ctypes.memset(begin + match.start() - 1, ord("*"), len(secret))


@dataclass(frozen=True, slots=True)
class Identity:
    """What a device calls itself for ever."""

    id: str
    machine: str
    note: str = ""
    """Said once, when something about it changed."""


def state_folder(given: Path | None = None) -> Path:
    """Where an agent keeps what must survive it: the folder given, the environment's, or the user's own."""
    if given is not None:
        return given.expanduser().absolute()
    if named := os.environ.get(STATE_VARIABLE):
        return Path(named).expanduser().absolute()
    from platformdirs import user_state_dir

    return Path(user_state_dir("assay", appauthor=False)) / "agent"


def hold_folder(folder: Path) -> int:
    """Make a state folder ours alone for as long as this process lives."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = try_lock(folder / "lock")
    except OSError as problem:
        raise UsageError(
            f"the state folder cannot be used: {problem.strerror}",
            code="state",
            at=str(folder),
            try_="name another folder with --state",
        ) from None
    if handle is None:
        raise UsageError(
            "another agent uses this state folder",
            code="state-in-use",
            at=str(folder),
            try_="stop the other one, or give this one its own folder with --state",
        )
    return handle


def identity(folder: Path, machine: str) -> Identity:
    """The identity kept in a folder, made on first use.

    A file that is damaged or lost is made again from its copy. A folder that was copied with a disk image names the
    machine it came from; there it stays, and this machine gets an identity of its own.
    """
    identity = _found(folder / _FILE, folder / _COPY, machine)
    plain = Identity(identity.id, identity.machine)
    if _read(folder / _COPY) != plain:
        with suppress(OSError):  # a copy is no reason not to work
            write_whole(folder / _COPY, _document(plain))
    return identity


def _found(path: Path, copy: Path, machine: str) -> Identity:
    stored, backup = _read(path), _read(copy)
    if stored is not None and stored.machine == machine:
        return stored
    if stored is not None:
        made = Identity(secrets.token_hex(16), machine)
        write_whole(path, _document(made))
        return replace(made, note="the state folder comes from another machine; this one got a new identity")
    if backup is not None and backup.machine == machine:
        write_whole(path, _document(backup))
        return replace(backup, note="the identity file was damaged or lost; its copy was used")
    return _create(path, machine)


def _create(path: Path, machine: str) -> Identity:
    """Make the file, or take the one that another process made at the same moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Identity(secrets.token_hex(16), machine)
    fresh = path.with_name(f".{made.id}")
    write_whole(fresh, _document(made))
    try:
        os.link(fresh, path)  # fails where the file is there, unlike a rename; and it is whole from the start
    except FileExistsError:
        existing = _read(path)
        if existing is not None:
            return existing
        fresh.replace(path)  # it is there and cannot be read: damaged
        return replace(made, note="the identity file was damaged; a new identity was made")
    except OSError:  # a file system without links
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return made


def _document(made: Identity) -> bytes:
    return json.dumps({"id": made.id, "machine": made.machine}, indent=2).encode()


def _read(path: Path) -> Identity | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return Identity(str(held["id"]), str(held["machine"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
