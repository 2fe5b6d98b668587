"""A benchmark on a batch cluster: planned and written down here, submitted at once, then followed as by `attach`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from assay.analyse.records import CampaignRecord
from assay.clock import Clock, iso
from assay.engines.base import FollowOptions
from assay.engines.notes import note_unused
from assay.engines.slurm.attach import Attached, attach
from assay.engines.slurm.folder import (
    BatchPlan,
    SharedFolder,
    SlurmCampaign,
    folder_of,
    is_on_cluster,
    locate,
    remember_folder,
)
from assay.engines.slurm.plan import USUAL_ARRAY, group
from assay.engines.slurm.registry import resolved
from assay.engines.slurm.scheduler import ClusterFacts, scheduler_for
from assay.engines.slurm.scripts import Making, planned, variables, write_scripts
from assay.errors import UsageError
from assay.exec.machine import surroundings
from assay.monitoring.hold import order_for, write_order
from assay.plan.plan import Plan
from assay.plan.support import refuse_unsupported
from assay.report.live import View
from assay.run.inputs import plan_of
from assay.run.scratch import is_held
from assay.spec.benchmark import Benchmark
from assay.spec.clusters import Slurm
from assay.spec.load import Loaded
from assay.spec.monitoring import monitoring_of
from assay.store.store import Store

ENGINE = "slurm"


def run_on_cluster(
    loaded: Loaded,
    store: Store,
    view: View,
    clock: Clock,
    *,
    fresh: bool = False,
    lock: str | None = None,
    control: bool = True,
    manner: FollowOptions | None = None,
) -> CampaignRecord:
    """Submit a benchmark to Slurm, follow it to its end and return its results.

    A campaign of the same plan that nobody follows any more is gone on with instead, unless `fresh`.

    Args:
        lock: what jobs do about a device on which somebody else measures.

    Raises:
        SpecError: if the benchmark is wrong.
        MeasureError: if Slurm refuses it or does not answer.
    """
    benchmark = loaded.benchmark
    refuse_unsupported(benchmark, (ENGINE,))
    slurm = resolved(benchmark.place.slurm)
    plan = plan_of(loaded)
    if not fresh and (going := _unfollowed(store, plan.digest)) is not None:
        view.note(f"campaign {going} of the same plan goes on in Slurm; following it (--fresh submits anew)")
        return attach(store, going, view, clock, manner)
    scheduler = scheduler_for(slurm)
    facts = scheduler.check()
    shared = locate(slurm.folder, store.folder)
    making = _making(benchmark, plan, slurm, facts, loaded.base, variables(lock, control=control))
    batches = planned(making)  # what is wrong with it is said before anything is kept
    if (clients := slurm.client_count or 1) > 1 and all(job.definition.load.hosts == 1 for job in plan.jobs):
        raise _no_parts(clients)
    plan = store.create_campaign(plan, loaded.source.document, benchmark.labels, surroundings(), clock, ENGINE)
    campaign = plan.jobs[0].campaign
    making = replace(making, campaign=campaign, folder=SharedFolder(shared / campaign))
    try:
        _write(making, plan, benchmark, batches, clock, store)
    except BaseException:
        store.end_campaign(campaign, "failed", clock)
        raise
    runs = sum(job.definition.measure.runs for job in plan.jobs)
    note = f"on {facts.name or 'Slurm'} (Slurm {facts.version}), shared folder {making.folder.path}"
    view.campaign(campaign, len(plan.jobs), runs, note)
    note_unused(benchmark, view, "a run on Slurm")
    return Attached(store, making.folder, view, clock, scheduler, manner or FollowOptions()).run()


def _unfollowed(store: Store, digest: str) -> str | None:
    """The newest campaign of a plan that Slurm still has and that no process follows."""
    for campaign in store.unfinished(digest, ENGINE):
        if is_on_cluster(store.folder, campaign):
            folder = folder_of(store.folder, campaign)
            if folder.campaign.is_file() and not is_held(folder.path):
                return campaign
    return None


def _making(
    benchmark: Benchmark, plan: Plan, slurm: Slurm, facts: ClusterFacts, base: Path, env: dict[str, str]
) -> Making:
    asked = _asked(benchmark, slurm)
    most = min(USUAL_ARRAY, facts.max_array - 1) if facts.max_array else USUAL_ARRAY
    groups = group(plan.jobs, asked, most=max(1, most))
    return Making(
        "", SharedFolder(Path()), slurm, groups, monitoring_of(benchmark.monitoring) is not None, base, facts, env
    )


def _asked(benchmark: Benchmark, slurm: Slurm) -> Benchmark:
    """The benchmark with what the cluster's own settings add to its section."""
    return benchmark.model_copy(update={"place": benchmark.place.model_copy(update={"slurm": slurm})})


def _write(
    making: Making, plan: Plan, benchmark: Benchmark, batches: tuple[BatchPlan, ...], clock: Clock, store: Store
) -> None:
    """Write everything down that the nodes and later processes need, before anything is submitted."""
    folder = making.folder
    folder.make()
    remember_folder(store.folder, making.campaign, folder)
    for job in plan.jobs:
        folder.write_job(job)
    order = order_for(making.campaign, _asked(benchmark, making.slurm))
    if order is not None:
        write_order(folder.metrics, order)
    write_scripts(making, batches)
    folder.write_campaign(
        SlurmCampaign(
            making.campaign, plan.benchmark, iso(clock.utc()), making.slurm, making.groups, batches, order is not None
        )
    )


def _no_parts(clients: int) -> UsageError:
    return UsageError(
        f"place.slurm.clients is {clients}, and the load has one part",
        code="slurm-option",
        at="place.slurm.clients",
        try_=f"set load.hosts: {clients} in the file itself: the settings of a cluster by name cannot split a load",
    )
