"""The objects of a campaign as Kubernetes takes them: Jobs and what their pods mount. Pure.

Fields that came later than 1.20 are written only for servers that know them: an older one would drop them silently.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.documents import to_json
from assay.engines.kubernetes.client.api import Document, name_of, uid_of
from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.names import Part
from assay.engines.kubernetes.objects.plan import Group, resources_of, shipped
from assay.engines.kubernetes.objects.pods import (
    CONTAINER,
    DOCUMENT,
    FILES,
    INDEXED_SINCE,
    PROGRAM,
    QUEUE,
    WORK,
    Member,
    Mounted,
    Object,
    Setting,
    container,
    field_variable,
    members_of,
    own_mounts,
    plain_variables,
    pod_metadata,
    pod_spec,
    rank_variables,
    ranks_document,
    secret_variables,
    whole_seconds,
)
from assay.errors import UsageError
from assay.plan.job import Job
from assay.spec.target import CommandTarget
from assay.units import show_bytes

TASK = "assay.engines.kubernetes.pod.task"
# For people who look at a Job, and to be sure that it is the one that was meant.
DIGEST, BENCHMARK = "assay/digest", "assay/benchmark"
# A ConfigMap may hold 1 MiB in all; a file is cut into parts of this size.
PART_BYTES = 700_000
# More than this does not belong into the database of a cluster.
MOST_BYTES = 32 * 2**20
# The minor version since which the server itself knows a field, without a switch.
TTL, FAILURE_POLICY, REPLACEMENT = 21, 26, 29


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """One attempt at a job."""

    group: Group
    job: Job
    attempt: int = 1
    files: tuple[str, ...] = ()
    """Names of the ConfigMaps with its files."""

    @property
    def part(self) -> Part:
        return Part(self.job.campaign, "job", self.group.name, self.job.index, self.attempt)


def job_objects(setting: Setting, submission: JobSubmission) -> tuple[Object, ...]:
    """The Job of one attempt; several where its pods go together and the server knows no Indexed Jobs."""
    members = members_of(setting, submission.group, submission.job, submission.attempt)
    if submission.group.kind != "ranks":
        (member,) = (each for each in members if each.index == submission.job.index)
        return (_job(setting, submission, member),)
    if setting.version.has(INDEXED_SINCE):
        return (_job(setting, submission, members[0], completions=len(members)),)
    return tuple(_job(setting, submission, member) for member in members)


def document(
    setting: Setting,
    submission: JobSubmission,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
    also: Mapping[str, str] | None = None,
) -> Object:
    """The ConfigMap with what a job's pods read: its document, its services, and with whom it goes together."""
    held = {
        "job.json": to_json(shipped(submission.job), indent=2),
        "services.json": json.dumps(hosts if hosts is not None else addresses(setting, submission.group), indent=2),
        **(also or {}),
    }
    if submission.group.meets:
        held |= ranks_document(setting, submission.group, submission.job, submission.attempt)
    size = sum(len(text.encode()) for text in held.values())
    if size > PART_BYTES:
        message = f"the document of job {submission.job.index} has {show_bytes(size)}, more than Kubernetes takes"
        raise UsageError(message, code="kubernetes-document", try_="put long texts into files")
    part = Part(submission.job.campaign, "files", submission.group.name, submission.job.index, submission.attempt)
    return _object(
        "v1",
        "ConfigMap",
        names.document_name(submission.job.campaign, submission.job.index, submission.attempt),
        part.labels(),
        data=held,
    )


def file_objects(setting: Setting, contents: Mapping[str, bytes]) -> dict[str, tuple[Object, ...]]:
    """The ConfigMaps with the files of a campaign, by the SHA-256 of each; jobs share them.

    A part of a file is called `SHA256.NUMBER`, numbers from 0 on; all parts together are the file.
    """
    size = sum(len(content) for content in contents.values())
    if size > MOST_BYTES:
        raise UsageError(
            f"the files of the benchmark have {show_bytes(size)}; Kubernetes carries at most {show_bytes(MOST_BYTES)}",
            code="kubernetes-files",
            try_="put them into the image, name a volume under place.kubernetes.volumes, or name URLs",
        )
    return {digest: tuple(_file(setting, digest, content)) for digest, content in contents.items()}


def _file(setting: Setting, digest: str, content: bytes) -> list[Object]:
    labels = Part(setting.campaign, "files").labels()
    cuts = range(0, max(1, len(content)), PART_BYTES)
    return [
        _object(
            "v1",
            "ConfigMap",
            names.file_name(setting.campaign, digest, number),
            labels,
            binaryData={f"{digest}.{number}": base64.b64encode(content[begin : begin + PART_BYTES]).decode()},
        )
        for number, begin in enumerate(cuts)
    ]


def secret(setting: Setting, values: Mapping[str, str]) -> Object:
    """The Secret with what a campaign takes from the environment of the process that submits it.

    Args:
        values: variable there → its value; never shown, logged or kept anywhere else.
    """
    labels = Part(setting.campaign, "secrets").labels()
    held = {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}
    return _object("v1", "Secret", names.secrets_name(setting.campaign), labels, type="Opaque", data=held)


def addresses(setting: Setting, group: Group) -> dict[str, dict[str, Any]]:
    """Where the services of a group are reached, by their names."""
    return {
        service.name: {"host": setting.host(group, service.name), "port": service.port} for service in group.services
    }


def owner_reference(owner: Document) -> Object:
    """How an object names its owner; `kubectl delete` of the owner does not wait for it."""
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name_of(owner), "uid": uid_of(owner)}


def _job(setting: Setting, submission: JobSubmission, member: Member, completions: int = 0) -> Object:
    """A Job: one pod, or as many as must be there together; never a second try at one of them."""
    indexed = completions > 0
    rank = member.rank if submission.group.kind == "ranks" and not indexed else None
    part = Part(
        submission.job.campaign, "job", submission.group.name, submission.job.index, submission.attempt, rank=rank
    )
    count = completions or 1
    spec: Object = {
        "backoffLimit": 0,
        "completions": count,
        "parallelism": count,
        "template": {
            "metadata": pod_metadata(submission.group.pod, part.labels(), measures=True),
            "spec": _pod(setting, submission, member, indexed=indexed),
        },
    }
    spec |= {"completionMode": "Indexed"} if indexed else {}
    spec |= _by_version(setting)
    queue = {QUEUE: setting.section.queue} if setting.section.queue else {}
    name = names.job_name(submission.job.campaign, submission.job.index, submission.attempt, rank)
    made = _object("batch/v1", "Job", name, {**part.labels(), **queue}, spec=spec)
    made["metadata"]["annotations"] = {DIGEST: submission.job.digest, BENCHMARK: submission.job.benchmark}
    return made


def _by_version(setting: Setting) -> Object:
    version = setting.version
    spec: Object = {}
    if version.has(TTL):
        spec["ttlSecondsAfterFinished"] = whole_seconds(setting.section.keep)
    if version.has(FAILURE_POLICY):
        # backoffLimit ends the attempt with the first exit code that is not 0; this also where Kubernetes ends a pod.
        disrupted = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec["podFailurePolicy"] = {"rules": [disrupted]}
    if version.has(REPLACEMENT):
        spec["podReplacementPolicy"] = "Failed"
    return spec


def _pod(setting: Setting, submission: JobSubmission, member: Member, *, indexed: bool) -> Object:
    pod, resources = submission.group.pod, resources_of(submission.job, submission.group)
    mounts = [*_mounts(submission), *own_mounts(pod)]
    image = pod.image or setting.section.image or ""
    program = _program(submission.job)
    env = [*secret_variables(pod.secrets, setting.campaign), *_variables(setting, submission, member, indexed=indexed)]
    made = container(
        CONTAINER,
        image,
        pod,
        words=(setting.section.python, "-m", TASK),
        env=env,
        resources=None if program else resources,
        mounts=mounts,
    )
    made["terminationMessagePolicy"] = "File"
    containers = [made]
    if program:
        beside = container(
            PROGRAM,
            program,
            pod,
            words=("/bin/sh", f"{DOCUMENT}/program.sh"),
            env=env,
            resources=resources,
            mounts=mounts,
        )
        containers.append(beside)
    spec = pod_spec(pod, resources, containers, mounts, setting.version, apart=pod.one_per_node is not False)
    spec |= {"restartPolicy": "Never", **({"shareProcessNamespace": True} if program else {})}
    spec |= {"activeDeadlineSeconds": whole_seconds(resources.deadline_s)} if resources.deadline_s is not None else {}
    spec |= member.names(indexed=indexed)
    return spec


def _program(job: Job) -> str:
    """The image in which the measured program runs beside us; empty where it runs in ours."""
    target = job.definition.target
    boxed = isinstance(target, CommandTarget) and target.is_boxed
    return (target.image or "").removeprefix("docker://") if boxed and isinstance(target, CommandTarget) else ""


def _mounts(submission: JobSubmission) -> list[Mounted]:
    held = names.document_name(submission.job.campaign, submission.job.index, submission.attempt)
    mounts = [
        Mounted("job", DOCUMENT, {"configMap": {"name": held}}, read_only=True),
        Mounted("work", WORK, {"emptyDir": {}}),
    ]
    if submission.files:
        sources = [{"configMap": {"name": name}} for name in submission.files]
        mounts.append(Mounted("files", FILES, {"projected": {"sources": sources}}, read_only=True))
    return mounts


def _variables(setting: Setting, submission: JobSubmission, member: Member, *, indexed: bool) -> list[Object]:
    own = {"ASSAY_POD_JOB": DOCUMENT, "ASSAY_POD_WORK": WORK, "PYTHONUNBUFFERED": "1"}
    own |= {"ASSAY_POD_FILES": FILES} if submission.files else {}
    variables = [
        field_variable("ASSAY_POD_NAME", "metadata.name"),
        field_variable("ASSAY_POD_UID", "metadata.uid"),
        field_variable("ASSAY_POD_NODE", "spec.nodeName"),
        field_variable("ASSAY_POD_IP", "status.podIP"),
    ]
    together = rank_variables(setting, submission.group, member, indexed=indexed) if submission.group.meets else []
    return [*variables, *together, *plain_variables({**submission.group.pod.env, **setting.env, **own})]


def _object(version: str, kind: str, name: str, labels: Mapping[str, str], **more: Any) -> Object:  # noqa: ANN401
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, **more}


def file_names(made: Sequence[Document]) -> tuple[str, ...]:
    """The names of ConfigMaps, as a submission wants them."""
    return tuple(name_of(document) for document in made)
