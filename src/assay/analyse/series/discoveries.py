"""Which changes are reported: few by chance among many series, and the same ones when a series is checked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.series.records import LEVEL, Finding, SeriesReport, Unconfirmed
from assay.analyse.series.spread import Burst
from assay.analyse.text import percent

# Of all findings that are kept, about this share is chance.
RATE = 0.05


@dataclass(frozen=True, slots=True)
class Discoveries:
    """What is kept of many reports."""

    reports: tuple[SeriesReport, ...]
    """In the given order; the answer of a finding that many series produce by chance is "cannot tell"."""
    kept: tuple[tuple[int, int], ...]
    """Number of the report and of the finding in it, for each that is kept."""
    limit: float
    """Findings up to this chance are kept; 0 where none is."""
    tests: int
    """How many changes were looked for: one per series, and one more for each further finding."""


def discoveries(reports: Sequence[SeriesReport], rate: float = RATE) -> Discoveries:
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
    accepted = tuple(
        (number, place)
        for number, report in enumerate(reports)
        for place, finding in enumerate(report.findings)
        if some and finding.chance <= limit
    )
    survivors = set(accepted)
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
    return Discoveries(judged, accepted, limit, tests)


def _doubted(finding: Finding, series: int) -> Finding:
    why = f"chance shows as much in {percent(finding.chance)} of series, and {series:,} series were looked at"
    return replace(finding, answer="cannot tell", because=(*finding.because, why))


# With more points the place of a change moves a little; what is further apart is another change.
_SLACK = 3
# A check after each result makes a hundred looks where the level is a promise for one: what turns up
# then is believed if it is this much clearer, or has stood for this many more results.
_CLEARER = LEVEL / 10
_SETTLED = 8
# A jump beyond doubt in size, in spreads of the series and as a share, is believed after fewer.
_SETTLED_LARGE = 2
_LARGE_SPREADS = 8.0
_LARGE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Doubt:
    """Under which condition a finding that may be chance is believed after all."""

    chance: float
    """From this chance on."""
    tests: int = 0
    """Or when as many changes are looked for as when it was doubted beside others, and it still stands out."""
    points: int | None = None
    """Or when the series has this many points, where it was doubted for being new."""


def same_changes(fresh: Sequence[Finding], known: Mapping[str, Finding], places: Mapping[str, int]) -> dict[int, str]:
    """Tell which findings are known ones: number of a fresh one → name of the known one, each at most once.

    The same change goes the same way, and the ranges in which it may lie meet.

    Args:
        places: Name → where the first point after it lies now; older points may have been added since.
    """
    pairs = sorted(
        (abs(places[name] - finding.index), number, name)
        for number, finding in enumerate(fresh)
        for name, past in known.items()
        if (finding.difference > 0) == (past.difference > 0) and _meet(finding, past, places[name] - past.index)
    )
    matches: dict[int, str] = {}
    for _, number, name in pairs:
        if number not in matches and name not in matches.values():
            matches[number] = name
    return matches


def _meet(known: Finding, fresh: Finding, moved: int) -> bool:
    first, last = fresh.range[0] + moved, fresh.range[1] + moved
    return known.range[0] - _SLACK <= last and first <= known.range[1] + _SLACK


def believed(
    raw: Finding,
    judged: Finding,
    among: Discoveries,
    known: tuple[Finding, Doubt | None] | None,
    points: int | None,
    spread: float | None = None,
) -> tuple[Finding, Doubt | None]:
    """A finding as it is to be reported, and under which condition its doubt would end.

    What was believed once stays believed while the series itself says so: it does not become doubtful because more
    series are looked at together today. What was doubted among many is not certain because it is looked at alone.

    Args:
        judged: The same beside all series that were looked at together.
        points: How many points the series has by now; None if it is looked at for the first time.
        spread: Of the points around their level, where known: beside it a jump is large or not.
    """
    before, doubt = known or (None, None)
    if before is not None and doubt is None:
        return raw, None
    if judged.because != raw.because:
        return judged, Doubt(RATE * (len(among.kept) + 1) / among.tests, among.tests)
    if before is None or doubt is None:
        # It turned up in one of many looks: it must be clearer than what one look would show by chance.
        if points is None or raw.chance <= _CLEARER:
            return raw, None
        needed = _SETTLED_LARGE if _is_large(raw, spread) else _SETTLED
        return _unconfirmed(raw, 0, needed), Doubt(_CLEARER, points=points + needed)
    over = doubt.points is not None and points is not None and points >= doubt.points
    if raw.chance <= doubt.chance or over or 0 < doubt.tests <= among.tests:
        return raw, None
    if doubt.points is not None and points is not None:
        needed = before.unconfirmed.needed if before.unconfirmed else _SETTLED
        return _unconfirmed(raw, needed - (doubt.points - points), needed), doubt
    return replace(raw, answer="cannot tell", because=before.because, unconfirmed=before.unconfirmed), doubt


def _is_large(finding: Finding, spread: float | None) -> bool:
    """Whether a step is too large to wait for a week of results before it is believed."""
    share = abs(finding.change or 0.0)
    return bool(spread) and share > _LARGE_SHARE and abs(finding.difference) > _LARGE_SPREADS * (spread or 0.0)


def _unconfirmed(raw: Finding, results: int, needed: int) -> Finding:
    """A new finding that has stood for `results` results and needs more."""
    shows = f"chance shows as much in {percent(raw.chance)} of looks at a series"
    stood = f"it is new and has stood for {results} of {needed} further results"
    why = f"{stood}; {shows}, so it counts once it has stood for {needed}, or is clearer"
    return replace(raw, answer="cannot tell", because=(*raw.because, why), unconfirmed=Unconfirmed(results, needed))


def shifted(report: SeriesReport, by: int) -> SeriesReport:
    """A report on the last part of a series, with places that count from its first point."""
    if not by:
        return report
    return replace(
        report,
        findings=tuple(
            replace(
                finding,
                index=finding.index + by,
                last_good=finding.last_good + by,
                first_bad=finding.first_bad + by,
                range=(finding.range[0] + by, finding.range[1] + by),
            )
            for finding in report.findings
        ),
        outliers=tuple(place + by for place in report.outliers),
        bursts=tuple(Burst(burst.first + by, burst.last + by, burst.factor) for burst in report.bursts),
    )


def runs_around(findings: Sequence[Finding], number: int, bounds: tuple[int, int], longest: int) -> tuple[range, range]:
    """The points before and after a finding that lie on its two levels, as far as they tell why."""
    finding = findings[number]
    first = findings[number - 1].range[1] if number else bounds[0]
    end = findings[number + 1].range[0] if number + 1 < len(findings) else bounds[1]
    # A drift is measured by what is there when it is over.
    enough = (
        finding.first_bad + longest if finding.kind == "step" else max(finding.first_bad, finding.range[1]) + longest
    )
    last = max(finding.first_bad + 1, min(end, enough, bounds[1]))
    begin = max(min(first, finding.last_good), finding.last_good - longest + 1, 0)
    return range(begin, finding.last_good + 1), range(finding.first_bad, last)
