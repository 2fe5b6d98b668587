"""The files of device locks: a folder that all users share, and the holder that each file names.

The folder is open to everyone and has the sticky bit, as /tmp has: every user may add a file, none may remove or
replace that of another. A file is opened without following links, and used only if it is a plain file with one name.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

FOLDER_VARIABLE = "ASSAY_LOCK_FOLDER"
_FOR_ALL = 0o1777
_FILE_MODE = 0o666
# A new file belongs to its user alone for a moment, until its mode is set.
_TRIES = 20
_AGAIN_S = 0.005
# Locked on Windows, where what is locked cannot be read: far behind anything that is ever written.
_FAR = 1 << 30


def lock_folder(*, root: Path = Path("/"), environment: Mapping[str, str] | None = None, make: bool = True) -> Path:
    """The folder of the locks: the one that ASSAY_LOCK_FOLDER names, else the first that all users of a machine share.

    One that is there already goes before one that could be made, since the others use it.
    """
    setting = (os.environ if environment is None else environment).get(FOLDER_VARIABLE)
    candidates = (Path(setting).absolute(),) if setting else _candidates(root)
    refused: dict[Path, str] = {}
    for making in (False, True) if make else (False,):
        for folder in candidates:
            try:
                if making:
                    _make(folder, parents=bool(setting))
                _refuse_unsound(folder, for_all=not setting)
            except OSError as problem:
                refused[folder] = problem.strerror or str(problem)
            else:
                return folder
    raise OSError("; ".join(f"{folder}: {why}" for folder, why in refused.items()))


def _candidates(root: Path) -> tuple[Path, ...]:
    if sys.platform == "win32":
        return (Path(os.environ.get("PROGRAMDATA") or tempfile.gettempdir()) / "assay-locks",)
    # Not the folder of TMPDIR: that is often a user's own, and a lock that others do not see locks nothing.
    return (root / "run/lock/assay", root / "var/lock/assay", root / "tmp/assay-locks")


def _make(folder: Path, *, parents: bool) -> None:
    """Make a folder for everyone; it appears under its name only when its mode is set."""
    if os.path.lexists(folder):
        return  # a user put it there, whatever it is
    if parents:
        folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".assay-", dir=folder.parent))
    try:
        fresh.chmod(_FOR_ALL)
        fresh.rename(folder)
    except OSError:
        fresh.rmdir()
        if not folder.is_dir():  # else another process was faster
            raise


def _refuse_unsound(folder: Path, *, for_all: bool) -> None:
    """Refuse a folder in which files could be swapped, or that others could not use."""
    status = os.lstat(folder)
    if sys.platform != "win32" and stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "it is a symbolic link that another user made")
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder")
    if sys.platform == "win32":
        return
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "everyone may replace files in it: it lacks the sticky bit (chmod 1777)")
    if for_all and stat.S_IMODE(status.st_mode) & _FOR_ALL != _FOR_ALL:
        raise PermissionError(errno.EPERM, "it is not open to all users (chmod 1777)")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this user may not write in it")


def open_lock(path: Path) -> int:
    """Open the file of a lock, made if it is not there."""
    for tries_left in reversed(range(_TRIES)):
        try:
            # Without O_CREAT: for a file of another user in such a folder, kernels refuse it.
            return _checked(os.open(path, os.O_RDWR | _careful()))
        except FileNotFoundError:
            handle = _create(path)
            if handle is not None:
                return handle
        except PermissionError:
            if not tries_left:
                raise
            time.sleep(_AGAIN_S)
    raise OSError(errno.EAGAIN, "it is made and removed again and again")


def open_for_reading(path: Path) -> int:
    """Open the file of a lock only to see who holds it."""
    return _checked(os.open(path, os.O_RDONLY | _careful()))


def _careful() -> int:
    """Never through a link, never hanging on a pipe that lies there, never handed on to a child."""
    return sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def _create(path: Path) -> int | None:
    """Make the file for everyone; None when another process was faster."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _careful(), _FILE_MODE)
    except FileExistsError:
        return None
    if sys.platform != "win32":
        os.fchmod(handle, _FILE_MODE)  # whatever the umask says
    return handle


def _checked(handle: int) -> int:
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return handle
    os.close(handle)
    # Under a second name it may be a user's file, which the entry would overwrite.
    raise OSError(errno.EPERM, "it is not a plain file of this one name")


def still_there(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of that name, so that others meet the same lock."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file unless it is held; closing it, also by the end of the process, frees it.

    Args:
        shared: whether other shared locks are fine, where the system knows the difference.
    """
    if sys.platform == "win32":
        return _try_lock_on_windows(handle)
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_on_windows(handle: int) -> bool:
    if sys.platform != "win32":
        raise NotImplementedError
    import msvcrt

    os.lseek(handle, _FAR, os.SEEK_SET)
    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


_LONGEST = 200
_MOST_PIDS = 1 << 31
_MOST_BYTES = 16384
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device; what is not known is empty."""

    device: str
    user: str = ""
    pid: int = 0
    host: str = ""
    since: str = ""
    """ISO 8601, UTC."""
    purpose: str = ""
    """Benchmark and job."""
    command: str = ""
    load: str = ""
    """Shared by the processes that drive one load together."""
    space: str = ""
    """In which numbers of processes `pid` counts: a container has its own."""

    @property
    def is_near(self) -> bool:
        """Whether its number names a process that we can see."""
        return self.host == platform.node() and self.space == pid_namespace()

    def sentence(self) -> str:
        """Who it is, in words: `held by alice since 12:03 for squeezenet (pid 123)`."""
        if not self.pid:
            return "held by a process that has not said who it is"
        since = f" since {_clock_time(self.since)}" if self.since else ""
        purpose = f" for {self.purpose}" if self.purpose else ""
        host = f" on {self.host}" if self.host and self.host != platform.node() else ""
        return f"held by {self.user or 'an unknown user'}{since}{purpose} (pid {self.pid}{host})"

    def record(self) -> dict[str, JsonValue]:
        return {name: value for name, value in asdict(self).items() if value and name not in ("load", "space")}


def myself(purpose: str, load: str) -> Holder:
    """This process, as it introduces itself."""
    return Holder("", _user(), os.getpid(), platform.node(), "", _clean(purpose), _command(), load, pid_namespace())


def write_words(handle: int, holder: Holder) -> None:
    """Say in a locked file who holds it."""
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, json.dumps(asdict(holder)).encode())


def read_words(handle: int, device: str) -> Holder | None:
    """What a locked file says; None where it says nothing, or names a process that is gone."""
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        content = json.loads(os.read(handle, _MOST_BYTES))
    except (ValueError, RecursionError):
        return None
    pid = content.get("pid") if isinstance(content, dict) else None
    if not isinstance(pid, int) or not 0 < pid < _MOST_PIDS:
        return None
    words = {
        attribute.name: _clean(content.get(attribute.name))
        for attribute in fields(Holder)
        if attribute.name not in ("pid", "device")
    }
    holder = Holder(_clean(content.get("device")) or device, pid=pid, **words)
    import psutil

    return holder if not holder.is_near or psutil.pid_exists(pid) else None


def ancestors() -> frozenset[int]:
    """The processes that started this one, one through the other."""
    import psutil

    try:
        return frozenset(process.pid for process in psutil.Process().parents())
    except psutil.Error:
        return frozenset()


def _clean(value: object) -> str:
    """Words of another user: no character that steers a terminal, and not too many."""
    return _CONTROL.sub(" ", value)[:_LONGEST] if isinstance(value, str) else ""


def _user() -> str:
    if sys.platform == "win32":
        return os.environ.get("USERNAME", "")
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user without a name
        return str(os.geteuid())


def _command() -> str:
    """The program and, of our own, what it does with which file: further words may hold secrets."""
    program = Path(sys.argv[0] or "python").name
    own = program in ("assay", "assay.exe", "__main__.py")
    return _clean(" ".join(["assay", *(Path(word).name for word in sys.argv[1:3])]) if own else program)


def pid_namespace() -> str:
    """In which numbers of processes this one counts; empty where the system has one alone."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _clock_time(moment: str) -> str:
    """A moment as people here read it: the hour alone where it was today."""
    try:
        local = datetime.fromisoformat(moment).astimezone()
    except (ValueError, OverflowError):
        return moment
    return local.strftime("%H:%M" if local.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M")
