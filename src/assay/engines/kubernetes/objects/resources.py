"""What one pod asks Kubernetes for: its section, and what its needs add. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.kubernetes import Pod
from assay.units import show_bytes

GPU = "nvidia.com/gpu"
_OS = "kubernetes.io/os"
_HOST = "kubernetes.io/hostname"
_SYSTEMS = {"linux": "linux", "windows": "windows"}
_OPTION = "kubernetes-option"


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod asks for: how much of a node, and which nodes."""

    cpus: float | None = None
    memory: int | None = None
    storage: int | None = None
    gpus: int | None = None
    gpu_resource: str = GPU
    others: Mapping[str, str] = field(default_factory=dict)
    """Further resources → how much."""
    limited: bool = True
    """Whether processors and memory are also limited to this."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Labels that the node must carry."""
    deadline_s: float | None = None

    def resources(self) -> dict[str, Any]:
        """The section `resources` of a container; empty where nothing is asked for."""
        plain = {
            "cpu": None if self.cpus is None else cpu_words(self.cpus),
            "memory": None if self.memory is None else str(self.memory),
            "ephemeral-storage": None if self.storage is None else str(self.storage),
        }
        shared = {name: text for name, text in plain.items() if text is not None}
        # Kubernetes takes whole devices only where the limit equals the request.
        devices = {**({self.gpu_resource: str(self.gpus)} if self.gpus else {}), **self.others}
        limits = {**(shared if self.limited else {}), **devices}
        requests = {**shared, **devices}
        return {name: part for name, part in (("requests", requests), ("limits", limits)) if part}


def asked_for(pod: Pod, needs: Needs) -> PodResources:
    """What a pod asks for: what its section says, and what its needs add where that is silent.

    Raises:
        UsageError: if the section asks for less than the job needs, or for what no node can be asked for.
    """
    # Refuse a section that contradicts the needs: the job would wait for its node, and then fail on it
    limited = pod.limits != "none"
    if limited and pod.cpus is not None and needs.cpus is not None and pod.cpus < needs.cpus:
        raise _less("cpus", str(needs.cpus), f"{pod.cpus:g}")
    if limited and pod.memory is not None and needs.memory is not None and pod.memory < needs.memory:
        raise _less("memory", show_bytes(needs.memory), show_bytes(pod.memory))
    if pod.gpus is not None and needs.gpus is not None and pod.gpus < needs.gpus:
        raise _less("gpus", str(needs.gpus), str(pod.gpus))
    if needs.os == "macos":
        message = "needs.os is macos, and no node of Kubernetes is"
        raise UsageError(message, code=_OPTION, at="needs.os", try_="run it on a fleet (place.engine: fleet)")
    for key, text in needs.labels.items():
        _label(key, text)
    wanted = dict(needs.labels)
    wanted |= {_OS: _SYSTEMS[needs.os]} if needs.os else {}
    wanted |= {_HOST: needs.agent} if needs.agent else {}
    for key, text in pod.node_selector.items():
        if wanted.get(key, text) != text:
            message = f"place.kubernetes.node_selector asks for {key}={text}, and needs for {key}={wanted[key]}"
            remedy = "keep one of them: no node carries both"
            raise UsageError(message, code=_OPTION, at="place.kubernetes.node_selector", try_=remedy)
    return PodResources(
        cpus=pod.cpus if pod.cpus is not None else (None if needs.cpus is None else float(needs.cpus)),
        memory=pod.memory or needs.memory,
        storage=pod.storage,
        gpus=pod.gpus if pod.gpus is not None else needs.gpus,
        gpu_resource=pod.gpu_resource or GPU,
        others={name: str(amount) for name, amount in pod.resources.items()},
        limited=pod.limits != "none",
        nodes={**wanted, **pod.node_selector},
        deadline_s=pod.deadline,
    )


def cpu_words(cpus: float) -> str:
    """Processors as Kubernetes writes them: `2`, or `500m` for a half."""
    thousandths = max(1, round(cpus * 1000))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _label(key: str, text: str) -> None:
    try:
        Pod(node_selector={key: text})
    except ValueError:
        message = f"needs.labels has {key}={text}, which no node of Kubernetes can carry"
        remedy = "use a label of your nodes: kubectl get nodes --show-labels"
        raise UsageError(message, code=_OPTION, at="needs.labels", try_=remedy) from None


def _less(key: str, needed: str, asked: str) -> UsageError:
    message = f"needs.{key} is {needed}, and place.kubernetes asks for {asked}"
    remedy = f"raise place.kubernetes.{key} (for a service under each), lower needs.{key}, or leave one of them out"
    return UsageError(message, code=_OPTION, at=f"place.kubernetes.{key}", try_=remedy)
