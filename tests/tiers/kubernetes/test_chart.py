"""The whole system in a real cluster by one command: the Helm chart, from nothing to a result and back to nothing."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from tests.tiers.kubernetes.kubernetes_cluster import KEPT, ROOT, KubernetesCluster

NAMESPACE = "assay"
NODE = "real-1"
PATIENCE_S = 120.0
SIZE = "1Gi"
BENCHMARK = """\
benchmark: hello
target: {command: [sh, -c, 'echo x=3'], metrics: [{name: x, pattern: 'x=(.*)'}]}
measure: {runs: 3}
"""
PARTS = {"agent-cpu", "postgresql", "prometheus", "redis", "server"}


@dataclass
class Desk:
    """An administrator's, with helm, kubectl and assay on it."""

    cluster: KubernetesCluster
    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        path = f"{KEPT}/bin:{ROOT}/.venv-deploy/bin:{os.environ['PATH']}"
        return {
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(self.cluster.kubeconfig("admin")),
            "ASSAY_INFRA": str(self.folder / "infra"),
        }

    def assay(self, *words: str, code: int = 0) -> str:
        told = [sys.executable, "-m", "assay", *words]
        done = subprocess.run(told, env=self.environ, capture_output=True, text=True, timeout=500, cwd=self.folder)
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}\n{self._pods()}"
        return done.stdout

    def create(self) -> str:
        """Install the chart, or install it again."""
        values = self.folder / "values.yaml"
        values.write_text(json.dumps(self._values()))
        return self.assay("infra", "create", "--provider", "kubernetes", "--values", str(values))

    def shell(self, line: str) -> subprocess.Popen[bytes]:
        """Begin a line that assay told, as it told it."""
        return subprocess.Popen(["sh", "-c", f"exec {line}"], env=self.environ, cwd=self.folder)

    def keys(self) -> dict[str, str]:
        """The secrets of the system, as the cluster has them."""
        found = self.cluster.admin.get("secrets", "assay-keys", NAMESPACE)
        assert found is not None
        return {name: base64.b64decode(value).decode() for name, value in found["data"].items()}

    def pod(self, part: str) -> str:
        """The only pod of a part that is not about to go."""
        found = self.cluster.admin.listed("pods", NAMESPACE, f"app.kubernetes.io/component={part}")
        (name,) = [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]
        return name

    def until(self, what: str, holds: Callable[[], object]) -> None:
        until_s = monotonic() + PATIENCE_S
        while not holds():
            assert monotonic() < until_s, f"{what}: not within {PATIENCE_S:g} s\n{self._pods()}"
            sleep(0.2)

    def _values(self) -> dict[str, object]:
        images = {part: f"localhost/assay-test-{part}:1" for part in ("postgresql", "redis", "prometheus")}
        volume = {"persistence": {"size": SIZE}}
        small = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
        agent = {
            "name": "cpu",
            "image": {"name": "assay-agent"},
            "allow": ["command"],
            "onePerNode": True,
            "resources": small,
            "labels": {"shelf": "low"},
        }
        return {
            "registry": "localhost",
            "server": volume,
            "postgresql": {"image": images["postgresql"], **volume},
            "redis": {"image": images["redis"]},
            "prometheus": {"image": images["prometheus"]},
            "agents": [agent, {**agent, "name": "later", "replicas": 0}],
        }

    def _pods(self) -> str:
        words = ("get", "pods", "--namespace", NAMESPACE, "--output")
        return (
            self.cluster.kubectl(*words, "wide", check=False)
            + self.cluster.kubectl("describe", "pods", "--namespace", NAMESPACE, check=False)[-4000:]
        )


@pytest.fixture
def desk(cluster, tmp_path) -> Iterator[Desk]:
    archive = Path(os.environ["ASSAY_SYSTEM_IMAGES"]) / "images.tar"
    assert archive.exists(), f"no {archive}; run scripts/kubernetes.sh"
    for node in cluster.nodes.values():
        node.load(archive)
    volumes = [_make_volume(cluster, tmp_path / name, name) for name in ("first", "second")]
    yield Desk(cluster, tmp_path)
    cluster.admin.delete("namespaces", NAMESPACE)
    for name in volumes:
        cluster.admin.delete("persistentvolumes", name)


@pytest.mark.timeout(1200)
def test_from_nothing_to_a_result_and_back_to_nothing(desk):
    said = desk.create()
    assert {line.split()[0] for line in said.splitlines() if " healthy " in line} >= PARTS, said
    keys = desk.keys()
    told = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in said.splitlines() if re.search(r"\S  +\S", line))

    # What it says is what one does: the two lines for the server and the token, then `measure`.
    with _forwarded(desk, told["reach the server"], "8080") as url:
        desk.until("the server is reached", lambda: _answers(f"{url}/api/v1/ready"))
        assert desk.shell(f"sh -c {shlex.quote(told['admin token'])}").wait(60) == 0
        assert (desk.folder / "admin.token").read_text() == keys["admin"]
        assert "<title>assay" in httpx.get(f"{url}/").text, "the dashboard"
        _measure(desk, url)

        # A database that is started anew has everything, and a chart that is installed anew keeps the keys.
        desk.cluster.admin.delete("pods", desk.pod("postgresql"), NAMESPACE)
        desk.create()
        assert desk.keys() == keys
        desk.until("the server is ready", lambda: _answers(f"{url}/api/v1/ready"))
        assert _campaigns(url, keys["reader"]) == ["done"]
        _measure(desk, url)
        assert _campaigns(url, keys["reader"]) == ["done", "done"]
    line = f"kubectl --namespace {NAMESPACE} port-forward service/assay-prometheus 9090:9090"
    with _forwarded(desk, line, "9090") as url:
        desk.until("Prometheus is reached", lambda: _answers(f"{url}/-/ready"))
        good = {"assay-server": "up", "prometheus": "up"}
        desk.until("Prometheus reads the server", lambda: _health(url) == good)

    desk.assay("infra", "destroy", "--provider", "kubernetes", "--yes")
    desk.until("the namespace is gone", lambda: desk.cluster.admin.get("namespaces", NAMESPACE) is None)
    assert not (desk.folder / "infra").exists()
    assert "nothing is up" in desk.assay("infra", "status", "--provider", "kubernetes", code=1)


def _measure(desk: Desk, url: str) -> None:
    (desk.folder / "bench.yaml").write_text(BENCHMARK)
    said = desk.assay("run", "bench.yaml", "--server", url, "--token-file", "admin.token", "--fail-on", "never")
    assert re.search(r" 3\.000 +3\.000 to 3\.000 ", said), said


def _campaigns(url: str, token: str) -> list[str]:
    answer = httpx.get(f"{url}/api/v1/campaigns", headers={"Authorization": f"Bearer {token}"}).raise_for_status()
    return [one["state"] for one in answer.json()["items"]]


def _health(url: str) -> dict[str, str]:
    """What Prometheus says of those that it reads."""
    targets = httpx.get(f"{url}/api/v1/targets").json()["data"]["activeTargets"]
    return {one["labels"]["job"]: one["health"] for one in targets}


@contextmanager
def _forwarded(desk: Desk, line: str, port: str) -> Iterator[str]:
    """Where a service is while a line that forwards its port runs, with a free one in place of its own."""
    own = _free_port()
    forward = desk.shell(line.replace(f"{port}:{port}", f"{own}:{port}"))
    try:
        yield f"http://127.0.0.1:{own}"
    finally:
        forward.terminate()
        forward.wait(30)


def _make_volume(cluster: KubernetesCluster, folder: Path, name: str) -> str:
    """A disk of one node, which the chart's claims find: nothing here makes disks when they are asked for."""
    folder.mkdir()
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    spec = {
        "capacity": {"storage": SIZE},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
    }
    metadata = {"name": f"chart-{name}"}
    thing = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    cluster.admin.create("persistentvolumes", thing)
    return metadata["name"]


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
