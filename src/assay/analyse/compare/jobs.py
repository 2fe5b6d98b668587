"""Two jobs or two campaigns: which belong together, and what all their common metrics say."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from assay.analyse.compare.likeness import not_comparable, unusable
from assay.analyse.compare.metric import compare_metric
from assay.analyse.compare.moved import doubted, machine_moved
from assay.analyse.intervals import LEVEL
from assay.analyse.records import CampaignRecord, Comparison, MultiRunJobResult

Pair = tuple[MultiRunJobResult, MultiRunJobResult]


def compare_jobs(
    a: MultiRunJobResult,
    b: MultiRunJobResult,
    *,
    level: float = LEVEL,
    smallest: float = 0.0,
    anyway: bool = False,
) -> tuple[Comparison, ...]:
    """Compare every metric that both jobs have.

    Where the two must not be compared, each answer is "cannot tell" with the reasons; the figures stay.

    Args:
        anyway: Whether the difference between the jobs is what is asked about (two machines, two settings);
            only unusable results are then refused.
    """
    reasons = unusable(a, b) if anyway else not_comparable(a, b)
    moved = machine_moved((a,), (b,), anyway=anyway)
    found = (
        doubted(compare_metric(name, stats, b.metrics[name], level=level, smallest=smallest), moved)
        for name, stats in a.metrics.items()
        if name in b.metrics
    )
    return tuple(replace(one, answer="cannot tell", because=reasons) if reasons else one for one in found)


def pair_jobs(a: CampaignRecord, b: CampaignRecord) -> tuple[Pair, ...]:
    """The jobs of two campaigns that belong together: by digest, else by point, else the only two."""
    return tuple(sorted(pairs_of(a.jobs, b.jobs), key=lambda pair: pair[0].index))


def pairs_of(a: Sequence[MultiRunJobResult], b: Sequence[MultiRunJobResult]) -> list[Pair]:
    """The jobs of two lists that belong together, each once."""
    pairs: list[Pair] = []
    for key in (_digest, _point):
        left = [job for job in a if all(job is not one for one, _ in pairs)]
        right = [job for job in b if all(job is not one for _, one in pairs)]
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


def _digest(job: MultiRunJobResult) -> str:
    return job.digest


def _point(job: MultiRunJobResult) -> str:
    """The point of the matrix in one spelling; empty for a job without a matrix, which any other would equal."""
    return json.dumps(job.point, sort_keys=True) if job.point else ""
