"""A real Kubernetes of the tests: etcd, its servers, two nodes whose pods really run, and names for their Services.

`scripts/kubernetes.sh` builds it, and runs the tests in a network of their own, where all of this listens.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.tiers.kubernetes.admin import Admin
from tests.tiers.kubernetes.cluster_dns import ClusterDns
from tests.tiers.kubernetes.daemons import PATIENCE_S, Daemons
from tests.tiers.kubernetes.fake_nodes import FakeNodes
from tests.tiers.kubernetes.real_node import CLUSTER_DNS, NODES_NETWORK, PODS_NETWORK, NodeSetting, RealNode

ROOT = Path(__file__).resolve().parents[3]
KEPT = Path(os.environ.get("ASSAY_KUBERNETES", Path.home() / ".cache" / "assay" / "kubernetes"))
PROGRAMS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy", "kubectl")
IMAGE = "localhost/assay:test"
NODES = ("real-1", "real-2")
PERSON = "person"
API_PORT = 6443
URL = f"https://127.0.0.1:{API_PORT}"
SERVICES = "10.99.64.0/24"
ETCD = "http://127.0.0.1:2379"
# By default a node may be silent for 40 s, and pods on a lost one are given up after five minutes.
SILENT_S = 15
GIVEN_UP_S = 3
_CGROUPS = Path("/sys/fs/cgroup")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


class KubernetesCluster:
    """The whole cluster; its API server can go away and come back, and so can its nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons = Daemons(folder)
        self._tokens = {name: secrets.token_hex(16) for name in ("admin", PERSON)}
        self.admin = self._administrator()
        self.fake_nodes = FakeNodes(self.admin)
        self.nodes = {name: RealNode(self._setting(name), self.daemons) for name in NODES}
        self._dns: ClusterDns | None = None
        self._groups_before = _container_groups()

    @property
    def audit_log(self) -> Path:
        """What persons asked the API server for, a line each."""
        return self.folder / "audit.log"

    def start(self) -> None:
        """Start everything, and wait until the nodes are ready."""
        self._lay_network()
        self._write_secrets()
        self.daemons.spawn(
            "etcd",
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        )
        self.start_api()
        self._start_servers()
        self._start_names()
        for node in self.nodes.values():
            node.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._load_images, self.nodes.values()))
        self.until_ready()

    def start_api(self) -> None:
        """Start the API server, and wait until it is ready."""
        self.daemons.spawn(
            "kube-apiserver",
            KEPT / "bin" / "kube-apiserver",
            f"--etcd-servers={ETCD}",
            f"--cert-dir={self._certs}",
            "--bind-address=127.0.0.1",
            f"--secure-port={API_PORT}",
            "--insecure-port=0",
            f"--advertise-address={NODES_NETWORK}.1",
            "--endpoint-reconciler-type=none",
            "--kubelet-preferred-address-types=InternalIP",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.folder}/sa.key",
            f"--service-account-key-file={self.folder}/sa.pub",
            f"--service-cluster-ip-range={SERVICES}",
            f"--audit-policy-file={self.folder}/audit.json",
            f"--audit-log-path={self.audit_log}",
            "--allow-privileged=true",
            f"--default-not-ready-toleration-seconds={GIVEN_UP_S}",
            f"--default-unreachable-toleration-seconds={GIVEN_UP_S}",
        )
        self.daemons.until("the API server is ready", self.admin.ready)

    def stop_api(self) -> None:
        """End the API server at once, with every connection to it."""
        self.daemons.end("kube-apiserver", hard=True)

    def until_ready(self) -> None:
        """Wait until all nodes are ready, and none repels pods."""
        self.daemons.until("all nodes are ready", lambda: all(map(self.is_ready, self.nodes)))

    def is_ready(self, node: str) -> bool:
        """Whether a node is ready for pods."""
        found = self.admin.get("nodes", node)
        if found is None or found["spec"].get("taints"):
            return False
        conditions = {one["type"]: one["status"] for one in found["status"].get("conditions", ())}
        return conditions.get("Ready") == "True"

    def restore(self) -> None:
        """Bring back what a test took away: the API server, nodes, and their voices."""
        if "kube-apiserver" not in self.daemons:
            self.start_api()
        for node in self.nodes.values():
            if node.runs:
                node.speak()
            else:
                node.start()
        self.fake_nodes.clear()
        self.until_ready()

    def kubectl(self, *words: str, check: bool = True, config: Path | None = None) -> str:
        """Run kubectl and return what it printed; as administrator, or as somebody else."""
        told = [str(KEPT / "bin" / "kubectl"), f"--kubeconfig={config or self.kubeconfig('admin')}", *words]
        done = subprocess.run(told, capture_output=True, text=True, timeout=PATIENCE_S)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def kubeconfig(self, user: str, namespace: str = "default") -> Path:
        """A file by which somebody reaches the cluster."""
        path = self.folder / f"{user}.{namespace}.kubeconfig"
        cluster = {"server": URL, "certificate-authority": str(self._certs / "apiserver.crt")}
        context = {"cluster": "tests", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def make_namespace(self, name: str) -> None:
        """Make a namespace in which pods can be started."""
        self.admin.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        # Without its account and the token of that, the server refuses pods.
        self.daemons.until("the namespace has its account", lambda: self._account(name).get("secrets"))

    def stop(self) -> None:
        """End everything: pods first, whose control groups outlive a node that is switched off."""
        if self._dns is not None:
            self._dns.stop()
        try:
            if "kube-apiserver" in self.daemons and "kube-controller-manager" in self.daemons:
                self._end_pods()
        finally:
            for node in self.nodes.values():
                if node.runs:
                    node.kill()
            self.daemons.stop()
            self.admin.close()
            for group in _container_groups() - self._groups_before:
                _remove_group(group)

    @property
    def _certs(self) -> Path:
        return self.folder / "certs"

    def _administrator(self) -> Admin:
        return Admin(URL, self._tokens["admin"], self._certs / "apiserver.crt")

    def _setting(self, name: str) -> NodeSetting:
        kubelet, config = KEPT / "bin" / "kubelet", self.folder / "admin.default.kubeconfig"
        return NodeSetting(name, NODES.index(name) + 1, self.folder / name, kubelet, config)

    def _lay_network(self) -> None:
        _ip("link", "add", "nodes", "type", "bridge")
        for address in (*(node.setting.address for node in self.nodes.values()), CLUSTER_DNS):
            _ip("addr", "add", f"{address}/32", "dev", "nodes")
        _ip("link", "set", "nodes", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    @staticmethod
    def _load_images(node: RealNode) -> None:
        for image in ("pause", "assay"):
            node.load(KEPT / "images" / f"{image}.tar")

    def _write_secrets(self) -> None:
        users = f'{self._tokens["admin"]},admin,1,"system:masters"\n{self._tokens[PERSON]},{PERSON},2\n'
        (self.folder / "tokens.csv").write_text(users)
        rules = [{"level": "Metadata", "users": [PERSON], "omitStages": ["RequestReceived"]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        (self.folder / "audit.json").write_text(json.dumps(policy))
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(
            ["openssl", "rsa", "-in", key, "-pubout", "-out", self.folder / "sa.pub"], check=True, capture_output=True
        )

    def _start_servers(self) -> None:
        config = f"--kubeconfig={self.kubeconfig('admin')}"
        common = (config, "--leader-elect=false", "--bind-address=127.0.0.1", "--port=0")
        self.daemons.spawn(
            "kube-controller-manager",
            KEPT / "bin" / "kube-controller-manager",
            *common,
            "--secure-port=10257",
            f"--service-account-private-key-file={self.folder}/sa.key",
            f"--root-ca-file={self._certs}/apiserver.crt",
            "--controllers=*,-nodeipam,-cloud-node-lifecycle,-service,-route",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={SILENT_S}s",
        )
        self.daemons.spawn("kube-scheduler", KEPT / "bin" / "kube-scheduler", *common, "--secure-port=10259")
        # One is enough: the nodes share the network's tables. Replies must come back through them, and bridges that
        # pass packets by would let a pod hear from another than it asked.
        self.daemons.spawn(
            "kube-proxy",
            KEPT / "bin" / "kube-proxy",
            config,
            "--proxy-mode=iptables",
            "--masquerade-all",
            f"--cluster-cidr={PODS_NETWORK}",
            f"--hostname-override={NODES[0]}",
            f"--bind-address={NODES_NETWORK}.1",
            "--healthz-bind-address=",
            "--metrics-bind-address=127.0.0.1:10249",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        )

    def _start_names(self) -> None:
        hosts = self.folder / "hosts"
        hosts.touch()
        dnsmasq = self.daemons.spawn(
            "dnsmasq",
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            # What is not known does not exist: without this it is refused, and no other name is tried.
            "--local=/#/",
            f"--addn-hosts={hosts}",
            f"--listen-address={CLUSTER_DNS}",
            "--bind-interfaces",
            "--user=root",
            f"--pid-file={self.folder}/dnsmasq.pid",
            "--log-facility=-",
        )
        self.daemons.until("dnsmasq runs", (self.folder / "dnsmasq.pid").exists)
        self._dns = ClusterDns(self._administrator(), hosts, dnsmasq.pid)
        self._dns.start()

    def _account(self, namespace: str) -> dict[str, object]:
        return self.admin.get("serviceaccounts", "default", namespace) or {}

    def _end_pods(self) -> None:
        for namespace in self.admin.listed("namespaces"):
            if namespace["metadata"]["name"].startswith("test-"):
                self.admin.delete("namespaces", namespace["metadata"]["name"])
        self.daemons.until("no pod is left", lambda: not self.admin.listed("pods"))


def lacking() -> str:
    """What keeps a cluster from being started here; empty when nothing does."""
    if os.environ.get("ASSAY_KUBERNETES_ALONE") != "1":
        return "the cluster needs a network of its own: run `make test-kubernetes`, or scripts/kubernetes.sh COMMAND"
    absent = [name for name in PROGRAMS if not (KEPT / "bin" / name).exists()]
    return f"no {', '.join(absent)} in {KEPT}/bin; run scripts/kubernetes.sh" if absent else ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def _container_groups() -> set[Path]:
    """The control groups of containers, which lie at the top here, under every controller."""
    return {one for one in (*_CGROUPS.glob("*"), *_CGROUPS.glob("*/*")) if _CONTAINER.fullmatch(one.name)}


def _remove_group(group: Path) -> None:
    """Remove an empty control group; one that somebody else made has processes and stays."""
    for one in (*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group):
        try:
            one.rmdir()
        except OSError:
            return
