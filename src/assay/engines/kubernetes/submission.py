"""The objects of a campaign made in Kubernetes, and removed: a later process can continue where this one ended.

Objects have names that say what they are, and making one again gives the one that is there. What was made is also
written down: a Job that was made and is gone was deleted on purpose, and is not made a second time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

from pydantic import JsonValue

from assay.engines.kubernetes.client.api import (
    FORBIDDEN,
    SILENT,
    Document,
    Kind,
    metadata,
    name_of,
    uid_of,
)
from assay.engines.kubernetes.client.client import Client
from assay.engines.kubernetes.folder import KubernetesCampaign, PodFolder
from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.manifests import (
    JobSubmission,
    document,
    file_names,
    file_objects,
    job_objects,
    owner_reference,
    secret,
)
from assay.engines.kubernetes.objects.names import of_campaign, part_of, secrets_name, value
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import meeting_service
from assay.engines.kubernetes.objects.services import service_objects
from assay.engines.kubernetes.observation import moment, observe
from assay.engines.kubernetes.phases import lost_node
from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.services.containers.sidecar import WAITING
from assay.spec.kubernetes import Kubernetes, Pod
from assay.spec.references import REFERENCE, resolve_secrets
from assay.spec.target import CommandTarget

_FILES, _SERVICES = "files", "services"
# Makers before what they make, so that nothing is made again.
KINDS: tuple[Kind, ...] = ("Job", "Deployment", "Service", "ConfigMap", "Pod")
# How long pods may take to end once they were asked to.
LEAVING_S = 90.0
# A pod that its node does not end this long after it had to is forced out: the node is lost.
_OVERDUE_S = 10.0
_POLL_S, _TRIES = 0.5, 5


@dataclass(slots=True)
class KubernetesSubmission:
    """What is written down of a campaign's submission."""

    jobs: dict[int, dict[str, str]] = field(default_factory=dict)
    """Index of a job → its Jobs: name → uid."""
    groups: set[str] = field(default_factory=set)
    """Groups whose services were made."""
    files: bool = False
    """Whether the files and secrets of the campaign were made."""


def read_noted(folder: PodFolder) -> KubernetesSubmission:
    """What the lines of a campaign say about its submission."""
    submission = KubernetesSubmission()
    for line in folder.noted():
        event, index = line.get("event"), line.get("job")
        if event == _FILES:
            submission.files = True
        elif event == _SERVICES:
            submission.groups.add(str(line.get("group", "")))
        elif isinstance(index, int) and line.get("name"):
            submission.jobs.setdefault(index, {})[str(line["name"])] = str(line.get("uid", ""))
    return submission


class Submitter:
    """Makes the objects of one campaign, as they are wanted."""

    def __init__(self, folder: PodFolder, campaign: KubernetesCampaign, api: Client, jobs: Mapping[int, Job]) -> None:
        self.folder, self.campaign, self.api, self.jobs = folder, campaign, api, jobs
        self.noted = read_noted(folder)
        self._setting = campaign.setting()

    @cached_property
    def _files(self) -> dict[str, tuple[Document, ...]]:
        """The maps with the files of the campaign, by the content of each."""
        wanted = dict.fromkeys(digest for job in self.jobs.values() for digest in digests_of(job))
        return dict(file_objects(self._setting, {digest: self.folder.read_file(digest) for digest in wanted}))

    def begin(self) -> None:
        """Make what all jobs share: files, and the secrets that go along."""
        if self.noted.files:
            return
        if wanted := secrets_of(self.campaign.section):
            values = {name: resolve_secrets(f"${{env:{name}}}", os.environ) for name in wanted}
            # One that a lost process made is replaced: that way the right to read Secrets is not needed.
            self.api.delete("Secret", names.secrets_name(self.campaign.campaign))
            self.api.create(secret(self._setting, values))
        for several in self._files.values():
            for manifest in several:
                self.api.create(manifest)
        self._note({"event": _FILES})
        self.noted.files = True

    def adopt(self, there: Iterable[Document]) -> None:
        """Write down Jobs that were made, and whose maker was lost before it could do so."""
        for manifest in there:
            part = part_of(manifest)
            if part is None or part.job is None or part.role != "job":
                continue
            if name_of(manifest) not in self.noted.jobs.get(part.job, {}):
                self._note_job(part.job, manifest)

    def is_begun(self, index: int) -> bool:
        """Whether a job was handed to Kubernetes."""
        return bool(self.noted.jobs.get(index))

    def submit(self, group: Group, indexes: Iterable[int]) -> None:
        """Hand jobs of a group to Kubernetes, with the services that they share."""
        # Services come first: where room is scarce, clients would take it and wait for services that cannot start.
        shared = self._shared(group) if group.name not in self.noted.groups else []
        for manifest in shared:
            self.api.create(manifest)
        made: list[Document] = []
        for index in indexes:
            if self.folder.is_cancelled:
                message = f"campaign {self.campaign.campaign} was cancelled while it was submitted"
                raise MeasureError(message, code="cancelled", try_="run it again")
            made += self._submit(group, self.jobs[index])
        for manifest in shared:
            self._own(manifest, made)
        if group.name not in self.noted.groups:
            self._note({"event": _SERVICES, "group": group.name})
            self.noted.groups.add(group.name)

    def _submit(self, group: Group, job: Job) -> list[Document]:
        files = [name for digest in digests_of(job) for name in file_names(self._files[digest])]
        submission = JobSubmission(group, job, files=tuple(dict.fromkeys(files)))
        held = self._document(submission)
        self.api.create(held)
        made = []
        for manifest in job_objects(self._setting, submission):
            there = self.api.create(manifest)
            self._note_job(job.index, there)
            made.append(there)
        self._own(held, made)
        return made

    def _document(self, submission: JobSubmission) -> Document:
        return document(self._setting, submission, also=program_files(submission.job))

    def _shared(self, group: Group) -> list[Document]:
        """What the jobs of a group share: the name under which they meet, and their services."""
        meeting = meeting_service(self._setting, group)
        sections = self.jobs[group.jobs[0]].definition.services
        return [*([] if meeting is None else [meeting]), *service_objects(self._setting, group, sections)]

    def _own(self, document: Document, owners: list[Document]) -> None:
        """Let Kubernetes remove an object with those that use it, even if no process cleans up."""
        if owners:
            references = [owner_reference(owner) for owner in owners]
            kind: Kind = document["kind"]
            self.api.patch(kind, name_of(document), {"metadata": {"ownerReferences": references}})

    def _note_job(self, index: int, document: Document) -> None:
        self._note({"job": index, "name": name_of(document), "uid": uid_of(document)})
        self.noted.jobs.setdefault(index, {})[name_of(document)] = uid_of(document)

    def _note(self, line: dict[str, JsonValue]) -> None:
        self.folder.note({**line, "at": time.time()})


def digests_of(job: Job) -> tuple[str, ...]:
    """The files that a job needs, each once."""
    return tuple(dict.fromkeys(file.sha256 for several in job.files.values() for file in several))


def program_files(job: Job) -> dict[str, str]:
    """Further files for the pod of a job, by name: the lines that wait in the program's own image for its runs."""
    target = job.definition.target
    return {"program.sh": WAITING} if isinstance(target, CommandTarget) and target.is_boxed else {}


def secrets_of(section: Kubernetes) -> tuple[str, ...]:
    """The variables here whose values go along as a Secret of the campaign."""
    pods: list[Pod] = [section, *section.each.values()]
    pods += [section.clients] if isinstance(section.clients, Pod) else []
    names = [match[1] for pod in pods for text in pod.secrets.values() if (match := REFERENCE.fullmatch(text))]
    return tuple(dict.fromkeys(names))


def remove_job(api: Client, own: dict[str, str]) -> None:
    for name, uid in own.items():
        api.delete("Job", name, uid=uid)


def remove_shared(api: Client, campaign: str, group: str) -> None:
    """Remove what the jobs of a group shared: its services, and the name under which its pods met."""
    for kind in ("Deployment", "Service"):
        for manifest in api.list(kind, of_campaign(campaign, group=value(group))).items:
            api.delete(kind, name_of(manifest), uid=uid_of(manifest))


def take_out(api: Client, campaign: str) -> tuple[str, ...]:
    """Remove everything of a campaign and wait until its pods are gone; return what would not go."""
    until_s = time.monotonic() + LEAVING_S
    # Remove the Secret of a campaign by its name: the right to look at those of others is not needed
    try:
        api.delete("Secret", secrets_name(campaign))
    except MeasureError as problem:
        if problem.problem.code != FORBIDDEN:  # who may not remove any has made none
            raise
    while True:
        left: list[str] = []
        for kind in KINDS:
            there = _listed(api, kind, campaign)
            left += [f"{kind} {name_of(manifest)}" for manifest in there]
            _remove(api, kind, there)
        if not left or time.monotonic() >= until_s:
            return tuple(left)
        time.sleep(_POLL_S)


def _remove(api: Client, kind: Kind, there: Iterable[Document]) -> None:
    for manifest in there:
        over = moment(metadata(manifest).get("deletionTimestamp"))
        if over is None:
            api.delete(kind, name_of(manifest), uid=uid_of(manifest))
        elif kind == "Pod" and _nobody_ends(manifest, over):
            api.delete(kind, name_of(manifest), uid=uid_of(manifest), grace_s=0)


def _nobody_ends(pod: Document, over: datetime) -> bool:
    """Whether a pod that should end no longer has a node that would end it."""
    if lost_node(observe("", None, [pod], [])) is not None:
        return True
    return datetime.now(UTC) - over > timedelta(seconds=_OVERDUE_S)


def _listed(api: Client, kind: Kind, campaign: str) -> tuple[Document, ...]:
    """Ask a few times: a server that restarts answers a moment later. Kinds that may not be listed count as empty."""
    for attempt in range(_TRIES):
        try:
            return api.list(kind, of_campaign(campaign)).items
        except MeasureError as problem:
            if problem.problem.code == FORBIDDEN:
                return ()
            if problem.problem.code != SILENT or attempt + 1 == _TRIES:
                raise
            time.sleep(_POLL_S * 2**attempt)
    raise AssertionError("the last try returns or raises")


def tear_down(api: Client, campaign: str) -> str:
    """Remove whatever is left of a campaign; return what will not go in words, empty where nothing is left."""
    try:
        stubborn = take_out(api, campaign)
    except MeasureError as problem:
        return (
            f"objects of campaign {campaign} may be left: {problem.problem.message}; "
            f"`assay campaigns cancel {campaign}` removes them"
        )
    return f"still there: {', '.join(stubborn[:10])}; Kubernetes was asked to remove them" if stubborn else ""
