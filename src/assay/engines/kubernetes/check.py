"""Whether a Kubernetes cluster can be used from here: it answers, lets this account in, and runs a small pod."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from assay.engines.kubernetes.client.api import NEEDED, WANTED, Document, Version, name_of
from assay.engines.kubernetes.client.client import Client, connect
from assay.engines.kubernetes.objects.names import Part, job_name
from assay.engines.kubernetes.objects.plan import pod_resources
from assay.engines.kubernetes.objects.pods import CONTAINER, QUEUE, container, own_mounts, pod_metadata, pod_spec
from assay.engines.kubernetes.observation import Observation, observe
from assay.engines.kubernetes.phases import failure_of, phase_of, waiting_words
from assay.engines.kubernetes.pod_logs import lines_of
from assay.engines.kubernetes.submission import take_out
from assay.errors import AssayError, MeasureError
from assay.spec.benchmark import Needs
from assay.spec.kubernetes import Kubernetes

_POD_S, _POLL_S = 300.0, 0.5
_ANSWER = "@check "
# Asked of the Python in the image: what it is, and whether it has what pods run.
_PROBE = """\
import json, os, platform, sys
found = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
try:
    import assay
    found["assay"] = assay.__version__
except Exception as problem:
    found["assay"] = "missing: " + str(problem)
print("@check " + json.dumps(found), flush=True)
"""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node offers; the empty text means unknown."""

    name: str
    ready: bool
    cpus: str
    memory: str
    devices: Mapping[str, str]
    """Further resources, such as GPUs → how many."""
    taints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KubernetesCheck:
    """What was found out about a cluster."""

    version: str
    address: str
    namespace: str
    nodes: tuple[NodeFacts, ...] | None
    """None where this account may not see them, which nothing needs."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Right that this account does not have → what cannot be done without it."""
    pod: Mapping[str, str] = field(default_factory=dict)
    """What a small pod reported; empty where none was run."""
    problems: tuple[str, ...] = ()


def check(section: Kubernetes, *, with_pod: bool = False) -> KubernetesCheck:
    """Look whether a cluster can be used."""
    api = connect(section)
    version = api.version()
    held = api.may((*NEEDED, *WANTED))
    forbidden = [f"{right.verb} {right.resource}" for right in NEEDED if not held[right]]
    lacking = {f"{right.verb} {right.resource}": use for right, use in WANTED.items() if not held[right]}
    problems = []
    if forbidden:
        problems.append(
            f"this account may not {', '.join(forbidden)} in the namespace {api.namespace}; "
            "deploy/kubernetes/role.yaml is the Role that it needs"
        )
    pod: dict[str, str] = {}
    if with_pod and not problems:
        try:
            pod = _probed_pod(section, api, version)
        except AssayError as problem:
            problems.append(f"{problem.problem.message}; {problem.problem.try_}".rstrip("; "))
        problems += [f"assay in the image is {pod['assay']}"] if "missing" in pod.get("assay", "") else []
    return KubernetesCheck(str(version), api.address, api.namespace, _nodes(api), lacking, pod, tuple(problems))


def _nodes(api: Client) -> tuple[NodeFacts, ...] | None:
    try:
        return tuple(map(_node, api.list("Node").items))
    except MeasureError:  # they belong to the whole cluster, which most accounts do not see
        return None


def _node(document: Document) -> NodeFacts:
    status: Mapping[str, Any] = document.get("status") or {}
    room: Mapping[str, str] = status.get("allocatable") or {}
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    taints = [
        f"{taint.get('key')}{'=' + taint['value'] if taint.get('value') else ''}:{taint.get('effect')}"
        for taint in (document.get("spec") or {}).get("taints") or ()
    ]
    devices = {name: str(count) for name, count in room.items() if "/" in name}
    return NodeFacts(name_of(document), ready, room.get("cpu", ""), room.get("memory", ""), devices, tuple(taints))


def _probed_pod(section: Kubernetes, api: Client, version: Version) -> dict[str, str]:
    """What a pod says that is made like those of jobs, and runs a few lines of Python."""
    campaign = f"check-{time.time_ns():x}"
    made = trial(section, campaign, version)
    api.create(made)
    try:
        name = _awaited(api, campaign, section)
        for line in lines_of(api.logs(name, CONTAINER)):
            if line.startswith(_ANSWER):
                return {key: str(value) for key, value in json.loads(line.removeprefix(_ANSWER)).items()}
        remedy = f"does the image have {section.python}? place.kubernetes.python names another"
        raise MeasureError(f"the pod {name} ended and did not answer", code="kubernetes-failed", try_=remedy)
    finally:
        take_out(api, campaign)


def trial(section: Kubernetes, campaign: str, version: Version) -> dict[str, Any]:
    """The Job of a small pod with the image and the options of a section."""
    part = Part(campaign, "job", "check", 0, 1)
    resources = pod_resources(section, Needs())
    mounts = own_mounts(section)
    box = container(
        CONTAINER,
        section.image or "",
        section,
        words=(section.python, "-c", _PROBE),
        resources=resources,
        mounts=mounts,
    )
    spec = {**pod_spec(section, resources, [box], mounts, version, apart=False), "restartPolicy": "Never"}
    queue = {QUEUE: section.queue} if section.queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job_name(campaign, 0), "labels": {**part.labels(), **queue}},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": pod_metadata(section, part.labels(), measures=False), "spec": spec},
        },
    }


def _awaited(api: Client, campaign: str, section: Kubernetes) -> str:
    """Wait until the pod has ended, and return its name."""
    until_s = time.monotonic() + _POD_S
    while True:
        state = _seen(api, campaign, section)
        reason = failure_of(
            state, datetime.now(UTC), free_since=datetime.min.replace(tzinfo=UTC), patience_s=_POD_S / 10
        )
        if reason is not None:
            raise MeasureError(reason.message, code=reason.code, try_=reason.try_)
        if phase_of(state) == "ended" and state.pods:
            return state.pods[0].name
        if time.monotonic() > until_s:
            message = f"the pod did not end within {_POD_S:g} s: {waiting_words(state)}"
            raise MeasureError(message, code="kubernetes-waiting", try_="look at it with kubectl describe pod")
        time.sleep(_POLL_S)


def _seen(api: Client, campaign: str, section: Kubernetes) -> Observation:
    name = job_name(campaign, 0)
    pods = api.list("Pod", Part(campaign, "job", "check", 0, 1).selector()).items
    job = api.get("Job", name)
    about = [subject["metadata"]["uid"] for subject in (*pods, *([job] if job else []))]
    events = [event for uid in about for event in api.list("Event", fields=f"involvedObject.uid={uid}").items]
    return observe(name, job, pods, events, pod_resources(section, Needs()))
