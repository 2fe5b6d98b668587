"""What can be measured: targets by name, ours and those of others."""

from __future__ import annotations

import difflib
from importlib.metadata import PackageNotFoundError, distribution, entry_points

from assay.errors import MeasureError
from assay.run.contract import Target
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, DeviceTarget, LibraryTarget, ModelTarget

GROUP = "assay.targets"


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
    if (own := _own(name)) is not None:
        return own
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        raise MeasureError(
            f"nothing installed here measures {name!r}{f'; did you mean {near[0]}?' if near else ''}",
            code="target",
            try_=f"use one of {', '.join(sorted(found))}, or install a package that registers it under {GROUP}",
        )
    target: Target = found[name].load()
    return target


def _own(name: str) -> Target | None:
    """A target of ours: found without reading what every other installed package registers."""
    try:
        ours = distribution("assay-bench").entry_points
    except PackageNotFoundError:
        return None
    return next((entry.load() for entry in ours if entry.group == GROUP and entry.name == name), None)
