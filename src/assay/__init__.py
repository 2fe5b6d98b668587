"""Benchmarks for machine learning whose results carry their own doubt."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from assay.emit import emit
from assay.version import __version__

if TYPE_CHECKING:
    from assay.api.run import run
    from assay.report.result import CampaignResult
    from assay.spec.benchmark import Benchmark

__all__ = ["Benchmark", "CampaignResult", "__version__", "emit", "run"]

# Loaded on first use: a training script that only wants `emit` must not pay for the rest.
_LAZY = {
    "CampaignResult": "assay.report.result",
    "Benchmark": "assay.spec.benchmark",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever the attribute is)
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'assay' has no attribute {name!r}")


class _Package(ModuleType):
    """`assay.run` is the public function, although a package has the same name.

    Importing a submodule sets it as an attribute of its package; the two functions below win over that.
    Submodules are still found through `sys.modules`.
    """

    @property
    def run(self) -> Any:  # noqa: ANN401
        """Run a benchmark on this machine and return its results."""
        from assay.api.run import run as run_benchmark

        return run_benchmark

    @run.setter
    def run(self, stage: ModuleType) -> None:
        """Keep the function when the stage is imported."""

    @property
    def emit(self) -> Any:  # noqa: ANN401
        """Report metrics from any program."""
        return emit

    @emit.setter
    def emit(self, module: ModuleType) -> None:
        """Keep the function when its module is imported again."""


sys.modules[__name__].__class__ = _Package
