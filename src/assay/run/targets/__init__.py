"""What can be measured: targets by name, ours and those of others."""

from __future__ import annotations

import difflib
from importlib import import_module

from assay.errors import MeasureError
from assay.plugins import find_plugin, plugin_names
from assay.run.contract import Target
from assay.spec.benchmark import Definition
from assay.spec.protocols import APIS, VECTORS
from assay.spec.target import CommandTarget, DeviceTarget, LibraryTarget, ModelTarget

GROUP = "assay.targets"
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
    """Load a target by name, from whichever installed package registers it.

    Raises:
        MeasureError: if no package does.
    """
    entry = find_plugin(name, *GROUPS)
    if entry is None:
        known = plugin_names(*GROUPS)
        near = difflib.get_close_matches(name, known, 1)
        raise MeasureError(
            f"nothing installed here measures {name!r}{f'; did you mean {near[0]}?' if near else ''}",
            code="target",
            try_=f"use one of {', '.join(known)}, or install a package that registers it under {' or '.join(GROUPS)}",
        )
    target: Target = import_module(_MEASURED_BY[entry.group]).measure if entry.group in _MEASURED_BY else entry.load()
    return target
