"""The files of device locks: a folder that all users share, and files in it that nobody can swap for something else.

The folder is open to everyone and has the sticky bit, as /tmp has: everybody may add a file, nobody may remove or
replace that of another. A file is opened without following links, and used only if it is a plain file with one name.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

FOLDER_VARIABLE = "ASSAY_LOCK_FOLDER"
_FOR_ALL = 0o1777
_FILE_MODE = 0o666
# A file that somebody makes is theirs alone for a moment, until its mode is set.
_TRIES = 20
_AGAIN_S = 0.005
# Locked on Windows, where what is locked cannot be read: far behind anything that is ever written.
_FAR = 1 << 30


def lock_folder(*, root: Path = Path("/"), environment: Mapping[str, str] | None = None, make: bool = True) -> Path:
    """The folder of the locks: the one that ASSAY_LOCK_FOLDER names, else the first that all users of a machine share.

    One that is there already goes before one that could be made, since the others use it.

    Raises:
        OSError: if there is none that can be trusted; it says of each why not.
    """
    given = (os.environ if environment is None else environment).get(FOLDER_VARIABLE)
    candidates = (Path(given).absolute(),) if given else _candidates(root)
    refused: dict[Path, str] = {}
    for making in (False, True) if make else (False,):
        for folder in candidates:
            try:
                if making:
                    _make(folder, parents=bool(given))
                _refuse_unsound(folder, for_all=not given)
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
        return  # whatever it is, it was put there by somebody
    if parents:
        folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".assay-", dir=folder.parent))
    try:
        fresh.chmod(_FOR_ALL)
        fresh.rename(folder)
    except OSError:
        fresh.rmdir()
        if not folder.is_dir():  # else somebody was faster
            raise


def _refuse_unsound(folder: Path, *, for_all: bool) -> None:
    """Refuse a folder in which files could be swapped, or that others could not use.

    Raises:
        OSError: with the reason.
    """
    found = os.lstat(folder)
    if sys.platform != "win32" and stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "it is a symbolic link that another user made")
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder")
    if sys.platform == "win32":
        return
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "everyone may replace files in it: it lacks the sticky bit (chmod 1777)")
    if for_all and stat.S_IMODE(found.st_mode) & _FOR_ALL != _FOR_ALL:
        raise PermissionError(errno.EPERM, "it is not open to all users (chmod 1777)")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this user may not write in it")


def open_lock(path: Path) -> int:
    """Open the file of a lock, made if it is not there.

    Raises:
        OSError: if something else than a plain file of that one name is there, or it may not be opened.
    """
    for left in reversed(range(_TRIES)):
        try:
            # Without O_CREAT: for a file of another user in such a folder, kernels refuse it.
            return _checked(os.open(path, os.O_RDWR | _careful()))
        except FileNotFoundError:
            made = _create(path)
            if made is not None:
                return made
        except PermissionError:
            if not left:
                raise
            time.sleep(_AGAIN_S)
    raise OSError(errno.EAGAIN, "it is made and removed again and again")


def open_to_look(path: Path) -> int:
    """Open the file of a lock only to see who holds it.

    Raises:
        OSError: if there is no plain file of that one name, or it may not be read.
    """
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
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return handle
    os.close(handle)
    # Under a second name it may be somebody's file, which our few words would overwrite.
    raise OSError(errno.EPERM, "it is not a plain file of this one name")


def still_there(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of that name, so that others meet the same lock."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file unless somebody holds it; closing it, also by the end of the process, frees it.

    Args:
        shared: whether it is enough that nobody holds it alone, where the system knows the difference.
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
