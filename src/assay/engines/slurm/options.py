"""What a batch job asks Slurm for, as the lines of its script. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.clusters import Batch, merged, modest, unwritable
from assay.units import show_bytes

__all__ = ["directives", "largest", "merged", "modest", "quoted", "time_words"]

_PLAIN = re.compile(r"^[A-Za-z0-9_./:,+@%=\[\]-]+$")


def directives(batch: Batch, needs: Needs) -> tuple[str, ...]:
    """The options of sbatch for one job: what its section says, and what its needs add where that is silent.

    Raises:
        UsageError: if the section asks for less than the job needs.
    """
    _refuse_less(batch, needs)
    cpus = batch.cpus or (None if batch.exclusive else _cpus_per_task(batch, needs))
    memory = batch.memory or needs.memory
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
        _option("gres", _gres(batch, needs)),
        _option("constraint", batch.constraint),
        "--exclusive" if batch.exclusive else "",
    ]
    return (*(line for line in lines if line), *batch.options)


def largest(needs: Iterable[Needs]) -> Needs:
    """The most that any of several jobs needs, of what Slurm hands out."""
    known = tuple(needs)
    most = {name: [value for one in known if (value := getattr(one, name)) is not None] for name in _COUNTED}
    return Needs().model_copy(update={name: max(values) for name, values in most.items() if values})


_COUNTED = ("cpus", "memory", "gpus")


def quoted(value: str) -> str:
    """A value as sbatch reads it from a script: spaces, quotes and `#` stay what they are.

    Raises:
        UsageError: for a line break or another character that no script can carry.
    """
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


def _gres(batch: Batch, needs: Needs) -> str | None:
    asked = batch.gpus if batch.gpus is not None else _needed_gpus(batch, needs)
    parts = [batch.gres] if batch.gres else []
    parts += [f"gpu:{asked}"] if asked else []
    return ",".join(parts) or None


def _needed_gpus(batch: Batch, needs: Needs) -> int | None:
    return None if batch.gres and _names_gpus(batch.gres) else needs.gpus


def _names_gpus(gres: str) -> bool:
    return any(re.match(r"^(gres[/:])?gpu([:=]|$)", part.strip()) for part in gres.split(","))


def _refuse_less(batch: Batch, needs: Needs) -> None:
    """Refuse a section that contradicts the needs: the job would wait for its node, and then fail on it."""
    if batch.cpus is not None and needs.cpus is not None and not batch.exclusive:
        there = batch.cpus * _tasks_per_node(batch)
        if there < needs.cpus:
            raise _less("cpus", str(needs.cpus), f"{there} on a node")
    if batch.memory is not None and needs.memory is not None and batch.memory < needs.memory:
        raise _less("memory", show_bytes(needs.memory), show_bytes(batch.memory))
    count = batch.gpu_count
    if count is not None and needs.gpus is not None and count < needs.gpus:
        raise _less("gpus", str(needs.gpus), str(count))


def _less(key: str, needed: str, asked: str) -> UsageError:
    return UsageError(
        f"needs.{key} is {needed}, and the batch options ask Slurm for {asked}",
        code="slurm-option",
        at=f"place.slurm.{key}",
        try_=f"raise place.slurm.{key} (for a service under each), lower needs.{key}, or leave one of them out",
    )
