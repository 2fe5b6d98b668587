"""Who holds a device: the words that its lock carries, for people and for whoever waits."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

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
        return self.host == platform.node() and self.space == _space()

    def sentence(self) -> str:
        """Who it is, in words: `held by alice since 12:03 for squeezenet (pid 123)`."""
        if not self.pid:
            return "held by a process that has not said who it is"
        since = f" since {_clock_time(self.since)}" if self.since else ""
        purpose = f" for {self.purpose}" if self.purpose else ""
        host = f" on {self.host}" if self.host and self.host != platform.node() else ""
        return f"held by {self.user or 'somebody'}{since}{purpose} (pid {self.pid}{host})"

    def record(self) -> dict[str, JsonValue]:
        """What a result keeps of it."""
        known: dict[str, JsonValue] = {
            "device": self.device,
            "user": self.user,
            "pid": self.pid,
            "host": self.host,
            "since": self.since,
            "purpose": self.purpose,
            "command": self.command,
        }
        return {name: value for name, value in known.items() if value}


def myself(purpose: str, load: str) -> Holder:
    """This process, as it introduces itself."""
    return Holder("", _user(), os.getpid(), platform.node(), "", _clean(purpose), _command(), load, _space())


def write_words(handle: int, holder: Holder) -> None:
    """Say in a locked file who holds it."""
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, json.dumps(asdict(holder)).encode())


def read_words(handle: int, device: str) -> Holder | None:
    """What a locked file says; None where it says nothing, or names a process that is gone."""
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        told = json.loads(os.read(handle, _MOST_BYTES))
    except (ValueError, RecursionError):
        return None
    pid = told.get("pid") if isinstance(told, dict) else None
    if not isinstance(pid, int) or not 0 < pid < _MOST_PIDS:
        return None
    words = {one.name: _clean(told.get(one.name)) for one in fields(Holder) if one.name not in ("pid", "device")}
    holder = Holder(_clean(told.get("device")) or device, pid=pid, **words)
    return holder if not holder.is_near or _exists(pid) else None


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
    except KeyError:  # a container may run as a user that nobody has named
        return str(os.geteuid())


def _command() -> str:
    """The program and, of our own, what it does with which file: further words may hold secrets."""
    program = Path(sys.argv[0] or "python").name
    own = program in ("assay", "assay.exe", "__main__.py")
    return _clean(" ".join(["assay", *(Path(word).name for word in sys.argv[1:3])]) if own else program)


def _space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _exists(pid: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(pid))


def _clock_time(moment: str) -> str:
    """A moment as people here read it: the hour alone where it was today."""
    try:
        local = datetime.fromisoformat(moment).astimezone()
    except (ValueError, OverflowError):
        return moment
    return local.strftime("%H:%M" if local.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M")
