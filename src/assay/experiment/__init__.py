"""Two jobs measured in turn on this machine, for whoever compares: blocks of runs in an order drawn by lot."""

from assay.experiment.ground import Ground, ground
from assay.experiment.parts import EXPERIMENT, PAIRS_OF_A_BLOCK, Part, order_of, pairs_in, parts_of
from assay.experiment.turns import Experiment
from assay.experiment.twin import Twin, twin_of

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
