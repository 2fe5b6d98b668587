"""Keys of the target that a runtime would ignore: refused, since a key that does nothing makes wrong numbers."""

from __future__ import annotations

from collections.abc import Iterable

from assay.errors import UsageError
from assay.spec.benchmark import Definition
from assay.spec.target import ModelTarget


def refuse_idle(target: ModelTarget, idle: Iterable[str]) -> None:
    """Refuse keys that do nothing.

    Raises:
        UsageError: when one of them has another value than its default.
    """
    for key in idle:
        if getattr(target, key) != ModelTarget.model_fields[key].default:
            raise UsageError(
                f"target.{key} does nothing with runtime: {target.runtime}",
                code="usage",
                at=f"target.{key}",
                try_="remove it",
            )


def refuse_streams(definition: Definition) -> None:
    """Refuse several calls at once where one model serves them one by one."""
    load = definition.load
    if load.scenario == "multi-stream" or (load.streams or 1) > 1:
        raise UsageError(
            "a language model in our process answers one call at a time",
            code="usage",
            at="load",
            try_="remove load.streams, and set workload.batch for several prompts in one call",
        )
