"""What can be measured: targets by name, ours and those of others."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from assay.errors import MeasureError, UsageError
from assay.plugins import find_plugin, plugin_names
from assay.run.contract import Order, Target
from assay.spec.benchmark import Definition
from assay.spec.target import APIS, TARGETS, VECTORS, CommandTarget, DeviceTarget, LibraryTarget, ModelTarget

GROUP = TARGETS
# Protocols and vector databases are registered by themselves: what measures them is the same for all.
_MEASURED_BY = {APIS: "assay.run.targets.served.measure", VECTORS: "assay.run.targets.vector.measure"}
GROUPS = (GROUP, *_MEASURED_BY)


def target_name(definition: Definition) -> str:
    target = definition.target
    if isinstance(target, CommandTarget):
        return "program"
    if isinstance(target, ModelTarget):
        return target.runtime
    if isinstance(target, DeviceTarget):
        return "device"
    return target.library if isinstance(target, LibraryTarget) else target.api


def find_target(name: str) -> Target:
    """Load a target by name, from whichever installed package registers it."""
    entry = find_plugin(name, *GROUPS)
    if entry is None:
        available = plugin_names(*GROUPS)
        near = difflib.get_close_matches(name, available, 1)
        message = f"nothing installed here measures {name!r}{f'; did you mean {near[0]}?' if near else ''}"
        try_ = f"use one of {', '.join(available)}, or install a package that registers it under {' or '.join(GROUPS)}"
        raise MeasureError(message, code="target", try_=try_)
    target: Target = import_module(_MEASURED_BY[entry.group]).measure if entry.group in _MEASURED_BY else entry.load()
    return target


def model_target(order: Order, needs: str, idle: Iterable[str]) -> tuple[ModelTarget, Path]:
    """The target of a model in this process and where the model lies.

    Args:
        needs: what the target says it needs where there is none.
        idle: keys that its runtime would ignore: a key that does nothing makes wrong numbers.
    """
    target = order.job.definition.target
    if not isinstance(target, ModelTarget) or order.model is None:
        raise UsageError(needs, code="target", at="target.model")
    for key in idle:
        if getattr(target, key) != ModelTarget.model_fields[key].default:
            message = f"target.{key} does nothing with runtime: {target.runtime}"
            raise UsageError(message, code="usage", at=f"target.{key}", try_="remove it")
    return target, Path(order.model)


def not_ready(lacks: str, try_: str) -> NoReturn:
    """Say that an earlier step, which makes a part of a model, was not taken."""
    raise MeasureError(lacks, code="target", at="target.model", try_=try_)
