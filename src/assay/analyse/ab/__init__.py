"""Two things measured in turn: pairs of runs, a test that may be looked at after every block, pairs still needed."""

from assay.analyse.ab.decide import Told, decide
from assay.analyse.ab.pairs import ORDERS, Order, Pair, pairs_of
from assay.analyse.ab.readings import Reading, Wanted, headline_in, reading_of, wanted_from

__all__ = [
    "ORDERS",
    "Order",
    "Pair",
    "Reading",
    "Told",
    "Wanted",
    "decide",
    "headline_in",
    "pairs_of",
    "reading_of",
    "wanted_from",
]
