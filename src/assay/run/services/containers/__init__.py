"""Containers: which program runs them here, the command lines for it, and their certain end.

`contract.ContainerRuntime` is what a runtime must be able to do; `runtimes` has the ones there are.
"""

from __future__ import annotations

from assay.run.services.containers.contract import LABEL, Container, Kind, Runtime, ask
from assay.run.services.containers.registry import (
    MARKER,
    RUNTIMES,
    find_runtime,
    make_box,
    mark,
    runtime_for,
    sweep_containers,
)

__all__ = [
    "LABEL",
    "MARKER",
    "RUNTIMES",
    "Container",
    "Kind",
    "Runtime",
    "ask",
    "find_runtime",
    "make_box",
    "mark",
    "runtime_for",
    "sweep_containers",
]
