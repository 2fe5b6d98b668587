"""Reading facts: from files below a root and from commands, with the reason kept where one cannot be read."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pydantic import JsonValue

Facts: TypeAlias = "dict[str, JsonValue]"
Runner = Callable[[Sequence[str]], str]

_TIMEOUT_S = 10.0
# No file of the kernel is that long; one that is holds something else.
_LONGEST = 16 * 2**20
_PIECE = 65_536
# More CPUs than any kernel counts: a longer list is rubbish and would only fill the memory.
_MOST_CPUS = 65_536
_SCALES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SIZE = re.compile(r"(\d{1,15})\s*([KMG]?)(?:i?B)?")
_DIGITS = re.compile(r"\d+")


def command_output(words: Sequence[str]) -> str:
    done = subprocess.run(
        list(words),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class FactSource:
    """Where the facts of a machine are read, and the reasons of those that could not be."""

    root: Path = Path("/")
    system: str = sys.platform
    architecture: str = field(default_factory=platform.machine)
    run: Runner = command_output
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    absent: dict[str, str] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """A path of the machine as a path below the root."""
        return path if self.here else f"{self.root}{path}"

    @property
    def here(self) -> bool:
        """Whether this is the machine itself and not a recorded one."""
        return str(self.root) == "/"

    def bytes(self, path: str, limit: int = _LONGEST) -> bytes:
        """What a file holds."""
        # A server has thousands of these files: the plain call costs a third of what a path object does. In pieces, as
        # the kernel keeps as much memory ready as is asked for, and refuses what is too much.
        file, parts = os.open(self.at(path), os.O_RDONLY), []
        try:
            while limit > 0 and (part := os.read(file, min(limit, _PIECE))):
                parts.append(part)
                limit -= len(part)
                if len(part) < _PIECE and path.startswith("/sys/"):  # each of its files is given whole or to the end
                    break
        finally:
            os.close(file)
        return b"".join(parts)

    def text(self, path: str, fact: str = "") -> str:
        """A file's text without white space at its ends; empty where it cannot be read.

        Args:
            fact: what it would tell; the reason is kept under this name.
        """
        try:
            text = self.bytes(path).decode("utf-8", "replace").strip("\0 \t\r\n")
        except OSError as problem:
            self.lack(fact, why_not(problem, path))
            return ""
        if not text:
            self.lack(fact, f"{path} is empty")
        return text

    def number(self, path: str, fact: str = "") -> int | None:
        """A file's whole number; None where there is none."""
        text = self.text(path, fact)
        try:
            return int(text, 0) if text else None
        except ValueError:
            self.lack(fact, f"{path} says {text[:40]!r}, which is no number")
            return None

    def names(self, folder: str, pattern: str = "") -> list[str]:
        """Names in a folder that match a pattern as a whole, in the order of their numbers; empty where it is not."""
        try:
            names = os.listdir(self.at(folder))  # noqa: PTH208  (names are all that is needed)
        except OSError:
            return []
        return sorted((name for name in names if not pattern or re.fullmatch(pattern, name)), key=_in_order)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder; False where unknown."""
        return os.path.exists(self.at(path))  # noqa: PTH110  (see `bytes`)

    def link(self, path: str) -> str:
        """The last part of where a link leads, such as a driver's name; empty where there is no link."""
        try:
            return os.readlink(self.at(path)).rpartition("/")[2]  # noqa: PTH115
        except OSError:
            return ""

    def command(self, *words: str, fact: str = "") -> str:
        """What a command prints; empty where it cannot be run."""
        try:
            return self.run(words)
        except FileNotFoundError:
            self.lack(fact, f"the command {words[0]} is not there")
        except subprocess.TimeoutExpired:
            self.lack(fact, f"{words[0]} did not answer in {_TIMEOUT_S:g} s")
        except subprocess.CalledProcessError as problem:
            self.lack(fact, f"{words[0]} ended with {problem.returncode}")
        except (OSError, subprocess.SubprocessError) as problem:
            self.lack(fact, f"{words[0]} cannot be run: {problem}")
        return ""

    def lack(self, fact: str, why: str) -> None:
        """Keep why a fact is missing; the first reason stays."""
        if fact:
            self.absent.setdefault(fact, why)


def text_of(path: Path) -> str:
    """The content of a file without the space around it; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):  # a path with a NUL is a ValueError
        return ""


def number_of(path: Path) -> int | None:
    """The whole number that a file holds; None where it cannot be read or holds none."""
    try:
        return int(text_of(path))
    except ValueError:
        return None


def why_not(problem: OSError, path: str) -> str:
    """Why a file could not be read, in words."""
    if isinstance(problem, FileNotFoundError | NotADirectoryError):
        return f"{path} is not there"
    if isinstance(problem, PermissionError):
        return f"{path} may not be read by this user"
    return f"{path}: {problem.strerror or problem}"


def cpu_set(text: str) -> frozenset[int]:
    """The CPUs of a kernel list such as `0-3,8`."""
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and first.isascii() and (not dash or (last.isdecimal() and last.isascii()))):
            raise ValueError(f"{part!r} is no range of CPUs")
        begin, end = int(first), int(last or first)
        if not begin <= end < _MOST_CPUS:
            raise ValueError(f"{part!r} is no range of CPUs")
        numbers.update(range(begin, end + 1))
    return frozenset(numbers)


def size_of(text: str) -> int:
    """Bytes of a size as the kernel writes it, such as `32K`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * _SCALES[match[2]]


def _in_order(name: str) -> tuple[str, list[int]]:
    return _DIGITS.sub("#", name), [int(number) for number in _DIGITS.findall(name)]
