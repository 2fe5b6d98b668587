"""A benchmark for Slurm: checked against the cluster, then written down with its batch scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue, ValidationError

from assay.clock import Clock, iso
from assay.documents import validation_words
from assay.engines.base import RunOptions
from assay.engines.ledger import StoreLedger, new_campaign
from assay.engines.slurm.engine import SlurmEngine
from assay.engines.slurm.folder import BatchPlan, SharedFolder, SlurmCampaign, locate, remember_folder
from assay.engines.slurm.plan import USUAL_ARRAY, group
from assay.engines.slurm.scheduler import Scheduler, scheduler_for
from assay.engines.slurm.scripts import ScriptContext, plan_batches, variables, write_scripts
from assay.errors import UsageError
from assay.files import write_whole
from assay.monitoring.scraper import order_for, write_order
from assay.plan.plan import Plan, refuse_unsupported
from assay.report.live import View
from assay.spec.benchmark import Benchmark, monitoring_of
from assay.spec.load import Loaded
from assay.spec.slurm import Slurm, merged
from assay.spec.source import parse
from assay.store.store import Store

VARIABLE = "ASSAY_CLUSTERS"
_MODE = 0o600


def registry_file() -> Path:
    """The file of the clusters that are known by name."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("assay", appauthor=False)) / "clusters.yaml"


def clusters() -> dict[str, Slurm]:
    """Every cluster that is known by name."""
    return {name: _section(name, section) for name, section in _read().items()}


def cluster(name: str) -> Slurm:
    registry = clusters()
    if name not in registry:
        message = f"no cluster is called {name!r}" + (f" (there is {', '.join(registry)})" if registry else "")
        remedy = f"assay clusters add {name} --set partition=NAME"
        raise UsageError(message, code="no-cluster", at=str(registry_file()), try_=remedy)
    return registry[name]


def resolved(slurm: Slurm | None) -> Slurm:
    """A section with the settings of the cluster that it names, where it is silent."""
    own = slurm or Slurm()
    if own.cluster is None:
        return own
    settings = merged(cluster(own.cluster), own)
    base = cluster(own.cluster).each
    return settings.model_copy(update={"each": {**base, **own.each}}) if base else settings


def add(name: str, section: Mapping[str, JsonValue]) -> Slurm:
    """Write a cluster down; one of the same name is replaced."""
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise UsageError(f"{name!r} is not a valid name for a cluster: letters, digits, _ . and - only", code="name")
    slurm = _section(name, section)
    _write({**_read(), name: dict(section)})
    return slurm


def remove(name: str) -> None:
    """Forget a cluster."""
    cluster(name)
    _write({other: section for other, section in _read().items() if other != name})


def _read() -> dict[str, dict[str, JsonValue]]:
    path = registry_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise UsageError(f"cannot read the clusters: {problem.strerror}", code="no-file", at=str(path)) from None
    document = parse(text, ".yaml", str(path)).document if text.strip() else {}
    wrong = next((name for name, section in document.items() if not isinstance(section, dict | None)), None)
    if wrong is not None:
        raise UsageError(
            f"{wrong} is no section", code="cluster", at=str(path), try_="write the keys of place.slurm under each name"
        )
    return {name: section if isinstance(section, dict) else {} for name, section in document.items()}


def _section(name: str, section: Mapping[str, JsonValue]) -> Slurm:
    at = f"{registry_file()}: {name}"
    try:
        slurm = Slurm.model_validate_json(json.dumps(section))
    except ValidationError as invalid:
        first = invalid.errors()[0]
        place = ".".join(map(str, first["loc"]))
        remedy = "use the keys of place.slurm; `assay schema` lists them"
        raise UsageError(f"{place}: {validation_words(first)}", code="cluster", at=at, try_=remedy) from None
    if slurm.cluster is not None:
        raise UsageError("a cluster cannot name another cluster", code="cluster", at=at, try_="remove the key cluster")
    if slurm.has_open_token:
        raise UsageError("rest_token holds the token itself", code="secret", at=at, try_="write ${env:SLURM_JWT}")
    return slurm


def _write(sections: Mapping[str, Mapping[str, JsonValue]]) -> None:
    path = registry_file()
    lines = []
    for name, section in sections.items():
        lines.append(f"{json.dumps(name)}:" + ("" if section else " {}"))
        # JSON is YAML: no value can be read as something else.
        lines += [f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in section.items()]
    text = "\n".join([*lines, ""])
    try:
        write_whole(path, text.encode(), mode=_MODE)
    except OSError as problem:
        raise UsageError(f"cannot write the clusters: {problem.strerror}", code="no-file", at=str(path)) from None


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
        """Write everything down that the nodes and later processes need."""
        with new_campaign(self.store, self.loaded, self.plan, SlurmEngine.NAME, clock) as plan:
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
    """See whether Slurm can take a plan."""
    refuse_unsupported(loaded.benchmark, (SlurmEngine.NAME,))
    slurm = resolved(loaded.benchmark.place.slurm)
    place = loaded.benchmark.place.model_copy(update={"slurm": slurm})
    benchmark = loaded.benchmark.model_copy(update={"place": place})
    scheduler = scheduler_for(slurm)
    facts = scheduler.check()
    shared = locate(slurm.folder, store.folder)
    env = variables(options.lock, control=options.control)
    most = min(USUAL_ARRAY, facts.max_array - 1) if facts.max_array else USUAL_ARRAY
    groups = group(plan.jobs, benchmark, most=max(1, most))
    monitored = monitoring_of(benchmark.monitoring) is not None
    making = ScriptContext("", SharedFolder(Path()), slurm, groups, monitored, loaded.base, facts, env)
    batches = plan_batches(making)
    if (clients := slurm.client_count or 1) > 1 and all(job.definition.load.hosts == 1 for job in plan.jobs):
        message = f"place.slurm.clients is {clients}, and the load has one part"
        remedy = f"set load.hosts: {clients} in the file itself: the settings of a cluster by name cannot split a load"
        raise UsageError(message, code="slurm-option", at="place.slurm.clients", try_=remedy)
    return SlurmDraft(benchmark, making, batches, scheduler, shared, loaded, plan, store)
