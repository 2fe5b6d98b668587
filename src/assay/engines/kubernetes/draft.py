"""A benchmark for Kubernetes: checked, then written down with the files that go along.

Pods get jobs with the content of the files that they name, and nothing of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.clock import Clock, iso
from assay.engines.base import RunOptions
from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.client.client import Client, connect
from assay.engines.kubernetes.engine import KubernetesEngine
from assay.engines.kubernetes.folder import KubernetesCampaign, folder_of
from assay.engines.kubernetes.objects.manifests import MOST_BYTES
from assay.engines.kubernetes.objects.plan import Group, group
from assay.engines.kubernetes.pod.context import SERVER
from assay.engines.ledger import StoreLedger, new_campaign
from assay.errors import UsageError
from assay.hardware.environment import git_state
from assay.plan.job import Job, JobFile
from assay.plan.plan import Plan, refuse_unsupported
from assay.report.live import View
from assay.run.inputs import LocalPart, files_of
from assay.run.job_files import local_paths, place_files
from assay.run.models.sources import existing, hub_name
from assay.spec.kubernetes import Kubernetes
from assay.spec.load import Loaded
from assay.spec.paths import service_programs
from assay.spec.target import CommandTarget
from assay.store.store import Store
from assay.units import show_bytes


@dataclass(frozen=True, slots=True)
class PackedJobs:
    """Jobs that can be measured anywhere, and the files that must go with them."""

    jobs: tuple[Job, ...]
    files: Mapping[str, Path]
    """SHA-256 → where the file lies here."""


def packed(jobs: Sequence[Job], base: Path, *, apart: bool = True) -> PackedJobs:
    """Make jobs fit to leave this machine."""
    git = git_state(base) or {}
    paths: dict[str, Path] = {}
    made = []
    for job in jobs:
        parts = files_of(job.definition, base)
        if apart:
            # Leave out what a service starts by its whole path, such as `/bin/sh`: it means the one of its image
            starts = {program.words[0] for program in service_programs(job.definition) if program.words}
            data = {*local_paths(job.definition)}
            of_image = {word for word in starts - data if Path(word).is_absolute()}
            parts = {text: several for text, several in parts.items() if text not in of_image}
            _refuse_scripts(job, parts)
        for name in local_paths(job.definition):
            if name not in parts and name != hub_name(job.definition.target):
                existing(name, base)  # says what is wrong with it, and what may have been meant
        paths |= {part.sha256: part.path for several in parts.values() for part in several}
        described = {text: tuple(map(_described, several)) for text, several in parts.items()}
        packed = replace(job, files=described, git=git, base=".")
        place_files(packed)  # bad names are refused before anything is submitted
        made.append(packed)
    return PackedJobs(tuple(made), paths)


def _refuse_scripts(job: Job, parts: Mapping[str, tuple[LocalPart, ...]]) -> None:
    """Refuse a service whose command names a file of this machine: its pod has what its image has."""
    data = {*local_paths(job.definition)}
    for program in service_programs(job.definition):
        for word in program.words:
            if word in parts and word not in data:
                message = f"the command of a service names {word!r}, a file of this machine that its pod does not have"
                remedy = "put it into the image of the service, or set place.kubernetes.services: pod"
                raise UsageError(message, code="kubernetes-option", at=program.at, try_=remedy)


def content_of(path: Path) -> bytes:
    """The content of a file that goes along."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"cannot read a file of the benchmark: {problem.strerror}", code="no-file", at=str(path)
        ) from None


def _described(part: LocalPart) -> JobFile:
    return JobFile(part.name, part.sha256, part.size_bytes)


def refuse_program(job: Job) -> None:
    """Refuse a program in an image that a pod could not start: it runs once for each run, not by another program."""
    target = job.definition.target
    if not isinstance(target, CommandTarget) or not target.is_boxed:
        return
    if target.container != "auto":
        message = f"target.container is {target.container}, and in a pod Kubernetes itself runs the image"
        raise UsageError(message, code="kubernetes-option", at="target.container", try_="remove it")
    if target.command is None:
        raise UsageError(
            f"the image {target.image} is to run its own command, which cannot be started again for each run in a pod",
            code="kubernetes-option",
            at="target.command",
            try_="write the command of the image into target.command: `docker inspect` shows Entrypoint and Cmd",
        )


@dataclass(frozen=True, slots=True)
class KubernetesDraft:
    """A campaign that the cluster can take."""

    section: Kubernetes
    groups: tuple[Group, ...]
    packed: PackedJobs
    api: Client
    version: Version
    env: dict[str, str]
    loaded: Loaded
    plan: Plan
    store: Store

    def begin(self, view: View, clock: Clock) -> KubernetesEngine:
        """Write everything down that later processes need."""
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
    """See whether Kubernetes can take a plan."""
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
