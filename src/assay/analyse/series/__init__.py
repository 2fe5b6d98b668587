"""Changes in a series of results: where, how large, how sure, and whether for the better."""

from assay.analyse.series.detection import detect
from assay.analyse.series.discoveries import discoveries
from assay.analyse.series.records import LEVEL, Finding, Series, SeriesReport, series_of

__all__ = ["LEVEL", "Finding", "Series", "SeriesReport", "detect", "discoveries", "series_of"]
