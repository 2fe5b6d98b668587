"""The pods of a campaign, those that go together, and why the scheduler finds no node for one. Pure.

Clients that share a load are one Job each; the ranks of one command are one Indexed Job, or one Job each where the
server knows none. Either way a headless Service gives every pod a name before it runs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.names import MEASURES, Part, host_of, secrets_name, service_name
from assay.engines.kubernetes.objects.plan import Group, PodResources
from assay.plan.job import Job
from assay.spec.kubernetes import OWN_FOLDER, Distributed, Kubernetes, Pod, Toleration, taint_of
from assay.spec.paths import words
from assay.spec.references import REFERENCE

# `0/3 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate, 2 Insufficient cpu. preemption: …`
_HEAD = re.compile(r"^\s*\d+/\d+ nodes are available:\s*")
_PREEMPTION = re.compile(r"\s*preemption: .*$", re.DOTALL)
# Reasons may hold commas themselves; a new one begins with how many nodes it is about.
_BETWEEN = re.compile(r", (?=\d+ )")
_REASON = re.compile(r"^(?:(?P<count>\d+) )?(?P<text>.*)$", re.DOTALL)
_SHORT = re.compile(r"^Insufficient (\S+?)[.,]?$")
_TAINT = re.compile(r"taint \{([^:}]+):\s*([^}]*)\}")
# Taints that Kubernetes itself sets on a node that is not well, and takes away when it is.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
Outlook = Literal["busy", "unsure", "lasting"]
Object = dict[str, Any]
# Containers of a measuring pod: the one that measures, and the one whose image holds the program that is measured.
CONTAINER, PROGRAM = "job", "program"
SERVICE = "service"
# Where a measuring pod finds its document and its files, and where it may write.
DOCUMENT, FILES, WORK = f"{OWN_FOLDER}/job", f"{OWN_FOLDER}/files", f"{OWN_FOLDER}/work"
# The label by which Kueue knows in which queue something waits.
QUEUE = "kueue.x-k8s.io/queue-name"
_NODE = "kubernetes.io/hostname"
_PULL = {"always": "Always", "missing": "IfNotPresent", "never": "Never"}
# Since this minor version pods can keep apart across namespaces.
_ACROSS = 22
# Where the first pod waits for the others.
MEET_PORT = 7443
# The minor version since which the server knows Indexed Jobs without a switch.
INDEXED_SINCE = 22
HOSTFILE = "hostfile"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_RANK = "$(ASSAY_POD_RANK)"


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why a pod has no node."""

    message: str
    """The scheduler's own words, without what it thought about preemption."""
    reasons: tuple[tuple[int | None, str], ...]
    """How many nodes were refused → why; None where it counts none."""
    outlook: Outlook
    """`busy`: another measuring pod is in the way, which will end. `lasting`: nothing but a change helps.
    `unsure`: nodes are full, or none will ever do; the scheduler does not say which."""
    try_: str


def unplaced(message: str) -> Unplaced:
    """Read the scheduler's words."""
    said = _PREEMPTION.sub("", message).strip()
    reasons = tuple(
        _reason(sentence) for sentence in _BETWEEN.split(_HEAD.sub("", said).rstrip(". ")) if sentence.strip()
    )
    outlooks = [_outlook(text) for _, text in reasons]
    whole: Outlook = "unsure"
    if "busy" in outlooks:
        whole = "busy"
    elif outlooks and all(outlook == "lasting" for outlook in outlooks):
        whole = "lasting"
    hints = dict.fromkeys(hint for _, text in reasons if (hint := _hint(text)))
    return Unplaced(said, reasons, whole, "; ".join(hints) or "look at the nodes: kubectl describe nodes")


def _reason(text: str) -> tuple[int | None, str]:
    match = _REASON.match(text.strip(" ."))
    return (int(match["count"]) if match["count"] else None, match["text"]) if match else (None, text)


def _outlook(text: str) -> Outlook:
    if "anti-affinity" in text:
        return "busy"
    if any(word in text for word in ("selector", "node affinity", "not found", "unbound immediate")):
        return "lasting"
    taint = _TAINT.search(text)
    return "lasting" if taint is not None and not taint[1].startswith(_PASSING) else "unsure"


def _hint(text: str) -> str:
    if short := _SHORT.match(text):
        key = {"cpu": "cpus", "memory": "memory", "ephemeral-storage": "storage"}.get(short[1], "gpus")
        return f"lower needs.{key} or place.kubernetes.{key}, or add nodes with {short[1]}"
    if "anti-affinity" in text:
        return "wait until the other measuring pods have ended, or set place.kubernetes.one_per_node: false"
    if "selector" in text or "node affinity" in text:
        return "change place.kubernetes.node_selector or needs.labels: kubectl get nodes --show-labels"
    if taint := _TAINT.search(text):
        value = f"={taint[2].strip()}" if taint[2].strip() else ""
        return f"add '{taint[1].strip()}{value}' to place.kubernetes.tolerations, if these nodes are meant for it"
    if "persistentvolumeclaim" in text.lower():
        return "see that the claims of place.kubernetes.volumes exist and are bound: kubectl get pvc"
    if "were unschedulable" in text:
        return "the nodes are closed for new pods: kubectl uncordon"
    return ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all objects of a campaign share."""

    campaign: str
    section: Kubernetes
    version: Version
    namespace: str
    env: Mapping[str, str] = field(default_factory=dict)
    """What every pod of a job must know of how `assay run` was called."""

    def host(self, group: Group, service: str) -> str:
        """The name at which a service of a group is reached."""
        return host_of(service_name(self.campaign, group.name, service), self.namespace)


@dataclass(frozen=True, slots=True)
class Mounted:
    """A volume, and where it is seen."""

    name: str
    folder: str
    source: Mapping[str, Any]
    read_only: bool = False

    def volume(self) -> Object:
        return {"name": self.name, **self.source}

    def mount(self) -> Object:
        """Where a container sees it."""
        return {"name": self.name, "mountPath": self.folder, **({"readOnly": True} if self.read_only else {})}


def literal(text: str) -> str:
    """A text that reaches the process as it is: Kubernetes would put variables in place of `$(NAME)`."""
    return text.replace("$", "$$")


def with_secrets(text: str, called: Mapping[str, str]) -> str:
    """The same, but with Kubernetes' own sign for each `${env:NAME}`."""
    pieces, last = [], 0
    for match in REFERENCE.finditer(text):
        pieces += [literal(text[last : match.start()]), f"$({called.get(match[1], match[1])})"]
        last = match.end()
    return "".join((*pieces, literal(text[last:])))


def plain_variables(values: Mapping[str, str]) -> list[Object]:
    """Environment variables with texts as they are."""
    return [{"name": name, "value": literal(text)} for name, text in values.items()]


def secret_variables(secrets: Mapping[str, str], campaign: str) -> list[Object]:
    """Environment variables from Secrets: those that the file names, and the campaign's own."""
    variables = []
    for name, reference in secrets.items():
        secret, _, key = reference.partition("/")
        if copied := REFERENCE.fullmatch(reference):
            secret, key = secrets_name(campaign), copied[1]
        variables.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return variables


def field_variable(name: str, path: str) -> Object:
    """An environment variable with something that only the node knows of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def own_mounts(pod: Pod) -> list[Mounted]:
    """The volumes that a section asks for: shared memory and claims."""
    mounts = []
    if pod.shm is not None:
        size = {} if pod.shm == "unlimited" else {"sizeLimit": str(pod.shm)}
        mounts.append(Mounted("shm", "/dev/shm", {"emptyDir": {"medium": "Memory", **size}}))  # noqa: S108
    for number, (claim, folder) in enumerate(pod.volumes.items()):
        mounts.append(Mounted(f"claim-{number}", folder, {"persistentVolumeClaim": {"claimName": claim}}))
    return mounts


def container(
    name: str,
    image: str,
    pod: Pod,
    *,
    words: Sequence[str] = (),
    env: Sequence[Mapping[str, Any]] = (),
    resources: PodResources | None = None,
    mounts: Sequence[Mounted] = (),
) -> Object:
    """One container.

    Args:
        words: its command, in place of the image's own; texts as they are.
        resources: how much of the node it gets; nothing is requested when left out.
    """
    security = _container_security(pod)
    section = {} if resources is None else resources.section()
    made: Object = {"name": name, "image": image}
    made |= {"imagePullPolicy": _PULL[pod.pull]} if pod.pull else {}
    made |= {"command": [literal(word) for word in words]} if words else {}
    made |= {"env": [dict(variable) for variable in env]} if env else {}
    made |= {"resources": section} if section else {}
    made |= {"volumeMounts": [mount.mount() for mount in mounts]} if mounts else {}
    made |= {"securityContext": security} if security else {}
    return made


def pod_spec(
    pod: Pod,
    resources: PodResources,
    containers: Sequence[Object],
    mounts: Sequence[Mounted],
    version: Version,
    *,
    apart: bool,
) -> Object:
    """The spec of a pod, without what only jobs or only services have."""
    spec: Object = {
        "containers": list(containers),
        # Neither the addresses of every other Service nor a token of the cluster belong in a measured environment.
        "enableServiceLinks": False,
        "automountServiceAccountToken": pod.service_account is not None,
    }
    optional: Object = {
        "volumes": [mount.volume() for mount in mounts],
        "nodeSelector": dict(resources.nodes),
        "tolerations": [_toleration(toleration) for toleration in pod.tolerations],
        "affinity": _keep_apart(pod, version) if apart else None,
        "imagePullSecrets": [{"name": name} for name in pod.pull_secrets],
        "priorityClassName": pod.priority_class,
        "runtimeClassName": pod.runtime_class,
        "schedulerName": pod.scheduler,
        "serviceAccountName": pod.service_account,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        if pod.restricted
        else None,
    }
    return {**spec, **{name: value for name, value in optional.items() if value}}


def pod_metadata(pod: Pod, labels: Mapping[str, str], *, measures: bool) -> Object:
    whole = {**pod.labels, **labels, **({MEASURES: "yes"} if measures else {})}
    return {"labels": whole, **({"annotations": dict(pod.annotations)} if pod.annotations else {})}


def whole_seconds(duration_s: float) -> int:
    """A duration as Kubernetes takes it: seconds without parts, never less than was asked for."""
    return max(1, math.ceil(duration_s))


def _container_security(pod: Pod) -> Object:
    if pod.privileged:
        return {"privileged": True}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}} if pod.restricted else {}


def _keep_apart(pod: Pod, version: Version) -> Object:
    """No two measuring pods on one node, of whichever campaign: they would disturb each other."""
    term: Object = {"labelSelector": {"matchLabels": {MEASURES: "yes"}}, "topologyKey": _NODE}
    if version.has(_ACROSS) and pod.one_per_node != "namespace":
        term["namespaceSelector"] = {}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _toleration(given: Toleration | str) -> Object:
    toleration = taint_of(given) if isinstance(given, str) else given
    entry: Object = {
        "key": toleration.key,
        "operator": "Exists" if toleration.value is None else "Equal",
        "value": toleration.value,
        "effect": toleration.effect,
        "tolerationSeconds": None if toleration.within is None else whole_seconds(toleration.within),
    }
    return {name: value for name, value in entry.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Member:
    """One of the pods that go together."""

    rank: int
    index: int
    """Of its job."""
    host: str = ""
    meeting: str = ""
    """Name of the headless Service."""
    peers: tuple[str, ...] = ()
    """The names at which all of them are reached, in order of rank."""

    def names(self, *, indexed: bool) -> Object:
        """The fields of a pod by which the others find it; an Indexed Job sets the host's name itself."""
        if not self.meeting:
            return {}
        return {**({} if indexed else {"hostname": self.host}), "subdomain": self.meeting}


def members_of(setting: Setting, group: Group, job: Job, attempt: int = 1) -> tuple[Member, ...]:
    """The pods that go together with those of a job, its own among them."""
    if not group.meets:
        return (Member(0, job.index),)
    campaign, meeting = job.campaign, names.meeting_name(job.campaign, group.name)
    if group.kind != "ranks":
        hosts = [(index, names.job_name(campaign, index, attempt)) for index in group.jobs]
    elif setting.version.has(INDEXED_SINCE):
        own = names.job_name(campaign, job.index, attempt)
        hosts = [(job.index, f"{own}-{rank}") for rank in range(group.pods)]
    else:
        hosts = [(job.index, names.job_name(campaign, job.index, attempt, rank)) for rank in range(group.pods)]
    peers = tuple(f"{host}.{names.host_of(meeting, setting.namespace)}" for _, host in hosts)
    return tuple(Member(rank, index, host, meeting, peers) for rank, (index, host) in enumerate(hosts))


def rank_variables(setting: Setting, group: Group, member: Member, *, indexed: bool) -> list[Object]:
    """The environment of a pod that runs together with others; the command finds what torchrun and MPI use."""
    own = field_variable("ASSAY_POD_RANK", _INDEX)
    rank = [own] if indexed else plain_variables({"ASSAY_POD_RANK": str(member.rank)})
    variables = plain_variables({"ASSAY_POD_RANKS": str(len(member.peers)), "ASSAY_POD_PEERS": ",".join(member.peers)})
    if group.kind != "ranks":
        return [*rank, *variables]
    first, port, pods, slots = member.peers[0], str(_around(setting).port), str(group.pods), str(group.slots)
    variables += plain_variables({"ASSAY_POD_SLOTS": slots, "ASSAY_POD_LAUNCH": group.launch})
    variables += plain_variables(
        {
            "MASTER_ADDR": first,
            "MASTER_PORT": port,
            "NNODES": pods,
            "NPROC_PER_NODE": slots,
            "WORLD_SIZE": str(group.pods * group.slots),
            "PET_NNODES": pods,
            "PET_NPROC_PER_NODE": slots,
            "PET_MASTER_ADDR": first,
            "PET_MASTER_PORT": port,
        }
    )
    own_names = ("NODE_RANK", "PET_NODE_RANK", *(("RANK",) if group.slots == 1 else ()))
    numbers = [{"name": name, "value": _RANK} for name in own_names]
    local = plain_variables({"LOCAL_RANK": "0"}) if group.slots == 1 else []
    return [*rank, *variables, *numbers, *local, *(_mpi() if group.launch == "first" else [])]


def ranks_document(setting: Setting, group: Group, job: Job, attempt: int = 1) -> dict[str, str]:
    """The same in files: `ranks.json` for the process that starts the command, and a hostfile for mpirun."""
    peers, others = members_of(setting, group, job, attempt)[0].peers, _around(setting).others
    content = {
        "peers": peers,
        "port": MEET_PORT,
        "slots": group.slots,
        "launch": group.launch,
        "others": list(words(others)) if others is not None and group.launch == "first" else None,
    }
    hosts = "".join(f"{peer} slots={group.slots}\n" for peer in peers)
    return {"ranks.json": json.dumps(content, indent=2), HOSTFILE: hosts}


def meeting_service(setting: Setting, group: Group) -> Object | None:
    """The headless Service by which the pods of a group find each other; None where each goes alone."""
    if not group.meets:
        return None
    part = Part(setting.campaign, "meeting", group.name)
    ports = {"meet": MEET_PORT}
    if group.kind == "ranks":
        ports["ranks"] = _around(setting).port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.meeting_name(setting.campaign, group.name), "labels": part.labels()},
        "spec": {
            "clusterIP": "None",
            # They look for each other while they start, before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": Part(setting.campaign, "job", group.name).labels(),
            "ports": [{"name": name, "port": port, "targetPort": port} for name, port in ports.items()],
        },
    }


def _around(setting: Setting) -> Distributed:
    """What the file says of pods that run one command, beside how many they are."""
    return setting.section.distributed or Distributed()


def _mpi() -> list[Object]:
    """Where mpirun of Open MPI (4 and 5) and Intel MPI looks for its hosts by itself."""
    path = f"{DOCUMENT}/{HOSTFILE}"
    names = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "I_MPI_HYDRA_HOST_FILE")
    return plain_variables({"ASSAY_POD_HOSTFILE": path, **dict.fromkeys(names, path)})
