"""Many series at once: of what is reported, only a small share may be chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.analyse.series.records import Finding, Report
from assay.analyse.words import percent

# Of all findings that are kept, about this share is chance.
RATE = 0.05


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What is kept of many reports."""

    reports: tuple[Report, ...]
    """In the given order; the answer of a finding that many series produce by chance is "cannot tell"."""
    kept: tuple[tuple[int, int], ...]
    """Number of the report and of the finding in it, for each that is kept."""
    limit: float
    """Findings up to this chance are kept; 0 where none is."""
    tests: int
    """So many changes were looked for: one per series, and one more for each further finding."""


def discoveries(reports: Sequence[Report], rate: float = RATE) -> Discoveries:
    """Keep the findings of which no more than a share is chance (Benjamini and Hochberg).

    Holds for series that are independent, or move together as those of one machine do.

    Args:
        reports: One per series, also those in which nothing was found: they are what makes others doubtful.
    """
    chances = sorted(finding.chance for report in reports for finding in report.findings)
    tests = sum(max(1, len(report.findings)) for report in reports)
    passing = [chance for rank, chance in enumerate(chances, 1) if chance <= rate * rank / tests]
    limit = max(passing, default=0.0)
    some = bool(passing)
    kept = tuple(
        (number, place)
        for number, report in enumerate(reports)
        for place, finding in enumerate(report.findings)
        if some and finding.chance <= limit
    )
    survivors = set(kept)
    judged = tuple(
        replace(
            report,
            findings=tuple(
                finding if (number, place) in survivors else _doubted(finding, len(reports))
                for place, finding in enumerate(report.findings)
            ),
        )
        for number, report in enumerate(reports)
    )
    return Discoveries(judged, kept, limit, tests)


def _doubted(finding: Finding, series: int) -> Finding:
    why = f"chance shows as much in {percent(finding.chance)} of series, and {series:,} series were looked at"
    return replace(finding, answer="cannot tell", because=(*finding.because, why))
