"""What would happen if a plan were submitted."""

from __future__ import annotations

from assay.place.needs import needs_in_words
from assay.serve.intake.files import missing
from assay.serve.intake.submission import Planned, label_of
from assay.serve.state import ServerState
from assay.serve.web.records import BenchmarkPreview, JobPreview, PlacementView

_SHOWN = 500


def preview(state: ServerState, planned: Planned) -> BenchmarkPreview:
    """The jobs of a plan, what they need, who could take them, and what would have to be uploaded first."""
    plan = planned.plan
    wanted = dict.fromkeys(file.sha256 for job in plan.jobs for found in job.files.values() for file in found)
    jobs = tuple(
        JobPreview(job.index, label_of(job), job.digest, needs_in_words(job), job.definition.measure.runs)
        for job in plan.jobs[:_SHOWN]
    )
    return BenchmarkPreview(
        benchmark=plan.benchmark,
        digest=plan.digest,
        jobs=len(plan.jobs),
        job_list=jobs,
        placement=PlacementView.of(state.kept.control.preview(plan.jobs)),
        files_missing=missing(state.kept.store, wanted),
    )
