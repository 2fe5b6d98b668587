"""Series of a store with their points and findings: the one door to them.

Rows are in `store.series_rows` and `store.finding_rows`; conclusions are in `series.repository`.
"""

from __future__ import annotations

from assay.series.repository import KnownFinding, SeriesStore, Taken
from assay.store.series_records import FindingState, Point, SeriesFilter, SeriesRecord

__all__ = ["FindingState", "KnownFinding", "Point", "SeriesFilter", "SeriesRecord", "SeriesStore", "Taken"]
