"""A real Slurm for the tests: controller and several nodes in a temporary folder, stopped afterwards.

Nothing of the machine is touched: it has its own munge with a key and a socket of its own, its own ports, and its own
`slurm.conf`, which `SLURM_CONF` names. The GPUs of its nodes are device files that swallow what is written to them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest
from tests.support.ports import free_port

PATIENCE_S = 120.0
PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmrestd", "sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo")
NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
MARK = "ASSAY_TEST_NODE"
# Without accounting slurmrestd must be told what to offer, and it does not like to be root.
REST = ("-s", "openapi/v0.0.38")
AS_ROOT = {"SLURMRESTD_SECURITY": "disable_user_check"}
# The daemons lie where an ordinary user's PATH does not look.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

CONF = """\
ClusterName=assay-test
SlurmctldHost={controller}
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/jwt.key
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SlurmdTimeout=15
KillWait=2
InactiveLimit=0
MaxArraySize=1001
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=2,requeue_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
JobRequeue=1
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.log
{nodes}
{partitions}
"""
PARTITIONS = """\
PartitionName=debug Nodes=ALL Default=YES MaxTime=60 DefMemPerNode=200 PriorityTier=5 PreemptMode=OFF State=UP
PartitionName=low Nodes=n5 MaxTime=60 DefMemPerNode=200 PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=lowest Nodes=n5 MaxTime=60 DefMemPerNode=200 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=high Nodes=n5 MaxTime=60 DefMemPerNode=200 PriorityTier=9 PreemptMode=OFF State=UP
"""


class SlurmCluster:
    """One controller with its nodes; nodes can be killed and started again."""

    nodes = NODES
    controller = "localhost(127.0.0.1)"
    partitions = PARTITIONS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def conf(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.folder / "slurm.conf"

    @property
    def socket(self) -> Path:
        """Where slurmrestd listens, once it was started."""
        return self.folder / "rest.sock"

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which Slurm's commands reach this cluster."""
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """Start munge, the controller and all nodes, and wait until they are idle."""
        self._write()
        munge = self.folder / "munge"
        self._spawn(
            "munge",
            "munged",
            "--foreground",
            "--force",
            f"--key-file={munge}/key",
            f"--socket={munge}/socket",
            f"--pid-file={munge}/pid",
            f"--log-file={munge}/log",
            f"--seed-file={munge}/seed",
        )
        self._until("munge answers", (munge / "socket").exists)
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self._until("all nodes are idle", lambda: self.states() == dict.fromkeys(self.nodes, "idle"))

    def start_controller(self) -> None:
        """Start the controller, which knows of no job before."""
        self._spawn("slurmctld", "slurmctld", "-D", "-i")

    def address(self, _node: str) -> str:
        """Where the daemon of a node listens."""
        return "127.0.0.1"

    def start_node(self, node: str) -> None:
        """Start the daemon of one node."""
        # Its steps inherit the mark, by which they are found when the node is to die.
        self._spawn(f"slurmd.{node}", "slurmd", "-D", "-N", node, more={MARK: node})

    def kill_node(self, node: str) -> None:
        """End the daemon of one node and all that it runs, without asking: as if its plug was pulled."""
        daemon = self._processes.pop(f"slurmd.{node}")  # first: it would start what is ended here again
        daemon.kill()
        daemon.wait()
        own = [one for one in self.processes() if node in (_env(one).get(MARK), _env(one).get("SLURMD_NODENAME"))]
        for one in own:
            _kill(one.pid)
        psutil.wait_procs(own, timeout=PATIENCE_S)

    def run(self, *words: str, check: bool = True) -> str:
        """Run one of Slurm's commands and return what it printed."""
        done = subprocess.run(words, env=self.environ, capture_output=True, text=True, timeout=PATIENCE_S)
        if check and done.returncode:
            raise AssertionError(f"{words}: {done.stderr}")
        return done.stdout

    def sbatch(self, *options: str, command: str = "true") -> str:
        """Submit a command and return the number of its job."""
        out = ("--output=/dev/null", "--error=/dev/null")
        return self.run("sbatch", "--parsable", *out, *options, f"--wrap={command}").strip()

    def queued(self) -> list[str]:
        """The numbers of all jobs that have not ended."""
        return self.run("squeue", "--noheader", "--format=%A").split()

    def clear(self) -> None:
        """End all jobs, and bring all nodes back."""
        for node in self.nodes:
            if f"slurmd.{node}" not in self._processes:
                # The controller need not find out by itself that the node is dead, which takes it half a minute.
                self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=killed")
                self.start_node(node)
        self._until("no job is left", self._cleared)
        for node, state in self.states().items():
            if state not in ("idle", "completing"):
                self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self._until("all nodes are idle", lambda: self.states() == dict.fromkeys(self.nodes, "idle"))

    def rest(self) -> str:
        """The address of slurmrestd on a socket, started with the first call."""
        if "rest" not in self._processes:
            self._spawn("rest", "slurmrestd", *REST, "-a", "rest_auth/local", f"unix:{self.socket}", more=AS_ROOT)
            self._until("slurmrestd listens", self.socket.exists)
        return f"unix:{self.socket}"

    def rest_by_token(self) -> tuple[str, str]:
        """The address of slurmrestd on a port and a token for it, started with the first call."""
        url = f"http://127.0.0.1:{self._rest_port()}"
        (token,) = self.run("scontrol", "token", "lifespan=3600").split()
        return url, token.removeprefix("SLURM_JWT=")

    def processes(self) -> list[psutil.Process]:
        """Every process that was started with this cluster's configuration: daemons, their steps, jobs."""
        mine = [one for one in psutil.process_iter() if _env(one).get("SLURM_CONF") == str(self.conf)]
        return [one for one in mine if one.pid != os.getpid()]

    def stop(self) -> None:
        """End everything, jobs first."""
        if "slurmctld" in self._processes:
            self.run("scancel", "--quiet", "--state=PENDING", "--user=root", check=False)
            self.run("scancel", "--quiet", "--user=root", check=False)
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for orphan in self.processes():
            _kill(orphan.pid)

    def _rest_port(self) -> int:
        if "rest by token" not in self._processes:
            self._port = free_port()
            words = ("slurmrestd", *REST, "-a", "rest_auth/jwt", f"127.0.0.1:{self._port}")
            self._spawn("rest by token", *words, more={"SLURM_JWT": "daemon", **AS_ROOT})
            self._until("slurmrestd listens", lambda: _listens(self._port))
        return self._port

    def _cleared(self) -> bool:
        if waiting := self.queued():
            self.run("scancel", "--quiet", *waiting, check=False)
        return not waiting

    def states(self) -> dict[str, str]:
        """Node → its state, in the controller's own word."""
        told = self.run("sinfo", "--noheader", "--Node", "--partition=debug", "--format=%N %T", check=False)
        return dict(line.split() for line in told.splitlines())

    def _write(self) -> None:
        for name in ("state", "dev", "munge"):
            (self.folder / name).mkdir()
        _secret(self.folder / "munge" / "key", 128)
        _secret(self.folder / "jwt.key", 32)
        for index in range(2):
            os.mknod(self.folder / "dev" / f"gpu{index}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        port, *ports = [free_port() for _ in range(len(self.nodes) + 1)]
        lines = [
            f"NodeName={node} NodeAddr={self.address(node)} Port={own} CPUs=4 RealMemory=4000 Gres=gpu:h200:2"
            for node, own in zip(self.nodes, ports, strict=True)
        ]
        self.conf.write_text(
            CONF.format(
                folder=self.folder,
                port=port,
                nodes="\n".join(lines),
                controller=self.controller,
                partitions=self.partitions,
            )
        )
        (self.folder / "gres.conf").write_text(f"Name=gpu Type=h200 File={self.folder}/dev/gpu[0-1]\n")

    def _spawn(self, name: str, *words: str, more: dict[str, str] | None = None) -> None:
        with (self.folder / f"{name}.started.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                words,
                env={**self.environ, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def _until(self, what: str, holds) -> None:
        until = monotonic() + PATIENCE_S
        while not holds():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or monotonic() > until:
                raise RuntimeError(f"{what}: not so; ended: {ended}; {self._last_words(ended)}")
            sleep(0.05)

    def _last_words(self, names: Sequence[str]) -> str:
        logs = [
            self.folder / f"{name}{suffix}" for name in (*names, "slurmctld") for suffix in (".log", ".started.log")
        ]
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs if log.exists())


def lacking() -> str:
    """What keeps a cluster from being started here; empty when nothing does."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if absent:
        return f"no Slurm found: {', '.join(absent)} missing"
    return "" if os.geteuid() == 0 else "a Slurm of the tests must be started by root"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _secret(path: Path, size: int) -> None:
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(size))
    path.chmod(0o400)


def _env(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """The cluster of the session; tests use `slurm`, which leaves it as it found it."""
    if why := lacking():
        if os.environ.get("ASSAY_REQUIRE_SLURM") == "1":
            pytest.fail(why)
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="assay-slurm-"))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster that Slurm's commands find, with no job in it before and after."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    monkeypatch.setenv("PATH", PATH)
    yield slurm_cluster
    slurm_cluster.clear()
