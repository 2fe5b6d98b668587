"""The named checks of a result, the verdict they add up to, and the gates of the benchmark file."""

from assay.analyse.checks.numbers import gates_of
from assay.analyse.checks.table import ADVISORY, CHECKS, INVALIDATING, checks_of, verdict_of

__all__ = ["ADVISORY", "CHECKS", "INVALIDATING", "checks_of", "gates_of", "verdict_of"]
