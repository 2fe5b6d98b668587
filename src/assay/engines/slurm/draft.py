"""A benchmark for Slurm: checked against the cluster, then written down with its batch scripts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from assay.clock import Clock, iso
from assay.engines.base import RunOptions
from assay.engines.ledger import StoreLedger, new_campaign
from assay.engines.slurm.clusters import resolved
from assay.engines.slurm.engine import SlurmEngine
from assay.engines.slurm.folder import BatchPlan, SharedFolder, SlurmCampaign, locate, remember_folder
from assay.engines.slurm.plan import USUAL_ARRAY, group
from assay.engines.slurm.scheduler import ClusterFacts, Scheduler, scheduler_for
from assay.engines.slurm.scripts import ScriptContext, plan_batches, variables, write_scripts
from assay.errors import UsageError
from assay.monitoring.scraper import order_for, write_order
from assay.plan.plan import Plan, refuse_unsupported
from assay.report.live import View
from assay.spec.benchmark import Benchmark
from assay.spec.load import Loaded
from assay.spec.monitoring import monitoring_of
from assay.spec.slurm import Slurm
from assay.store.store import Store


@dataclass(frozen=True, slots=True)
class SlurmDraft:
    """A campaign that the cluster can take."""

    benchmark: Benchmark
    """With what the cluster's own settings add to its section."""
    making: ScriptContext
    batches: tuple[BatchPlan, ...]
    scheduler: Scheduler
    shared: Path
    """The folder of all campaigns."""
    loaded: Loaded
    plan: Plan
    store: Store

    def begin(self, view: View, clock: Clock) -> SlurmEngine:
        """Write everything down that the nodes and later processes need.

        Raises:
            StoreError: if the store or the shared folder cannot be written.
        """
        with new_campaign(self.store, self.loaded, self.plan, SlurmEngine.NAME, clock) as plan:
            return self._written(plan, view, clock)

    def _written(self, plan: Plan, view: View, clock: Clock) -> SlurmEngine:
        campaign = plan.jobs[0].campaign
        making = replace(self.making, campaign=campaign, folder=SharedFolder(self.shared / campaign))
        folder = making.folder
        folder.make()
        remember_folder(self.store.folder, campaign, folder)
        for job in plan.jobs:
            folder.write_job(job)
        order = order_for(campaign, self.benchmark)
        if order is not None:
            write_order(folder.metrics, order)
        write_scripts(making, self.batches)
        document = SlurmCampaign(
            campaign, plan.benchmark, iso(clock.utc()), making.slurm, making.groups, self.batches, order is not None
        )
        folder.write_campaign(document)
        facts = making.facts
        where = f"on {facts.name or 'Slurm'} (Slurm {facts.version}), shared folder {folder.path}"
        ledger = StoreLedger(self.store, campaign, clock, folder, folder, new=plan)
        return SlurmEngine(ledger, folder, document, self.scheduler, clock, view.note, where)


def draft(loaded: Loaded, plan: Plan, store: Store, options: RunOptions) -> SlurmDraft:
    """See whether Slurm can take a plan.

    Raises:
        UsageError: if the file asks for what Slurm cannot do.
        MeasureError: if Slurm does not answer.
    """
    refuse_unsupported(loaded.benchmark, (SlurmEngine.NAME,))
    slurm = resolved(loaded.benchmark.place.slurm)
    place = loaded.benchmark.place.model_copy(update={"slurm": slurm})
    benchmark = loaded.benchmark.model_copy(update={"place": place})
    scheduler = scheduler_for(slurm)
    facts = scheduler.check()
    shared = locate(slurm.folder, store.folder)
    env = variables(options.lock, control=options.control)
    making = _making(benchmark, plan, slurm, facts, loaded.base, env)
    batches = plan_batches(making)
    if (clients := slurm.client_count or 1) > 1 and all(job.definition.load.hosts == 1 for job in plan.jobs):
        raise UsageError(
            f"place.slurm.clients is {clients}, and the load has one part",
            code="slurm-option",
            at="place.slurm.clients",
            try_=f"set load.hosts: {clients} in the file itself: the settings of a cluster by name cannot split a load",
        )
    return SlurmDraft(benchmark, making, batches, scheduler, shared, loaded, plan, store)


def _making(
    benchmark: Benchmark, plan: Plan, slurm: Slurm, facts: ClusterFacts, base: Path, env: dict[str, str]
) -> ScriptContext:
    most = min(USUAL_ARRAY, facts.max_array - 1) if facts.max_array else USUAL_ARRAY
    groups = group(plan.jobs, benchmark, most=max(1, most))
    monitored = monitoring_of(benchmark.monitoring) is not None
    return ScriptContext("", SharedFolder(Path()), slurm, groups, monitored, base, facts, env)
