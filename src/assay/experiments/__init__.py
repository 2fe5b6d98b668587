"""Two jobs measured in turn on this machine, for whoever compares: blocks of runs in an order drawn by lot."""

from assay.experiments.interleave import Experiment
from assay.experiments.pair import Twin, twin_of
from assay.experiments.parts import EXPERIMENT, PAIRS_OF_A_BLOCK, Part, order_of, pairs_in, parts_of
from assay.experiments.session import Ground, ground

__all__ = [
    "EXPERIMENT",
    "PAIRS_OF_A_BLOCK",
    "Experiment",
    "Ground",
    "Part",
    "Twin",
    "ground",
    "order_of",
    "pairs_in",
    "parts_of",
    "twin_of",
]
