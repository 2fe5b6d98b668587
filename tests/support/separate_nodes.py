"""A Slurm whose nodes are separate hosts: each has a network, a name and addresses of its own, and a cable to pull."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

from tests.support.slurm_cluster import MARK, SlurmCluster

NETWORK = "10.97.53"
CONTROLLER = "ctl"


class SeparateNodes(SlurmCluster):
    """Nodes in network namespaces on one bridge; the login node is this machine, at the bridge's own address."""

    nodes = ("n1", "n2", "n3")
    controller = f"{CONTROLLER}({NETWORK}.254)"
    partitions = "PartitionName=debug Nodes=ALL Default=YES MaxTime=60 DefMemPerNode=200 State=UP"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._tag = secrets.token_hex(2)

    def start(self) -> None:
        """Lay the cables, then start everything."""
        hosts = "".join(f"{self.address(node)} {node}\n" for node in self.nodes)
        (self.folder / "hosts").write_text(
            f"127.0.0.1 localhost\n{NETWORK}.254 {CONTROLLER} {os.uname().nodename}\n{hosts}"
        )
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        _ip("addr", "add", f"{NETWORK}.254/24", "dev", self._bridge)
        for node in self.nodes:
            self._lay_cable(node)
        super().start()

    def start_controller(self) -> None:
        """Start the controller under a name of its own."""
        self._spawn("slurmctld", "unshare", "-u", "sh", "-c", f"hostname {CONTROLLER}; exec slurmctld -D -i")

    def start_node(self, node: str) -> None:
        """Start the daemon of one node inside of its own network, where all nodes are known by name."""
        inside = f"mount --bind {self.folder}/hosts /etc/hosts; hostname {node}; exec slurmd -D -N {node}"
        space = f"--net=/run/netns/{self._space(node)}"
        self._spawn(f"slurmd.{node}", "nsenter", space, "unshare", "-um", "sh", "-c", inside, more={MARK: node})

    def address(self, node: str) -> str:
        """The node's own address."""
        return f"{NETWORK}.{self.nodes.index(node) + 1}"

    def pull_cable(self, node: str) -> None:
        """Cut a node off: it goes on, and nobody hears of it."""
        _ip("link", "set", self._cable(node), "down")

    def plug_in(self, node: str) -> None:
        """Connect a node again."""
        _ip("link", "set", self._cable(node), "up")

    def stop(self) -> None:
        """End everything, and take the cables away."""
        try:
            super().stop()
        finally:
            for node in self.nodes:
                _ip("link", "del", self._cable(node), check=False)
                _ip("netns", "del", self._space(node), check=False)
            _ip("link", "del", self._bridge, check=False)

    @property
    def _bridge(self) -> str:
        return f"asy{self._tag}"

    def _cable(self, node: str) -> str:
        return f"asy{self._tag}{node}"

    def _space(self, node: str) -> str:
        return f"assay-{self._tag}-{node}"

    def _lay_cable(self, node: str) -> None:
        space = self._space(node)
        _ip("netns", "add", space)
        _ip("link", "add", self._cable(node), "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", self._cable(node), "master", self._bridge, "up")
        _ip("-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", space, "link", "set", device, "up")


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr}")
