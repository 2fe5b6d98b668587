"""Benchmarks for machine learning whose results carry their own doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.emit import emit

if TYPE_CHECKING:
    from assay.campaign import CampaignResult, run
    from assay.spec.benchmark import Benchmark

__version__ = "0.1.0"
__all__ = ["Benchmark", "CampaignResult", "__version__", "emit", "run"]

# Loaded on first use: a training script that only wants `emit` must not pay for the rest.
_LAZY = {
    "run": "assay.campaign",
    "CampaignResult": "assay.campaign",
    "Benchmark": "assay.spec.benchmark",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever the attribute is)
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'assay' has no attribute {name!r}")
