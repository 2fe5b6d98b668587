"""A batch script that people can read, keep, and submit by hand. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.engines.slurm.options import quoted
from assay.errors import UsageError
from assay.spec.clusters import unwritable

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class Variable:
    """A word of a command that only the node knows: one of its environment variables."""

    name: str


Word = str | Variable


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a script."""

    words: tuple[Word, ...]
    background: bool = False
    """Whether the script goes on at once; it is ended with the script."""


@dataclass(frozen=True, slots=True)
class Script:
    """One batch script: what it asks for, what it prepares, what it runs."""

    name: str
    """Name of the job in Slurm."""
    directives: tuple[str, ...]
    """Options of sbatch, one per line."""
    words: Sequence[Sequence[Word] | Command]
    """Commands, one after another; the script ends with the first that fails."""
    modules: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()
    array: str | None = None
    """Indexes of an array, such as `0-199%20`."""
    env: Mapping[str, str] = field(default_factory=dict)
    output: Path | None = None
    """File for what it prints, with Slurm's marks in its name."""
    error: Path | None = None
    work_dir: Path | None = None
    about: str = ""
    """What it is, in a line for people."""

    def text(self) -> str:
        """The script.

        Raises:
            UsageError: for a value that no script can carry, or a script without a command.
        """
        if not self.words:
            raise UsageError(f"the batch script {self.name!r} has no command", code="slurm-option")
        lines = ["#!/bin/bash"]
        lines += [f"# {_one_line(self.about)}"] if self.about else []
        lines += [f"#SBATCH {line}" for line in self._directives()]
        lines += ["", *self._prepared(), *self._commands()]
        return "\n".join(lines) + "\n"

    def _directives(self) -> list[str]:
        own = {
            "job-name": self.name,
            "array": self.array,
            "output": self.output,
            "error": self.error,
            "chdir": self.work_dir,
        }
        lines = [f"--{name}={quoted(str(value))}" for name, value in own.items() if value is not None]
        return [*lines, *map(_one_line, self.directives)]

    def _prepared(self) -> list[str]:
        lines = []
        if self.modules:  # a batch shell is no login shell, so that `module` may be unknown to it
            lines.append("type module >/dev/null 2>&1 || source /etc/profile")
        lines.append("set -e")
        lines += [f"module load {shlex.quote(_one_line(name))}" for name in self.modules]
        lines += [_one_line(line) for line in self.prologue]
        return lines + [f"export {_named(name)}={shlex.quote(_one_line(value))}" for name, value in self.env.items()]

    def _commands(self) -> list[str]:
        commands = [one if isinstance(one, Command) else Command(tuple(one)) for one in self.words]
        lines = [_shown(one.words) + (" &" if one.background else "") for one in commands]
        if any(one.background for one in commands):
            return ["trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT", *lines]
        # The last takes the shell's place, so that Slurm's signals reach it and its exit status is the job's.
        return [*lines[:-1], f"exec {lines[-1]}"]


def _shown(words: Sequence[Word]) -> str:
    return " ".join(
        f'"${{{_named(word.name)}}}"' if isinstance(word, Variable) else shlex.quote(_one_line(word)) for word in words
    )


def _named(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"{name!r} is no name for an environment variable", code="slurm-option")
    return name


def _one_line(text: str) -> str:
    if unwritable(text):
        raise UsageError(
            f"{text!r} cannot stand in a batch script: it has a line break or a control character",
            code="slurm-option",
            try_="put it into a file that the node reads",
        )
    return text
