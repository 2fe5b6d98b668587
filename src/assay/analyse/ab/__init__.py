"""Two things measured in turn: pairs of runs, a test with planned looks or after every block, pairs needed."""

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
from assay.analyse.ab.planned import PairPlan

__all__ = [
    "ORDERS",
    "ABDecision",
    "MetricSelection",
    "Order",
    "Pair",
    "PairPlan",
    "RunReading",
    "decide",
    "headline_in",
    "pairs_of",
    "reading_of",
    "wanted_from",
]
