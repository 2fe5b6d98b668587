"""Many comparisons side by side: which answers are too clear for luck among as many as were compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from assay.analyse.compare.jobs import JobComparison
from assay.analyse.intervals import LEVEL
from assay.analyse.records import Comparison
from assay.analyse.text import count, percent


def believable(chances: Sequence[float], rate: float) -> list[bool]:
    """Which of many chances are too small for luck: of those kept, at most this share is (Benjamini and Hochberg).

    Where nothing changed at all, that is also how often anything is kept.
    """
    ranked = sorted(chances)
    limit = max((chance for rank, chance in enumerate(ranked, 1) if chance <= rate * rank / len(ranked)), default=-1.0)
    return [chance <= limit for chance in chances]


def judged_together(
    jobs: Sequence[JobComparison], headlines: Sequence[Collection[str]], *, level: float = LEVEL
) -> tuple[JobComparison, ...]:
    """Keep the answers that are too clear for luck among all; the others become "cannot tell".

    Headline metrics are judged among themselves, so that many other numbers do not hide what was asked about.

    Args:
        headlines: The headline metrics of each job.
    """
    lines = [(line, line.metric in names) for job, names in zip(jobs, headlines, strict=True) for line in job.lines]
    judged = iter(_judged(lines, level))
    return tuple(replace(job, lines=tuple(next(judged) for _ in job.lines)) for job in jobs)


def _judged(lines: Sequence[tuple[Comparison, bool]], level: float) -> list[Comparison]:
    judged = [line for line, _ in lines]
    for family in (True, False):
        chances = {
            number: line.chance
            for number, (line, headline) in enumerate(lines)
            if headline is family and line.chance is not None
        }
        kept = believable(list(chances.values()), 1 - level)
        for number, believed in zip(chances, kept, strict=True):
            if not believed and judged[number].answer != "cannot tell":
                judged[number] = _doubted(judged[number], len(chances))
    return judged


def _doubted(line: Comparison, among: int) -> Comparison:
    why = (
        f"alone it would be {line.answer} (luck shows as much in {percent(line.chance or 0.0)} of cases), but "
        f"{among} numbers were compared, and luck shows as much in one of them"
    )
    return replace(line, answer="cannot tell", because=(why,))


def promise_of(jobs: Sequence[JobComparison], headlines: Sequence[Collection[str]]) -> str:
    """How far answers among many may be trusted, in words; empty for a single number, whose interval says it."""
    families = [
        line.metric in names
        for job, names in zip(jobs, headlines, strict=True)
        for line in job.lines
        if line.chance is not None
    ]
    if len(families) < 2:
        return ""
    first, others = families.count(True), families.count(False)
    apart = f" ({count(first, 'headline number')} first, {others} others on their own)" if first and others else ""
    return (
        f"{len(families)} numbers were compared{apart}: of those called better or worse, at most one in twenty is luck "
        "on average (Benjamini and Hochberg); each interval of 95 % speaks for itself alone"
    )
