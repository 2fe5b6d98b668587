"""The engines by name: those of assay, and those that other packages register as entry points of `assay.engines`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from assay.engines.base import Engine
from assay.errors import UsageError

GROUP = "assay.engines"
# Ours are found without reading what every installed package registers; pyproject.toml names them too.
OURS = {
    "kubernetes": "assay.engines.kubernetes.engine:KubernetesEngine",
    "slurm": "assay.engines.slurm.engine:SlurmEngine",
}


def engine_named(name: str) -> type[Engine]:
    """The engine that `place.engine` names.

    Raises:
        UsageError: if no package has it.
    """
    if name in OURS:
        return _loaded(EntryPoint(name, OURS[name], GROUP))
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    if entry is None:
        raise UsageError(
            f"there is no engine {name!r}", code="no-engine", at="place.engine", try_=f"use one of {', '.join(OURS)}"
        )
    return _loaded(entry)


def engines() -> Iterator[type[Engine]]:
    """Every engine that is installed, ours first."""
    yield from map(engine_named, OURS)
    yield from (_loaded(entry) for entry in entry_points(group=GROUP) if entry.name not in OURS)


def engine_holding(store: Path, campaign: str) -> type[Engine] | None:
    """The engine that a campaign of a store was submitted to; None where no engine but this machine has it."""
    return next((engine for engine in engines() if engine.holds(store, campaign)), None)


def _loaded(entry: EntryPoint) -> type[Engine]:
    engine: type[Engine] = entry.load()
    return engine
