"""Sets of campaigns side by side: the same job matched over all of them, and what its results say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from assay.analyse.compare.jobs import pairs_of
from assay.analyse.compare.likeness import SIDES, Sides, different, unusable_word, warnings
from assay.analyse.compare.metric import compare_results
from assay.analyse.compare.moved import Moved, doubted, machine_moved
from assay.analyse.intervals import LEVEL
from assay.analyse.records import CampaignRecord, Comparison, MultiRunJobResult
from assay.analyse.words import count

Results = tuple[MultiRunJobResult, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """Results of one job on both sides, each side in the order of its campaigns."""

    a: Results
    b: Results


@dataclass(frozen=True, slots=True)
class Matching:
    """The jobs of two sides: those that belong together, and those that only one of them has."""

    pairs: tuple[Matched, ...]
    only_a: Results
    only_b: Results


@dataclass(frozen=True, slots=True)
class Pool:
    """Which results of a job are held against each other, and why others are not."""

    a: Results
    b: Results
    refused: tuple[str, ...]
    """Why the two sides must not be compared; empty where they may."""
    left_out: tuple[str, ...]
    """Why some results do not count, one sentence each."""
    warnings: tuple[str, ...]
    """What else differs between the two."""
    moved: Moved | None = None
    """How far the machine itself moved between the two; None where it did not, or where that is not known."""


@dataclass(frozen=True, slots=True)
class JobComparison:
    """What two sides say about one job."""

    pool: Pool
    lines: tuple[Comparison, ...]


def match_jobs(a: Sequence[CampaignRecord], b: Sequence[CampaignRecord]) -> Matching:
    """Match the jobs of two sides by identity: by digest, else by the point of the matrix, else the only two."""
    left, right = _groups(a), _groups(b)
    found = pairs_of([group[0] for group in left], [group[0] for group in right])
    first, second = ({id(group[0]): group for group in side} for side in (left, right))
    pairs = [Matched(first.pop(id(one)), second.pop(id(other))) for one, other in found]
    pairs.sort(key=lambda pair: pair.b[0].index)
    return Matching(
        tuple(pairs),
        tuple(group[0] for group in first.values()),
        tuple(group[0] for group in second.values()),
    )


def _groups(campaigns: Sequence[CampaignRecord]) -> list[Results]:
    """The results of each job over several campaigns, under the first that has it."""
    groups: list[list[MultiRunJobResult]] = []
    for campaign in campaigns:
        anchors = [group[0] for group in groups]
        known = {id(job): anchor for anchor, job in pairs_of(anchors, campaign.jobs)}
        for job in campaign.jobs:
            anchor = known.get(id(job))
            if anchor is None:
                groups.append([job])
            else:
                next(group for group in groups if group[0] is anchor).append(job)
    return [tuple(group) for group in groups]


def pool(matched: Matched, *, anyway: bool = False, sides: Sides = SIDES) -> Pool:
    """Choose the results of a job that may be held against each other.

    The first usable result of b says what is asked. Of b, those like it count; of a, those comparable with it. Where
    none of a is, the first says why, and nothing is compared.

    Args:
        anyway: Whether the difference between the sides is what is asked about; each side must still be one thing.
    """
    usable = [[job for job in side if not unusable_word(job)] for side in (matched.a, matched.b)]
    if not usable[0] or not usable[1]:
        return Pool(matched.a, matched.b, _unusable(matched, sides), (), ())
    anchor = usable[1][0]
    b, odd_b = _split(usable[1], lambda job: different(anchor, job))
    a, odd_a = _split(usable[0], lambda job: different(*((usable[0][0], job) if anyway else (job, anchor))))
    refused = () if a else odd_a[0][1]
    kept_a = a or usable[0][:1]
    odd = [*odd_a, *odd_b] if a else odd_b
    return Pool(
        tuple(kept_a),
        tuple(b),
        refused,
        (*_unusable_ones(matched), *_left_out(odd)),
        warnings(kept_a[0], anchor, sides),
        machine_moved(kept_a, b, sides, anyway=anyway),
    )


def compare_pool(chosen: Pool, *, level: float = LEVEL, smallest: float = 0.0) -> JobComparison:
    """Compare every metric that the first result of each side has.

    Where the two must not be compared, or where the machine itself moved by as much as the change, the answer is
    "cannot tell" with the reasons; the figures stay.
    """
    names = [name for name in chosen.a[0].metrics if name in chosen.b[0].metrics]
    lines = []
    for name in names:
        sides = [[job.metrics[name] for job in side if name in job.metrics] for side in (chosen.a, chosen.b)]
        one = doubted(compare_results(name, *sides, level=level, smallest=smallest), chosen.moved)
        lines.append(replace(one, answer="cannot tell", because=chosen.refused) if chosen.refused else one)
    return JobComparison(chosen, tuple(lines))


def _split(
    jobs: Sequence[MultiRunJobResult], why: Callable[[MultiRunJobResult], tuple[str, ...]]
) -> tuple[list[MultiRunJobResult], list[tuple[MultiRunJobResult, tuple[str, ...]]]]:
    """Those that nothing speaks against, and the others with what does."""
    judged = [(job, why(job)) for job in jobs]
    return [job for job, reasons in judged if not reasons], [(job, reasons) for job, reasons in judged if reasons]


def _unusable(matched: Matched, sides: Sides) -> tuple[str, ...]:
    named = zip(sides, (matched.a, matched.b), strict=True)
    return tuple(
        f"{name} result is {word}" for name, side in named if (word := unusable_word(side[0])) and _all_unusable(side)
    )


def _all_unusable(side: Results) -> bool:
    return all(unusable_word(job) for job in side)


def _unusable_ones(matched: Matched) -> tuple[str, ...]:
    words = [word for side in (matched.a, matched.b) for job in side if (word := unusable_word(job))]
    return _counted(words)


def _left_out(odd: Sequence[tuple[MultiRunJobResult, tuple[str, ...]]]) -> tuple[str, ...]:
    return _counted([reasons[0] for _, reasons in odd])


def _counted(reasons: Sequence[str]) -> tuple[str, ...]:
    """Each reason once, with the number of results that it keeps out."""
    return tuple(
        f"{count(list(reasons).count(reason), 'result')} left out: {reason}" for reason in dict.fromkeys(reasons)
    )
