"""A history of results with known truth: what a detector finds can be compared with what was done."""

from assay.sim.history.generator import NightResult, SimulatedClock, TrueChange, first_night, nights, series_name, truth
from assay.sim.history.score import DetectedChange, DetectionScore, ScoreLine, marks, score
from assay.sim.history.settings import History, HistoryEvent, read_history, year

__all__ = [
    "DetectedChange",
    "DetectionScore",
    "History",
    "HistoryEvent",
    "NightResult",
    "ScoreLine",
    "SimulatedClock",
    "TrueChange",
    "first_night",
    "marks",
    "nights",
    "read_history",
    "score",
    "series_name",
    "truth",
    "year",
]
