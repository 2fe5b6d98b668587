"""A node whose pods really run: containerd and kubelet in namespaces of their own, with a plug to pull."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.tiers.kubernetes.daemons import Daemons

# The addresses of the cluster, on a network that only its own processes can reach.
NODES_NETWORK = "10.99.0"
CLUSTER_DNS = f"{NODES_NETWORK}.254"
CLUSTER_DOMAIN = "cluster.local"
PODS_NETWORK = "10.99.0.0/16"
PAUSE = "localhost/pause:test"
CNI_PROGRAMS = "/usr/lib/cni"
CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  disable_tcp_service = true
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{folder}/cni"
"""
# The machine's folders that containerd, kubelet and the network programs write to are empty ones of the node's own: two
# kubelets would tidy up each other's logs. What a node has in them is gone with it, as is every process and mount.
NODE = """\
set -eu
hostname {name}
mkdir -p /var/lib/cni
for folder in /run /var/log /var/lib/cni; do mount -t tmpfs node $folder; done
containerd --config {folder}/containerd.toml >> {folder}/containerd.log 2>&1 &
until [ -S {socket} ]; do sleep 0.05; done
{kubelet} --config={folder}/kubelet.json --kubeconfig={kubeconfig} --hostname-override={name} --node-ip={address} \
  --container-runtime=remote --container-runtime-endpoint=unix://{socket} --root-dir={folder}/kubelet \
  --cert-dir={folder}/certs --node-labels=real=yes >> {folder}/kubelet.log 2>&1 &
wait
"""


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """What a node is told."""

    name: str
    number: int
    """From 1 on; its addresses come from it."""
    folder: Path
    kubelet: Path
    kubeconfig: Path

    @property
    def address(self) -> str:
        """Where its kubelet listens."""
        return f"{NODES_NETWORK}.{self.number}"

    @property
    def socket(self) -> Path:
        """Where its containerd listens."""
        return self.folder / "containerd.sock"

    def write(self) -> None:
        """Write the files of its daemons."""
        for name in ("cni", "certs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        words = {
            "folder": self.folder,
            "socket": self.socket,
            "pause": PAUSE,
            "cni_programs": CNI_PROGRAMS,
            "name": self.name,
            "address": self.address,
            "kubelet": self.kubelet,
            "kubeconfig": self.kubeconfig,
        }
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(**words))
        (self.folder / "node.sh").write_text(NODE.format(**words))
        (self.folder / "cni" / "pods.conflist").write_text(json.dumps(self._network()))
        (self.folder / "kubelet.json").write_text(json.dumps(self._kubelet()))

    def _network(self) -> dict[str, object]:
        subnet = f"10.99.{4 * self.number}.0/22"
        ipam = {"type": "host-local", "dataDir": "/run/addresses", "ranges": [[{"subnet": subnet}]]}
        bridge = {"type": "bridge", "bridge": f"pods{self.number}", "isDefaultGateway": True, "hairpinMode": True}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{**bridge, "ipam": ipam}]}

    def _kubelet(self) -> dict[str, object]:
        """What kubelet is told; what a virtual machine does not allow, and what takes minutes by default, is set."""
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": 10250,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "clusterDNS": [CLUSTER_DNS],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": "",
            "maxPods": 250,
            "serializeImagePulls": False,
            # A full disk of the machine that runs the tests is not what they are about.
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
            # A quarter of this is how often it says that it lives.
            "nodeLeaseDurationSeconds": 8,
            "nodeStatusUpdateFrequency": "2s",
        }


class RealNode:
    """One such node; it can lose its plug, or its voice."""

    def __init__(self, setting: NodeSetting, daemons: Daemons) -> None:
        self.setting = setting
        self._daemons = daemons

    @property
    def name(self) -> str:
        """What Kubernetes calls it."""
        return self.setting.name

    @property
    def runs(self) -> bool:
        """Whether it was started, and not killed since."""
        return self.name in self._daemons

    def start(self) -> None:
        """Switch it on; the images that it had are still there."""
        self.setting.write()
        self.setting.socket.unlink(missing_ok=True)
        self._daemons.spawn(
            self.name,
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            self.setting.folder / "node.sh",
        )
        self._daemons.until(f"containerd of {self.name} answers", lambda: self._ctr("version").returncode == 0)

    def load(self, image: Path) -> None:
        """Give it an image from a file."""
        done = self._ctr("images", "import", str(image))
        assert done.returncode == 0, done.stderr

    def tag(self, image: str, name: str) -> None:
        """Let an image that it has also be found by another name."""
        done = self._ctr("images", "tag", "--force", image, name)
        assert done.returncode == 0, done.stderr

    def kill(self) -> None:
        """Pull its plug: kubelet, containerd and every container are gone at once."""
        everything = psutil.Process(self._daemons[self.name].pid).children(recursive=True)
        self._daemons.end(self.name, hard=True)
        _, alive = psutil.wait_procs(everything, timeout=30)
        assert not alive, f"{alive} outlived {self.name}"

    def silence(self) -> None:
        """Let its kubelet say nothing any more; what runs in its pods goes on."""
        self._kubelet().send_signal(signal.SIGSTOP)

    def speak(self) -> None:
        """Let its kubelet go on."""
        self._kubelet().send_signal(signal.SIGCONT)

    def _kubelet(self) -> psutil.Process:
        own = psutil.Process(self._daemons[self.name].pid).children(recursive=True)
        return next(one for one in own if one.name() == "kubelet")

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        ctr = ["ctr", "--address", str(self.setting.socket), "--namespace", "k8s.io", *words]
        return subprocess.run(ctr, capture_output=True, text=True, timeout=300)
