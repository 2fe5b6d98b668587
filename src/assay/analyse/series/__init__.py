"""Changes in a series of results: where, how large, how sure, and whether for the better."""

from assay.analyse.series.detection import LEVEL, detect
from assay.analyse.series.discoveries import Discoveries, discoveries
from assay.analyse.series.records import Finding, Series, SeriesReport, series_of
from assay.analyse.series.spread import Burst
from assay.analyse.series.state import State

__all__ = [
    "LEVEL",
    "Burst",
    "Discoveries",
    "Finding",
    "Series",
    "SeriesReport",
    "State",
    "detect",
    "discoveries",
    "series_of",
]
