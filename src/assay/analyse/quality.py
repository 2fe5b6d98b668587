"""Which metrics say how good an answer is, rather than how fast it came."""

from __future__ import annotations

from collections.abc import Iterable

from assay.metrics import base_name

# In the order in which one of them speaks for all.
_RANKED = ("recall", "rouge_l", "rouge_lsum", "rouge_1", "rouge_2", "exact_match", "contains", "json_valid")
QUALITY = frozenset(_RANKED)


def is_quality(name: str) -> bool:
    """Whether a metric judges answers."""
    return base_name(name) in QUALITY


def foremost(names: Iterable[str]) -> tuple[str, ...]:
    """The one quality metric that stands for the others, where there is any."""
    present = set(names)
    return tuple(name for name in _RANKED if name in present)[:1]
