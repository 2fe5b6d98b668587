"""A benchmark for Kubernetes: checked, then written down with the files that go along."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from assay.clock import Clock, iso
from assay.engines.base import RunOptions
from assay.engines.kubernetes.client.api import Api, Version
from assay.engines.kubernetes.client.client import connect
from assay.engines.kubernetes.engine import KubernetesEngine
from assay.engines.kubernetes.folder import KubernetesCampaign, folder_of
from assay.engines.kubernetes.inputs import PackedJobs, content_of, packed, refuse_program
from assay.engines.kubernetes.objects.manifests import MOST_BYTES
from assay.engines.kubernetes.objects.plan import Group, group
from assay.engines.kubernetes.pod.context import SERVER
from assay.engines.ledger import StoreLedger, new_campaign
from assay.errors import UsageError
from assay.plan.plan import Plan, refuse_unsupported
from assay.report.live import View
from assay.spec.kubernetes import Kubernetes
from assay.spec.load import Loaded
from assay.store.store import Store
from assay.units import show_bytes


@dataclass(frozen=True, slots=True)
class KubernetesDraft:
    """A campaign that the cluster can take."""

    section: Kubernetes
    groups: tuple[Group, ...]
    packed: PackedJobs
    api: Api
    version: Version
    env: dict[str, str]
    loaded: Loaded
    plan: Plan
    store: Store

    def begin(self, view: View, clock: Clock) -> KubernetesEngine:
        """Write everything down that later processes need.

        Raises:
            StoreError: if the store cannot be written.
        """
        with new_campaign(self.store, self.loaded, self.plan, KubernetesEngine.NAME, clock) as plan:
            api, campaign = self.api, plan.jobs[0].campaign
            document = KubernetesCampaign(
                campaign,
                plan.benchmark,
                iso(clock.utc()),
                self.section,
                self.groups,
                api.namespace,
                api.address,
                self.version,
                self.env,
            )
            folder = folder_of(self.store.folder, campaign)
            for digest, path in self.packed.files.items():
                folder.keep_file(digest, content_of(path))
            for job, planned in zip(self.packed.jobs, plan.jobs, strict=True):
                folder.write_job(replace(job, campaign=planned.campaign))
            folder.write_campaign(document)
            where = f"on Kubernetes {self.version} at {api.address}, namespace {api.namespace}"
            ledger = StoreLedger(self.store, campaign, clock, folder, folder, new=plan)
            return KubernetesEngine(ledger, folder, document, api, clock, view.note, where)


def draft(loaded: Loaded, plan: Plan, store: Store, options: RunOptions) -> KubernetesDraft:
    """See whether Kubernetes can take a plan.

    Raises:
        UsageError: if the file asks for what Kubernetes cannot do, or nothing says where the cluster is.
        MeasureError: if Kubernetes does not answer.
    """
    refuse_unsupported(loaded.benchmark, (KubernetesEngine.NAME,))
    section = loaded.benchmark.place.kubernetes or Kubernetes()
    groups = group(plan.jobs, loaded.benchmark)
    for job in plan.jobs:
        refuse_program(job)
    sent = packed(plan.jobs, loaded.base, apart=section.services == "deployments")
    size = sum(path.stat().st_size for path in sent.files.values())
    if size > MOST_BYTES:
        largest = max(sent.files.values(), key=lambda path: path.stat().st_size)
        raise UsageError(
            f"the files of the benchmark have {show_bytes(size)}; Kubernetes carries at most {show_bytes(MOST_BYTES)}",
            code="kubernetes-files",
            at=str(largest),
            try_="put them into the image, name a volume under place.kubernetes.volumes, or name URLs",
        )
    api = connect(section)
    return KubernetesDraft(section, groups, sent, api, api.version(), variables(section, options), loaded, plan, store)


def variables(section: Kubernetes, options: RunOptions) -> dict[str, str]:
    """What the pods must know of how `assay run` was called."""
    variables = {name: text for name in ("ASSAY_LOCK", "ASSAY_CONTROL") if (text := os.environ.get(name))}
    variables |= {"ASSAY_LOCK": options.lock} if options.lock else {}
    variables |= {} if options.control else {"ASSAY_CONTROL": "off"}
    return variables | ({SERVER: section.server} if section.results == "server" and section.server else {})
