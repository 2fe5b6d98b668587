"""Machines of a cloud by their type: how many processors, how much memory and which GPUs a name stands for.

The table `instances.csv` beside this file has the types of Amazon EC2. A file of the same columns that the variable
ASSAY_INSTANCES names adds others, and wins over it.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import JsonValue

from assay.errors import UsageError

VARIABLE = "ASSAY_INSTANCES"
COLUMNS = ("instance_type", "cpus", "memory_gib", "gpus", "gpu_model", "gpu_memory_gib")
# What a machine or a GPU shows is a little less than its type says: firmware and kernel keep some for themselves.
_SHOWN = 0.9


@dataclass(frozen=True, slots=True)
class Instance:
    """One type of machine."""

    name: str
    cpus: int
    memory_gib: float
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_gib: float = 0.0

    def needs(self) -> dict[str, JsonValue]:
        """What a machine must have to be like it, as a benchmark file says it."""
        found: dict[str, JsonValue] = {"cpus": self.cpus, "memory": _shown(self.memory_gib)}
        if self.gpus:
            found["gpus"] = self.gpus
        if self.gpus and self.gpu_model:
            found["gpu_model"] = self.gpu_model
        if self.gpus and self.gpu_memory_gib:
            found["gpu_memory"] = _shown(self.gpu_memory_gib)
        return found


def find_instance(name: str, environ: Mapping[str, str] | None = None) -> Instance | None:
    """A type of machine by its name; None where no table has it.

    Args:
        name: such as `p3.8xlarge`.
        environ: where ASSAY_INSTANCES is looked up.

    Raises:
        UsageError: if the user's own table cannot be read.
    """
    known = os.environ if environ is None else environ
    if known.get(VARIABLE):
        path = Path(known[VARIABLE]).expanduser()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(
                f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}",
                code="instances",
                at=VARIABLE,
                try_="name a CSV file, or unset it",
            ) from None
        if (own := _found(name, lines, str(path))) is not None:
            return own
    table = (files("assay.spec.importers") / "instances.csv").read_text(encoding="utf-8")
    return _found(name, table.splitlines(), "instances.csv")


def _found(name: str, lines: Iterable[str], source: str) -> Instance | None:
    rows = csv.DictReader(lines)
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise UsageError(
            f"{source} has other columns than {','.join(COLUMNS)}",
            code="instances",
            at=source,
            try_="write them as its first line",
        )
    for row in rows:
        if (row["instance_type"] or "").strip() == name:
            return _instance(row, f"{source}:{rows.line_num}")
    return None


def _instance(row: Mapping[str, str | None], at: str) -> Instance:
    told = {key: (value or "").strip() for key, value in row.items() if key is not None}
    try:
        made = Instance(
            told["instance_type"],
            int(told["cpus"]),
            float(told["memory_gib"]),
            int(told["gpus"] or 0),
            told["gpu_model"],
            float(told["gpu_memory_gib"] or 0),
        )
    except ValueError as problem:
        raise UsageError(f"a number is wrong: {problem}", code="instances", at=at, try_="write 4 or 30.5") from None
    if made.cpus < 1 or made.gpus < 0 or not 0 < made.memory_gib < math.inf or not 0 <= made.gpu_memory_gib < math.inf:
        raise UsageError(f"{made.name} has a size that no machine has", code="instances", at=at)
    return made


def _shown(gib: float) -> str:
    return f"{int(gib * 1024 * _SHOWN)}MiB"
