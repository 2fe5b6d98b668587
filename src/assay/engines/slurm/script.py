"""One batch script: what it asks Slurm for, and its lines. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.slurm import Batch, unwritable
from assay.units import show_bytes

_PLAIN = re.compile(r"^[A-Za-z0-9_./:,+@%=\[\]-]+$")
_COUNTED = ("cpus", "memory", "gpus")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def directives(batch: Batch, needs: Needs) -> tuple[str, ...]:
    """The options of sbatch for one job: what its section says, and what its needs add where that is silent."""
    # Refuse a section that contradicts the needs: the job would wait for its node, and then fail on it
    if batch.cpus is not None and needs.cpus is not None and not batch.exclusive:
        there = batch.cpus * _tasks_per_node(batch)
        if there < needs.cpus:
            raise _less("cpus", str(needs.cpus), f"{there} on a node")
    if batch.memory is not None and needs.memory is not None and batch.memory < needs.memory:
        raise _less("memory", show_bytes(needs.memory), show_bytes(batch.memory))
    count = batch.gpu_count
    if count is not None and needs.gpus is not None and count < needs.gpus:
        raise _less("gpus", str(needs.gpus), str(count))
    cpus = batch.cpus or (None if batch.exclusive else _cpus_per_task(batch, needs))
    memory = batch.memory or needs.memory
    requested = (
        batch.gpus if batch.gpus is not None else (None if batch.gres and _names_gpus(batch.gres) else needs.gpus)
    )
    parts = [batch.gres] if batch.gres else []
    parts += [f"gpu:{requested}"] if requested else []
    lines = [
        _option("partition", batch.partition),
        _option("account", batch.account),
        _option("qos", batch.qos),
        _option("reservation", batch.reservation),
        _option("time", None if batch.time is None else time_words(batch.time)),
        _option("nodes", batch.nodes),
        _option("ntasks", batch.tasks),
        _option("cpus-per-task", cpus),
        _option("mem", None if memory is None else f"{math.ceil(memory / 2**20)}M"),
        _option("gres", (",".join(parts) or None)),
        _option("constraint", batch.constraint),
        "--exclusive" if batch.exclusive else "",
    ]
    return (*(line for line in lines if line), *batch.options)


def largest(needs: Iterable[Needs]) -> Needs:
    """The most that any of several jobs needs, of what Slurm hands out."""
    all_needs = tuple(needs)
    most = {name: [value for need in all_needs if (value := getattr(need, name)) is not None] for name in _COUNTED}
    return Needs().model_copy(update={name: max(values) for name, values in most.items() if values})


def quoted(value: str) -> str:
    """A value as sbatch reads it from a script: spaces, quotes and `#` stay what they are."""
    if unwritable(value):
        raise UsageError(
            f"{value!r} cannot stand in a batch script: it has a line break or a control character", code="slurm-option"
        )
    if _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def time_words(limit_s: float) -> str:
    """A time limit as Slurm writes it: `00:30:00`, `2-04:00:00`."""
    minutes, seconds = divmod(math.ceil(limit_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hours:02}:{minutes:02}:{seconds:02}"


def _option(name: str, value: str | int | None) -> str:
    return "" if value is None else f"--{name}={quoted(str(value))}"


def _cpus_per_task(batch: Batch, needs: Needs) -> int | None:
    return None if needs.cpus is None else math.ceil(needs.cpus / _tasks_per_node(batch))


def _tasks_per_node(batch: Batch) -> int:
    return max(1, math.ceil((batch.tasks or 1) / (batch.nodes or 1)))


def _names_gpus(gres: str) -> bool:
    return any(re.match(r"^(gres[/:])?gpu([:=]|$)", part.strip()) for part in gres.split(","))


def _less(key: str, needed: str, requested: str) -> UsageError:
    message = f"needs.{key} is {needed}, and the batch options ask Slurm for {requested}"
    remedy = f"raise place.slurm.{key} (for a service under each), lower needs.{key}, or leave one of them out"
    return UsageError(message, code="slurm-option", at=f"place.slurm.{key}", try_=remedy)


@dataclass(frozen=True, slots=True)
class Variable:
    """A word of a command that only the node knows: one of its environment variables."""

    name: str


Word = str | Variable


@dataclass(frozen=True, slots=True)
class ScriptCommand:
    """A command of a script."""

    words: tuple[Word, ...]
    background: bool = False
    """Whether the script continues immediately; the command is ended with the script."""


@dataclass(frozen=True, slots=True)
class Script:
    """One batch script: what it asks for, what it prepares, what it runs."""

    name: str
    """Name of the job in Slurm."""
    directives: tuple[str, ...]
    """Options of sbatch, one per line."""
    words: Sequence[Sequence[Word] | ScriptCommand]
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
        commands = [entry if isinstance(entry, ScriptCommand) else ScriptCommand(tuple(entry)) for entry in self.words]
        lines = [_shown(command.words) + (" &" if command.background else "") for command in commands]
        if any(command.background for command in commands):
            return ["trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT", *lines]
        # The last takes the shell's place, so that Slurm's signals reach it and its exit status is the job's.
        return [*lines[:-1], f"exec {lines[-1]}"]


def _shown(words: Sequence[Word]) -> str:
    return " ".join(
        f'"${{{_named(word.name)}}}"' if isinstance(word, Variable) else shlex.quote(_one_line(word)) for word in words
    )


def _named(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid name for an environment variable", code="slurm-option")
    return name


def _one_line(text: str) -> str:
    if unwritable(text):
        message = f"{text!r} cannot stand in a batch script: it has a line break or a control character"
        raise UsageError(message, code="slurm-option", try_="put it into a file that the node reads")
    return text
