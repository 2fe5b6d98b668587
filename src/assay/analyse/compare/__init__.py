"""Two results side by side: better, worse, or cannot tell and why."""

from assay.analyse.compare.jobs import compare_jobs, pair_jobs
from assay.analyse.compare.likeness import not_comparable
from assay.analyse.compare.metric import compare_metric

__all__ = ["compare_jobs", "compare_metric", "not_comparable", "pair_jobs"]
