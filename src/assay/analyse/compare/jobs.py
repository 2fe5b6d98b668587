"""Two jobs, two campaigns or sets of campaigns: which jobs belong together, and what their common metrics say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from assay.analyse.compare.comparability import (
    SIDES,
    MachineShift,
    Sides,
    different,
    doubted,
    machine_moved,
    not_comparable,
    unusable,
    unusable_word,
    warnings,
)
from assay.analyse.compare.metric import compare_results
from assay.analyse.intervals import LEVEL
from assay.analyse.records import CampaignRecord, Comparison, MultiRunJobResult
from assay.analyse.text import count

Pair = tuple[MultiRunJobResult, MultiRunJobResult]


def compare_jobs(
    a: MultiRunJobResult, b: MultiRunJobResult, *, level: float = LEVEL, smallest: float = 0.0, anyway: bool = False
) -> tuple[Comparison, ...]:
    """Compare every metric that both jobs have.

    Where the two must not be compared, each answer is "cannot tell" with the reasons; the figures stay.

    Args:
        anyway: Whether the difference between the jobs is what is asked about (two machines, two settings);
            only unusable results are then refused.
    """
    reasons = unusable(a, b) if anyway else not_comparable(a, b)
    moved = machine_moved((a,), (b,), anyway=anyway)
    chosen = ResultPool((a,), (b,), reasons, (), (), moved)
    return compare_pool(chosen, level=level, smallest=smallest).lines


def pair_jobs(a: CampaignRecord, b: CampaignRecord) -> tuple[Pair, ...]:
    """The jobs of two campaigns that belong together: by digest, else by point, else the only two."""
    return tuple(sorted(pairs_of(a.jobs, b.jobs), key=lambda pair: pair[0].index))


def pairs_of(a: Sequence[MultiRunJobResult], b: Sequence[MultiRunJobResult]) -> list[Pair]:
    """The jobs of two lists that belong together, each once."""
    pairs: list[Pair] = []
    for key in (lambda job: job.digest, _point):
        left = [job for job in a if all(job is not paired for paired, _ in pairs)]
        right = [job for job in b if all(job is not paired for _, paired in pairs)]
        pairs += _matched(left, right, key)
    return [(a[0], b[0])] if not pairs and len(a) == len(b) == 1 else pairs


def _matched(
    left: Sequence[MultiRunJobResult], right: Sequence[MultiRunJobResult], key: Callable[[MultiRunJobResult], str]
) -> list[Pair]:
    """Pair jobs of equal key, each once, in order."""
    waiting: dict[str, list[MultiRunJobResult]] = {}
    for job in right:
        waiting.setdefault(key(job), []).append(job)
    return [(job, waiting[key(job)].pop(0)) for job in left if key(job) and waiting.get(key(job))]


def _point(job: MultiRunJobResult) -> str:
    """The point of the matrix in one spelling; empty for a job without a matrix, which any other would equal."""
    return json.dumps(job.point, sort_keys=True) if job.point else ""


Results = tuple[MultiRunJobResult, ...]


@dataclass(frozen=True, slots=True)
class JobMatch:
    """Results of one job on both sides, each side in the order of its campaigns."""

    a: Results
    b: Results


@dataclass(frozen=True, slots=True)
class JobMatches:
    """The jobs of two sides: those that belong together, and those that only one of them has."""

    pairs: tuple[JobMatch, ...]
    only_a: Results
    only_b: Results


@dataclass(frozen=True, slots=True)
class ResultPool:
    """Which results of a job are held against each other, and why others are not."""

    a: Results
    b: Results
    refused: tuple[str, ...]
    """Why the two sides must not be compared; empty where they may."""
    left_out: tuple[str, ...]
    """Why some results do not count, one sentence each."""
    warnings: tuple[str, ...]
    """What else differs between the two."""
    moved: MachineShift | None = None
    """How far the machine itself moved between the two; None where it did not, or where that is not known."""


@dataclass(frozen=True, slots=True)
class JobComparison:
    """What two sides say about one job."""

    pool: ResultPool
    lines: tuple[Comparison, ...]


def match_jobs(a: Sequence[CampaignRecord], b: Sequence[CampaignRecord]) -> JobMatches:
    """Match the jobs of two sides by identity: by digest, else by the point of the matrix, else the only two."""
    left, right = _groups(a), _groups(b)
    matched = pairs_of([group[0] for group in left], [group[0] for group in right])
    first, second = ({id(group[0]): group for group in side} for side in (left, right))
    pairs = [JobMatch(first.pop(id(job)), second.pop(id(other))) for job, other in matched]
    pairs.sort(key=lambda pair: pair.b[0].index)
    return JobMatches(
        tuple(pairs), tuple(group[0] for group in first.values()), tuple(group[0] for group in second.values())
    )


def _groups(campaigns: Sequence[CampaignRecord]) -> list[Results]:
    """The results of each job over several campaigns, under the first that has it."""
    groups: list[list[MultiRunJobResult]] = []
    for campaign in campaigns:
        anchors = [group[0] for group in groups]
        by_job = {id(job): anchor for anchor, job in pairs_of(anchors, campaign.jobs)}
        for job in campaign.jobs:
            anchor = by_job.get(id(job))
            if anchor is None:
                groups.append([job])
            else:
                next(group for group in groups if group[0] is anchor).append(job)
    return [tuple(group) for group in groups]


def pool(matched: JobMatch, *, anyway: bool = False, sides: Sides = SIDES) -> ResultPool:
    """Choose the results of a job that may be held against each other.

    The first usable result of b says what is asked. Of b, those like it count; of a, those comparable with it. Where
    none of a is, the first says why, and nothing is compared.

    Args:
        anyway: Whether the difference between the sides is what is asked about; each side must still be one thing.
    """
    usable = [[job for job in side if not unusable_word(job)] for side in (matched.a, matched.b)]
    words = [word for side in (matched.a, matched.b) for job in side if (word := unusable_word(job))]
    if not all(usable):
        named = zip(sides, (matched.a, matched.b), usable, strict=True)
        refused = tuple(f"{name} result is {unusable_word(side[0])}" for name, side, good in named if not good)
        return ResultPool(matched.a, matched.b, refused, (), ())
    anchor = usable[1][0]
    b, odd_b = _split(usable[1], lambda job: different(anchor, job))
    a, odd_a = _split(usable[0], lambda job: different(*((usable[0][0], job) if anyway else (job, anchor))))
    refused = () if a else odd_a[0][1]
    kept_a = a or usable[0][:1]
    odd = [*odd_a, *odd_b] if a else odd_b
    return ResultPool(
        tuple(kept_a),
        tuple(b),
        refused,
        (*_counted(words), *_counted([reasons[0] for _, reasons in odd])),
        warnings(kept_a[0], anchor, sides),
        machine_moved(kept_a, b, sides, anyway=anyway),
    )


def compare_pool(chosen: ResultPool, *, level: float = LEVEL, smallest: float = 0.0) -> JobComparison:
    """Compare every metric that the first result of each side has.

    Where the two must not be compared, or where the machine itself moved by as much as the change, the answer is
    "cannot tell" with the reasons; the figures stay.
    """
    names = [name for name in chosen.a[0].metrics if name in chosen.b[0].metrics]
    lines = []
    for name in names:
        sides = [[job.metrics[name] for job in side if name in job.metrics] for side in (chosen.a, chosen.b)]
        comparison = doubted(compare_results(name, *sides, level=level, smallest=smallest), chosen.moved)
        lines.append(
            replace(comparison, answer="cannot tell", because=chosen.refused, chance=None)
            if chosen.refused
            else comparison
        )
    return JobComparison(chosen, tuple(lines))


def _split(
    jobs: Sequence[MultiRunJobResult], why: Callable[[MultiRunJobResult], tuple[str, ...]]
) -> tuple[list[MultiRunJobResult], list[tuple[MultiRunJobResult, tuple[str, ...]]]]:
    """Those that nothing speaks against, and the others with what does."""
    judged = [(job, why(job)) for job in jobs]
    return [job for job, reasons in judged if not reasons], [(job, reasons) for job, reasons in judged if reasons]


def _counted(reasons: Sequence[str]) -> tuple[str, ...]:
    """Each reason once, with the number of results that it keeps out."""
    return tuple(f"{count(times, 'result')} left out: {reason}" for reason, times in Counter(reasons).items())
