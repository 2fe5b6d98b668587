"""A benchmark on Kubernetes: planned and written down here, then handed over and followed as by `attach`."""

from __future__ import annotations

import os
from dataclasses import replace

from assay.analyse.records import CampaignRecord
from assay.clock import Clock, iso
from assay.engines.base import FollowOptions
from assay.engines.kubernetes.attach import Attached, attach
from assay.engines.kubernetes.client.api import Api
from assay.engines.kubernetes.client.kubeconfig import connect
from assay.engines.kubernetes.folder import KubernetesCampaign, PodFolder, folder_of, is_on_kubernetes
from assay.engines.kubernetes.inputs import Packed, content_of, packed, refuse_program
from assay.engines.kubernetes.objects.manifests import MOST_BYTES
from assay.engines.kubernetes.objects.plan import group
from assay.engines.kubernetes.pod.context import SERVER
from assay.engines.notes import note_unused
from assay.errors import UsageError
from assay.exec.machine import surroundings
from assay.plan.plan import Plan
from assay.plan.support import refuse_unsupported
from assay.report.live import View
from assay.run.inputs import plan_of
from assay.run.scratch import is_held
from assay.spec.kubernetes import Kubernetes
from assay.spec.load import Loaded
from assay.store.store import Store
from assay.units import show_bytes

ENGINE = "kubernetes"


def run_on_kubernetes(
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
    """Hand a benchmark to Kubernetes, follow it to its end and return its results.

    A campaign of the same plan that nobody follows any more is gone on with instead, unless `fresh`.

    Args:
        lock: what jobs do about a device on which somebody else measures.

    Raises:
        SpecError: if the benchmark is wrong.
        UsageError: if it cannot run on Kubernetes as it is, or nothing says where the cluster is.
        MeasureError: if Kubernetes refuses it or does not answer.
    """
    benchmark = loaded.benchmark
    refuse_unsupported(benchmark, (ENGINE,))
    section = benchmark.place.kubernetes or Kubernetes()
    plan = plan_of(loaded)
    if not fresh and (going := _unfollowed(store, plan.digest)) is not None:
        view.note(f"campaign {going} of the same plan goes on in Kubernetes; following it (--fresh submits anew)")
        return attach(store, going, view, clock, manner)
    groups = group(plan.jobs, benchmark)  # what is wrong with it is said before anything is kept
    for job in plan.jobs:
        refuse_program(job)
    sent = packed(plan.jobs, loaded.base, apart=section.services == "deployments")
    _refuse_large(sent)
    api = connect(section)
    version = api.version()
    plan = store.create_campaign(plan, loaded.source.document, benchmark.labels, surroundings(), clock, ENGINE)
    campaign = plan.jobs[0].campaign
    document = KubernetesCampaign(
        campaign,
        plan.benchmark,
        iso(clock.utc()),
        section,
        groups,
        api.namespace,
        api.address,
        version,
        variables(section, lock, control=control),
    )
    try:
        folder = _write(document, plan, sent, store)
    except BaseException:
        store.end_campaign(campaign, "failed", clock)
        raise
    runs = sum(job.definition.measure.runs for job in plan.jobs)
    view.campaign(campaign, len(plan.jobs), runs, _where(api, document))
    note_unused(benchmark, view, "a run on Kubernetes")
    return Attached(store, folder, view, clock, api, manner or FollowOptions()).run()


def variables(section: Kubernetes, lock: str | None, *, control: bool) -> dict[str, str]:
    """What the pods must know of how `assay run` was called."""
    found = {name: text for name in ("ASSAY_LOCK", "ASSAY_CONTROL") if (text := os.environ.get(name))}
    found |= {"ASSAY_LOCK": lock} if lock else {}
    found |= {} if control else {"ASSAY_CONTROL": "off"}
    return found | ({SERVER: section.server} if section.results == "server" and section.server else {})


def _unfollowed(store: Store, digest: str) -> str | None:
    """The newest campaign of a plan that Kubernetes still has and that no process follows."""
    for campaign in store.unfinished(digest, ENGINE):
        if is_on_kubernetes(store.folder, campaign) and not is_held(folder_of(store.folder, campaign).path):
            return campaign
    return None


def _write(document: KubernetesCampaign, plan: Plan, sent: Packed, store: Store) -> PodFolder:
    """Write everything down that later processes need, before anything is handed over."""
    folder = folder_of(store.folder, document.campaign)
    for digest, path in sent.files.items():
        folder.keep_file(digest, content_of(path))
    for job, known in zip(sent.jobs, plan.jobs, strict=True):
        folder.write_job(replace(job, campaign=known.campaign))
    folder.write_campaign(document)
    return folder


def _refuse_large(sent: Packed) -> None:
    size = sum(path.stat().st_size for path in sent.files.values())
    if size > MOST_BYTES:
        largest = max(sent.files.values(), key=lambda path: path.stat().st_size)
        raise UsageError(
            f"the files of the benchmark have {show_bytes(size)}; Kubernetes carries at most {show_bytes(MOST_BYTES)}",
            code="kubernetes-files",
            at=str(largest),
            try_="put them into the image, name a volume under place.kubernetes.volumes, or name URLs",
        )


def _where(api: Api, document: KubernetesCampaign) -> str:
    return f"on Kubernetes {document.version} at {api.address}, namespace {document.namespace}"
