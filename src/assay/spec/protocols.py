"""Which protocols and vector databases a file may name: those that installed packages register."""

from __future__ import annotations

from typing import Any

from assay.plugins import find_plugin
from assay.spec.target import Served, Target

APIS = "assay.apis"
VECTORS = "assay.vectors"


def is_api(target: Target) -> bool:
    """Whether a target is reached over a network and speaks a protocol of models and services."""
    return isinstance(target, Served) and _group(target.api) == APIS


def is_vector_database(target: Target) -> bool:
    """Whether a target is a vector database that is reached over a network."""
    return isinstance(target, Served) and _group(target.api) == VECTORS


def needs_model(target: Target) -> bool:
    """Whether the requests of a target name a model."""
    entry = find_plugin(target.api, APIS, VECTORS) if isinstance(target, Served) else None
    protocol: Any = entry.load() if entry is not None and entry.group == APIS else None
    return protocol is not None and bool(protocol.needs_model)


def _group(name: str) -> str | None:
    # Asked for in both groups: a name of ours in either is found without a look at what other packages register.
    entry = find_plugin(name, APIS, VECTORS)
    return None if entry is None else entry.group
