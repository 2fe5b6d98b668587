"""Where a descriptor of Benchmark AI runs: its types of machines, zones and nodes, as `place.kubernetes` says them."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from assay.spec.importers.benchmark_ai_fields import Descriptor, flag, label_value
from assay.spec.importers.fields import shown, whole
from assay.spec.importers.instances import Instance

TYPE_LABEL = "node.kubernetes.io/instance-type"
ZONE_LABEL, ZONE_ID_LABEL = "topology.kubernetes.io/zone", "topology.k8s.aws/zone-id"
# Their pods asked for nothing but GPUs, and had their node to themselves; a node never has all that its type has.
_MODEST: dict[str, JsonValue] = {"cpus": 0.1, "memory": "128MiB", "limits": "none"}
# What a node gives where nobody asks for more.
_LITTLE_SHM = "64MiB"
NODES, PROCESSES, MOST_NODES = 2, "1", 1024
_SSHD = "/usr/sbin/sshd -D"
_LAUNCHER = (
    "theirs ran the command once, on a launcher that reached the other nodes by kubectl; here the first pod runs it "
    f"and reaches the others by ssh, so that the image needs {_SSHD.split()[0]}. For a command that each pod runs "
    "(torchrun) set place.kubernetes.distributed={pods: …, launch: each}"
)


def cluster_of(it: Descriptor, strategy: str, instance: Instance | None, server: str) -> dict[str, JsonValue]:
    """The section `place.kubernetes` of a descriptor.

    Args:
        it: the descriptor.
        strategy: single_node, inference or horovod.
        instance: the type of machine, where a table has it.
        server: name of its service.
    """
    made: dict[str, JsonValue] = {"node_selector": {**_type(it, "hardware.instance_type"), **_zone(it)}, **_MODEST}
    shared = _shared_memory(it, "env.extended_shm")
    if shared:
        made["shm"] = "unlimited"
    privileged = it.read("env.privileged", flag) or False
    if privileged:
        made["privileged"] = True
    if strategy == "inference":
        made["each"] = {server: _server(it, shared=shared, privileged=privileged)}
    if strategy == "horovod":
        made["distributed"] = _distributed(it, instance)
        it.remarks.append(_LAUNCHER)
    else:
        for name in ("num_instances", "processes_per_instance"):
            if it.fields.given([f"hardware.distributed.{name}"]):
                it.say(f"hardware.distributed.{name}", 'it belongs to strategy = "horovod"; left out')
    return made


def _type(it: Descriptor, path: str) -> dict[str, JsonValue]:
    name = it.read(path, label_value)
    return {} if name is None else {TYPE_LABEL: name}


def _zone(it: Descriptor) -> dict[str, JsonValue]:
    zone = it.read("hardware.availability_zone", label_value)
    by_id = it.read("hardware.aws_zone_id", label_value)
    if zone is not None and by_id is not None:
        it.say("hardware.aws_zone_id", "hardware.availability_zone says it too, and holds")
    if zone is not None:
        return {ZONE_LABEL: zone}
    if by_id is None:
        return {}
    it.say(
        "hardware.aws_zone_id",
        f"its nodes must carry the label {ZONE_ID_LABEL}; where they do not, take it out of "
        "place.kubernetes.node_selector",
    )
    return {ZONE_ID_LABEL: by_id}


def _shared_memory(it: Descriptor, path: str) -> bool:
    asked = it.read(path, flag)
    return True if asked is None else asked


def _server(it: Descriptor, *, shared: bool, privileged: bool) -> dict[str, JsonValue]:
    """The options of the server's pod; what is the same as the client's is left out."""
    made: dict[str, JsonValue] = {"node_selector": _type(it, "server.hardware.instance_type"), "one_per_node": True}
    own = _shared_memory(it, "server.env.extended_shm")
    if own != shared:
        made["shm"] = "unlimited" if own else _LITTLE_SHM
    rights = it.read("server.env.privileged", flag) or False
    if rights != privileged:
        made["privileged"] = rights
    return made


def _distributed(it: Descriptor, instance: Instance | None) -> dict[str, JsonValue]:
    pods = it.read("hardware.distributed.num_instances", whole(2, MOST_NODES)) or NODES
    ranks = it.read("hardware.distributed.processes_per_instance", _processes) or int(PROCESSES)
    if ranks == "gpus" and instance is not None and not instance.gpus:
        it.fields.wrong("hardware.distributed.processes_per_instance", f"is gpus, and {instance.name} has none")
    return {"pods": pods, "ranks": ranks, "launch": "first", "others": _SSHD}


def _processes(value: Any) -> int | str:  # noqa: ANN401  (whatever the document holds)
    if value == "gpus":
        return "gpus"
    try:
        return whole(1, 1024)(value)
    except ValueError:
        raise ValueError(f"must be a number of processes or gpus, not {shown(value)}") from None
