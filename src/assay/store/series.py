"""Series of a store with their points and findings: the one door to them.

What is kept is in `series_rows` and `finding_rows`; what is concluded is in `assay.history`, since a store knows no
statistics.
"""

from __future__ import annotations

from assay.history import KnownFinding, SeriesStore, Taken
from assay.store.series_records import FindingState, Point, SeriesFilter, SeriesRecord

__all__ = ["FindingState", "KnownFinding", "Point", "SeriesFilter", "SeriesRecord", "SeriesStore", "Taken"]
