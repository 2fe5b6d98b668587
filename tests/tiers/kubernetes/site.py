"""A person in a namespace of a cluster: no rights but those of the Role that assay ships, a store, and assay itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep

from tests.tiers.kubernetes.admin import Thing
from tests.tiers.kubernetes.kubernetes_cluster import IMAGE, PERSON, ROOT, KubernetesCluster

from assay.analyse.records import MultiRunJobResult
from assay.report.result import read_campaign
from assay.store.store import Store

ROLE = ROOT / "deploy" / "kubernetes" / "role.yaml"
PATIENCE_S = 90.0
METRICS = [{"name": "x", "pattern": "x=(.*)"}]
# A file in the pod lets it end: the tests do not depend on how fast the machine is.
BEGUN, GO = "/tmp/begun", "/tmp/go"
WAITS = f"touch {BEGUN}; while [ ! -e {GO} ]; do sleep 0.1; done; echo x=3"
# Everything that a campaign can leave in a namespace.
KINDS = ("jobs", "pods", "deployments", "replicasets", "services", "configmaps", "secrets")
_POLL_S = 0.1


@dataclass
class Site:
    """Whoever runs benchmarks, with kubectl and assay on their desk."""

    cluster: KubernetesCluster
    namespace: str
    folder: Path

    @property
    def store(self) -> Path:
        """Where results are kept."""
        return self.folder / "store"

    @property
    def kubeconfig(self) -> Path:
        """How this person reaches the cluster."""
        return self.cluster.kubeconfig(PERSON, self.namespace)

    def grant(self, file: Path = ROLE) -> None:
        """Give this person the rights of a Role, as an administrator does it."""
        self.cluster.kubectl("apply", f"--namespace={self.namespace}", f"--filename={file}")
        (role,) = self.cluster.admin.listed("roles", self.namespace)
        self.cluster.kubectl(
            "create",
            "rolebinding",
            PERSON,
            f"--namespace={self.namespace}",
            f"--user={PERSON}",
            f"--role={role['metadata']['name']}",
        )

    def document(self, command: str = WAITS, **more: object) -> dict[str, object]:
        """A benchmark of one small command."""
        asked = {"image": IMAGE, "one_per_node": False, "memory": "300MB", "node_selector": {"real": "yes"}}
        asked |= more.pop("kubernetes", {})  # type: ignore[arg-type]
        return {
            "benchmark": "small",
            "target": {"command": ["/bin/sh", "-c", command], "metrics": METRICS},
            "measure": {"runs": 1, "timeout": "5m"},
            "place": {"engine": "kubernetes", "kubernetes": asked},
            **more,
        }

    def points(self, count: int, **more: object) -> dict[str, object]:
        """Several such jobs."""
        return {**self.document(**more), "matrix": {"target.env.N": [str(number) for number in range(count)]}}

    def start(self, document: dict[str, object], *words: str) -> subprocess.Popen[bytes]:
        """Begin `assay run` as a person does."""
        file = self.folder / f"{len(list(self.folder.glob('*.json')))}.json"
        file.write_text(json.dumps(document))
        return self.assay("run", str(file), *words)

    def assay(self, *words: str) -> subprocess.Popen[bytes]:
        """Run the command."""
        environ = {**os.environ, "ASSAY_STORE": str(self.store), "KUBECONFIG": str(self.kubeconfig)}
        # Ctrl-C reaches it also where the tests run in the background, and ignore it themselves.
        told = ["env", "--default-signal=INT", sys.executable, "-m", "assay", *words]
        with (self.folder / "said.log").open("ab") as log:
            return subprocess.Popen(told, env=environ, stdout=log, stderr=log)

    def said(self) -> str:
        """Everything that assay printed."""
        return (self.folder / "said.log").read_text()

    def newest(self) -> str:
        """The id of the campaign that was begun last."""
        self.until("there is a campaign", lambda: self.store.is_dir() and self._campaigns())
        return self._campaigns()[0].id

    def jobs(self, campaign: str) -> tuple[MultiRunJobResult, ...]:
        """The results as the store has them."""
        store = Store(self.store)
        try:
            return tuple(read_campaign(store, campaign).jobs)
        finally:
            store.close()

    def only_job(self) -> MultiRunJobResult:
        """What became of the only job of the newest campaign."""
        (job,) = self.jobs(self.newest())
        return job

    def state(self, campaign: str) -> str:
        """How far a campaign is, as the store has it."""
        return next(one.state for one in self._campaigns() if one.id == campaign)

    def pods(self, role: str = "job") -> list[Thing]:
        """The pods of this namespace that play a role, in the order in which they were made."""
        found = self.cluster.admin.listed("pods", self.namespace, f"assay/role={role}")
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def running(self, role: str = "job") -> list[str]:
        """The names of those that run."""
        return [pod["metadata"]["name"] for pod in self.pods(role) if _runs(pod)]

    def node(self, pod: str) -> str:
        """Where a pod runs."""
        found = self.cluster.admin.get("pods", pod, self.namespace)
        assert found is not None
        return found["spec"]["nodeName"]

    def go(self) -> None:
        """Let everything that waits in a pod go on."""
        for pod in self.running():
            self.until(f"{pod} goes on", partial(self._goes_on, pod))

    def _goes_on(self, pod: str) -> bool:
        """Tell a pod to go on; not yet, where its container is still being made, although it is said to run."""
        within = ("exec", f"--namespace={self.namespace}", pod, "--")
        told = self.cluster.kubectl(*within, "sh", "-c", f"touch {GO} && echo it goes on", check=False)
        return "it goes on" in told or pod not in self.running()

    def begun(self, count: int = 1) -> list[str]:
        """The pods of so many jobs, once the command in each of them waits."""
        self.until(f"{count} run", lambda: len(self.running()) >= count and all(map(self._waits, self.running())))
        return self.running()

    def left(self) -> list[str]:
        """What is in the namespace that was not there before: `kind/name`."""
        things = [(kind, one) for kind in KINDS for one in self.cluster.admin.listed(kind, self.namespace)]
        return [f"{kind}/{one['metadata']['name']}" for kind, one in things if not _is_kubernetes_own(one)]

    def until_nothing_left(self) -> None:
        """Wait until Kubernetes has removed what assay told it to, and see that this was everything."""
        self.until("nothing is left", lambda: not self.left())

    def until(self, what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Wait until something holds."""
        until_s = monotonic() + patience_s
        while not holds():
            assert monotonic() < until_s, f"{what}: not within {patience_s:g} s; {self._seen()}"
            sleep(_POLL_S)

    def _waits(self, pod: str) -> bool:
        words = ("exec", f"--namespace={self.namespace}", pod, "--", "ls", BEGUN)
        return self.cluster.kubectl(*words, check=False).strip() == BEGUN

    def _seen(self) -> str:
        said = self.said()[-3000:] if (self.folder / "said.log").exists() else "nothing"
        pods = [(pod["metadata"]["name"], pod["status"]) for pod in self.pods()]
        return f"left: {self.left()}\npods: {json.dumps(pods)[:3000]}\nassay said: {said}"

    def _campaigns(self) -> list:  # type: ignore[type-arg]
        store = Store(self.store)
        try:
            return store.campaigns()
        finally:
            store.close()


def _runs(pod: Thing) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _is_kubernetes_own(thing: Thing) -> bool:
    """What every namespace has: the tokens of its accounts, and the certificate of the server."""
    return thing.get("type") == "kubernetes.io/service-account-token" or thing["metadata"]["name"] == "kube-root-ca.crt"
