"""Nodes that exist for the scheduler alone: with GPUs, labels and taints that this machine does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import Event, Thread

import httpx
from tests.tiers.kubernetes.admin import Admin

_BEAT_S = 1.0
_LEASES = "kube-node-lease"


class FakeNodes:
    """Nodes without a kubelet: pods are bound to them and never start, and are gone when they are deleted."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._names: list[str] = []
        self._end = Event()
        self._beating: Thread | None = None

    def add(
        self,
        name: str,
        *,
        cpus: int = 8,
        memory: str = "32Gi",
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Make a node that is ready."""
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {"taints": list(taints)},
        }
        self._admin.create("nodes", node)
        room = {"cpu": str(cpus), "memory": memory, "pods": "110", "ephemeral-storage": "100Gi", **(resources or {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now("seconds")}
        self._admin.patch(
            "nodes", name, {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}, status=True
        )
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now("microseconds")},
        }
        self._admin.create("leases", lease, _LEASES)
        self._names.append(name)
        if self._beating is None:
            self._beating = Thread(target=self._beat, daemon=True)
            self._beating.start()

    def clear(self) -> None:
        """Remove all of them."""
        self._end.set()
        if self._beating is not None:
            self._beating.join()
        for name in self._names:
            self._admin.delete("leases", name, _LEASES)
            self._admin.delete("nodes", name)
        self._names, self._beating = [], None
        self._end.clear()

    def _beat(self) -> None:
        """Say for each node that it lives, and end the pods that are to go, as its kubelet would."""
        while not self._end.wait(_BEAT_S):
            try:
                for name in tuple(self._names):
                    self._admin.patch("leases", name, {"spec": {"renewTime": _now("microseconds")}}, _LEASES)
                for pod in self._admin.listed("pods"):
                    meta = pod["metadata"]
                    if pod["spec"].get("nodeName") in self._names and "deletionTimestamp" in meta:
                        self._admin.delete("pods", meta["name"], meta["namespace"], grace_s=0)
            except (httpx.HTTPError, AssertionError):
                continue  # the server may be away: tests take it down


def _now(precision: str) -> str:
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
