"""A history of results with known truth: what a detector finds can be compared with what was done."""

from assay.sim.history.nights import Result, first_night, nights, series_name
from assay.sim.history.score import Found, Line, Marks, marks, score
from assay.sim.history.settings import Event, History, read_history, year
from assay.sim.history.truth import Truth, truth

__all__ = [
    "Event",
    "Found",
    "History",
    "Line",
    "Marks",
    "Result",
    "Truth",
    "first_night",
    "marks",
    "nights",
    "read_history",
    "score",
    "series_name",
    "truth",
    "year",
]
