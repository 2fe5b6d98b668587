"""What the monitor of a campaign scraped, joined to the runs that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.documents import to_json
from assay.engines.slurm.folder import SharedFolder, SlurmCampaign
from assay.engines.slurm.node.monitor import GROUP, NAME, reason
from assay.errors import AssayError
from assay.monitoring.discovery import Life, lives
from assay.monitoring.monitor import MetricsOwner, joined, without
from assay.monitoring.scraper import read_parts
from assay.plan.job import Job
from assay.report.reading import read_job
from assay.run.records import RunOutcome
from assay.run.scratch import scratch_folder
from assay.spec.secrets import references
from assay.store.store import Store
from assay.store.telemetry import FILE, Metrics


def join_metrics(store: Store, folder: SharedFolder, document: SlurmCampaign, tell: Callable[[str], None]) -> int:
    """Put the metrics of a campaign to its runs; return how many runs have some.

    A job whose runs have them already is left alone, so that this can be done again.
    """
    if not document.monitored:
        return 0
    try:
        metrics = read_parts(folder.metrics)
    except AssayError as problem:
        metrics = None
        tell(f"the metrics of the campaign cannot be read: {problem.problem.message}")
    why = _why_none(folder) if metrics is None else ""
    if why:
        tell(f"the campaign has no metrics: {why}")
    there = lives(folder.discovery)
    _, stored = store.campaign(document.campaign)
    with scratch_folder() as scratch:
        return sum(
            _join(store, document, one.job, read_job(one, store.runs), metrics, why, there, scratch)
            for one in stored
            if one.result is not None
        )


def _why_none(folder: SharedFolder) -> str:
    if folder.failed_service(GROUP, NAME).is_file():
        return f"the monitor failed: {reason(folder)}"
    if not folder.service(GROUP, NAME).is_file():
        return "the monitor never began"
    return "the monitor was ended before it wrote anything out"


def _join(
    store: Store,
    document: SlurmCampaign,
    job: Job,
    result: MultiRunJobResult,
    metrics: Metrics | None,
    why: str,
    there: tuple[Life, ...],
    scratch: Path,
) -> int:
    """One job's runs with their metrics, kept again."""
    bare = [run for run in result.runs if FILE not in run.files and FILE not in run.absent]
    if not bare:
        return 0
    group, _ = document.place_of(job.index)
    node = result.environment.get("slurm")
    whose = MetricsOwner(
        job.id,
        group=group.name,
        node=str(node.get("node", "")) if isinstance(node, dict) else "",
        secrets=tuple(references(job.definition.model_dump())),
    )
    own = scratch / str(job.index)
    own.mkdir()
    found = {}
    for run in bare:
        outcome = RunOutcome(
            run,
            store.samples.read(run.samples) if run.samples else (),
            {name: store.artefacts.at_hand(digest) for name, digest in run.files.items()},
        )
        whole = without(outcome, why) if metrics is None else joined(outcome, metrics, whose, own, lives=there)
        found[run.run_id] = store.keep_run(job.id, whole)
    runs = tuple(found.get(run.run_id, run) for run in result.runs)
    store.replace_result(job.id, verdict=result.verdict, result=to_json(replace(result, runs=runs)))
    return sum(FILE in run.files for run in found.values())
