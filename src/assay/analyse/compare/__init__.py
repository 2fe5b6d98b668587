"""Results side by side: better, worse, or cannot tell and why."""

from assay.analyse.compare.jobs import compare_jobs, pair_jobs
from assay.analyse.compare.likeness import not_comparable, warnings
from assay.analyse.compare.metric import compare_metric, compare_results
from assay.analyse.compare.pools import JobComparison, Matched, Matching, Pool, compare_pool, match_jobs, pool

__all__ = [
    "JobComparison",
    "Matched",
    "Matching",
    "Pool",
    "compare_jobs",
    "compare_metric",
    "compare_pool",
    "compare_results",
    "match_jobs",
    "not_comparable",
    "pair_jobs",
    "pool",
    "warnings",
]
