"""A Kubernetes for the tests: an API server, a scheduler and nodes whose pods are processes of this machine.

Nothing of it needs root or another program. `lose`, `evict`, `api.stop()` and `api.objects.compact()` make the faults
that clusters have. Everything is gone when it stops.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from tests.support.kube.api import KubeApi
from tests.support.kube.controllers import Controllers, write_hosts
from tests.support.kube.kubelet import Kubelet
from tests.support.kube.objects import Object, now

PATIENCE_S = 120.0
NAMESPACE = "bench"
IMAGE = "assay:test"
NODES = {
    "n1": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "n2": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "g1": {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "2"},
}


class KubeCluster:
    """One cluster."""

    def __init__(
        self, folder: Path, version: tuple[int, int] = (1, 31), nodes: dict[str, dict[str, str]] | None = None
    ):
        self.folder = folder
        self.api = KubeApi(version)
        self.kubelet = Kubelet(self.api.objects, folder)
        self.kubelet.images = {IMAGE: ["true"], "busybox": ["true"]}
        self.controllers = Controllers(self.api.objects, version, self._delete)
        self.api.on_delete = self._delete
        self.api.logs = self.kubelet.logs
        self.api.run_in = self.kubelet.run_in
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.failure: BaseException | None = None
        for name, room in (NODES if nodes is None else nodes).items():
            self.add_node(name, room)

    def use(self, version: tuple[int, int]) -> None:
        """Be of another version, before anything is made."""
        self.api.version = self.controllers.version = version

    @property
    def objects(self):
        """Everything that it knows."""
        return self.api.objects

    def start(self) -> None:
        """Listen and begin to work."""
        self.api.start()
        self._thread.start()

    def stop(self) -> None:
        """End every pod and everything else."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        self.kubelet.stop()
        self.api.stop()
        if self.failure is not None:
            raise self.failure

    def kubeconfig(self) -> Path:
        """The file by which clients find it."""
        return self.api.kubeconfig(self.folder / "kubeconfig")

    # Its objects

    def add_node(self, name: str, room: dict[str, str], *taints: dict[str, str]) -> None:
        """Add a node."""
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": now()}]
        status = {"capacity": room, "allocatable": room, "conditions": ready}
        self.objects.create(
            "nodes",
            "",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "spec": {"taints": list(taints)},
                "status": status,
            },
        )

    @property
    def made(self) -> list[Object]:
        """The metadata of every pod that there ever was."""
        return self.controllers.made

    def pods(self, **labels: str) -> list[Object]:
        """The pods whose labels `assay/…` are these."""

        def matches(one: Object) -> bool:
            own = one["metadata"].get("labels") or {}
            return all(own.get(f"assay/{key}") == value for key, value in labels.items())

        return self.objects.all("pods", NAMESPACE, matches)

    def running(self, **labels: str) -> list[Object]:
        """Those of them that run."""
        return [one for one in self.pods(**labels) if one["status"]["phase"] == "Running"]

    # Faults

    def delete_pod(self, name: str, grace_s: float = 1.0) -> None:
        """As `kubectl delete pod` does."""
        self._delete("pods", self.objects.get("pods", NAMESPACE, name), grace_s)

    def evict(self, name: str) -> None:
        """The node needs the room: the pod is ended, and says so."""
        run = self.kubelet.run_of(self.objects.get("pods", NAMESPACE, name))
        assert run is not None
        run.end(0.0, remove=False, why={"reason": "Evicted", "message": "The node was low on resource: memory. "})

    def lose(self, node: str) -> None:
        """Pull a node's plug: it falls silent, and after a while its pods are taken for lost."""
        self.kubelet.lose(node)

        def silent(one: Object) -> None:
            one["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
            one["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]

        self.objects.change("nodes", "", node, silent)
        for pod in self.objects.all("pods"):
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] in ("Pending", "Running"):
                self._give_up(pod, node)

    def _give_up(self, pod: Object, node: str) -> None:
        def leaving(one: Object) -> None:
            one["metadata"] |= {"deletionTimestamp": now(30), "deletionGracePeriodSeconds": 30}
            status = one["status"]
            status |= {
                "reason": "NodeLost",
                "message": f"Node {node} which was running pod {one['metadata']['name']} is unresponsive",
            }
            kept = [told for told in status.get("conditions", []) if told["type"] not in ("Ready", "DisruptionTarget")]
            status["conditions"] = [
                *kept,
                {"type": "Ready", "status": "False", "lastTransitionTime": now()},
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByTaintManager",
                    "message": "Taint manager: deleting due to NoExecute taint",
                    "lastTransitionTime": now(),
                },
            ]

        self.objects.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], leaving)

    # Its work

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                version = self.objects.version
                self.controllers.look()
                self.kubelet.look()
                write_hosts(self.kubelet.hosts, self.objects)
                with self.objects.changed:
                    if self.objects.version == version:
                        self.objects.changed.wait(0.1)
        except BaseException as failure:
            self.failure = failure

    def _delete(self, resource: str, one: Object, grace_s: float | None) -> None:
        meta = one["metadata"]
        space, name = meta.get("namespace", ""), meta["name"]
        if resource != "pods" or not one["spec"].get("nodeName") or grace_s == 0:
            self.objects.remove(resource, space, name)
            return
        own = one["spec"].get("terminationGracePeriodSeconds", 30)
        seconds = own if grace_s is None else grace_s
        if not meta.get("deletionTimestamp"):
            told = {"deletionTimestamp": now(seconds), "deletionGracePeriodSeconds": seconds}
            self.objects.change("pods", space, name, lambda found: found["metadata"].update(told))

    def until(self, what: str, holds: Any, within_s: float = PATIENCE_S) -> Any:
        """Wait until something holds, and return it."""
        until_s = monotonic() + within_s
        while not (found := holds()):
            assert self.failure is None, self.failure
            assert monotonic() < until_s, f"{what}: not within {within_s:g} s"
            sleep(0.05)
        return found


@pytest.fixture
def kube(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeCluster]:
    """A cluster of its own for each test, which the official client finds by KUBECONFIG."""
    pytest.importorskip("kubernetes", reason="its client is not installed: pip install 'assay-bench[kubernetes]'")
    folder = Path(tempfile.mkdtemp(prefix="assay-kube-"))
    cluster = KubeCluster(folder)
    cluster.start()
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    try:
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
