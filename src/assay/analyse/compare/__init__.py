"""Results side by side: better, worse, or cannot tell and why."""

from assay.analyse.compare.comparability import not_comparable
from assay.analyse.compare.jobs import JobComparison, JobMatch, compare_jobs, compare_pool, match_jobs, pair_jobs, pool
from assay.analyse.compare.many import judged_together, promise_of
from assay.analyse.compare.metric import compare_metric, compare_results

__all__ = [
    "JobComparison",
    "JobMatch",
    "compare_jobs",
    "compare_metric",
    "compare_pool",
    "compare_results",
    "judged_together",
    "match_jobs",
    "not_comparable",
    "pair_jobs",
    "pool",
    "promise_of",
]
