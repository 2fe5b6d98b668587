"""Changes in a series of results: where, how large, how sure, and whether for the better."""

from assay.analyse.series.detect import LEVEL, detect
from assay.analyse.series.many import Discoveries, discoveries
from assay.analyse.series.records import Finding, Report, Series, series_of
from assay.analyse.series.spread import Burst
from assay.analyse.series.state import State

__all__ = [
    "LEVEL",
    "Burst",
    "Discoveries",
    "Finding",
    "Report",
    "Series",
    "State",
    "detect",
    "discoveries",
    "series_of",
]
