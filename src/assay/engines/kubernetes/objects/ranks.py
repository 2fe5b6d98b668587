"""Pods that go together: how each is called, who the others are, and what their commands are told. Pure.

Clients that share a load are one Job each; the ranks of one command are one Indexed Job, or one Job each where the
server knows none. Either way a headless Service gives every pod a name before it runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.names import Part
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import DOCUMENT, Object, Setting, field_variable, plain_variables
from assay.plan.job import Job
from assay.spec.kubernetes import Distributed
from assay.spec.paths import words

# Where the first pod waits for the others.
MEET_PORT = 7443
# The minor version since which the server knows Indexed Jobs without a switch.
INDEXED_SINCE = 22
HOSTFILE = "hostfile"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_RANK = "$(ASSAY_POD_RANK)"


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
    """What a pod that goes together with others is told; the command finds the names that torchrun and MPI use."""
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
    """The same in files: `ranks.json` for whoever starts the command, and a hostfile for mpirun."""
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
