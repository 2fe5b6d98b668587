"""Two things measured in turn: pairs of runs, a test that may be looked at after every block, pairs still needed."""

from assay.analyse.ab.decision import ABDecision, decide
from assay.analyse.ab.pairs import (
    ORDERS,
    MetricSelection,
    Order,
    Pair,
    RunReading,
    headline_in,
    pairs_of,
    reading_of,
    wanted_from,
)

__all__ = [
    "ORDERS",
    "ABDecision",
    "MetricSelection",
    "Order",
    "Pair",
    "RunReading",
    "decide",
    "headline_in",
    "pairs_of",
    "reading_of",
    "wanted_from",
]
