"""A history of results with known truth: what a detector finds can be compared with what was done."""

from assay.sim.history.generator import NightResult, SimulatedClock, TrueChange, first_night, nights, series_name, truth
from assay.sim.history.settings import History, HistoryEvent, read_history, year

__all__ = [
    "History",
    "HistoryEvent",
    "NightResult",
    "SimulatedClock",
    "TrueChange",
    "first_night",
    "nights",
    "read_history",
    "series_name",
    "truth",
    "year",
]
