"""A campaign's shared folder as nodes see it, and their processes, started and ended as a batch system does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.running_server import PATIENCE_S, wait_for

from assay.documents import to_plain
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.plan import Group, GroupService
from assay.plan.job import Job
from assay.spec.benchmark import Definition, Needs
from assay.spec.slurm import Batch

SIM = "assay sim llm --host {host} --port {port} --ttft 5ms --itl 1ms --tokens 4"


def definition(**sections) -> Definition:
    """A chat service, asked by some clients."""
    whole = {
        "services": {"llm": {"command": SIM, "ready": {"http": "/health", "within": 120.0}}},
        "target": {"service": "llm", "api": "openai-chat", "model": "sim"},
        "workload": {"output_tokens": 4},
        "load": {"concurrency": 2, "duration": 1.0},
        "measure": {"runs": 1, "warmup": 0.3, "timeout": 60.0, "probe": "off", "control": False},
    }
    for name, value in sections.items():
        known = whole.get(name)
        merge = isinstance(known, dict) and name not in ("services", "target")
        whole[name] = {**known, **value} if merge else value
    return Definition.model_validate(whole)


@dataclass
class Campaign:
    """A shared folder with one group in it."""

    folder: SharedFolder
    group: str
    environ: dict[str, str]
    processes: list[subprocess.Popen[str]]

    def start(self, module: str, *words: str, **environ: str) -> subprocess.Popen[str]:
        """Start what a batch script would start."""
        log = (self.folder.path / f"{module}-{len(self.processes)}.log").open("w")
        command = [
            sys.executable,
            "-m",
            f"assay.engines.slurm.node.{module}",
            str(self.folder.path),
            self.group,
            *words,
        ]
        process = subprocess.Popen(command, env={**self.environ, **environ}, stdout=log, stderr=log, text=True)
        self.processes.append(process)
        return process

    def service(self, name: str = "llm") -> dict:
        """What a service published, once it has."""
        path = self.folder.service(self.group, name)
        failed = self.folder.failed_service(self.group, name)
        wait_for(lambda: path.exists() or failed.exists(), what=f"the service {name}")
        assert not failed.exists(), failed.read_text()
        return json.loads(path.read_text())

    def failure(self, name: str = "llm") -> dict:
        """What a service that failed said, once it has."""
        failed = self.folder.failed_service(self.group, name)
        wait_for(failed.exists, what=f"the failure of {name}")
        return json.loads(failed.read_text())

    def result(self, index: int = 0) -> dict:
        """The result of a job."""
        return json.loads((self.folder.out(index) / "result.json").read_text())


@pytest.fixture
def campaign(tmp_path, monkeypatch) -> Iterator[Callable[..., Campaign]]:
    """Make a campaign of one group: its services, and a job for each client."""
    made: list[Campaign] = []
    environ = {
        **os.environ,
        "ASSAY_NODE_ADDRESS": "127.0.0.1",
        "ASSAY_CACHE": str(tmp_path / "cache"),
        "ASSAY_LOCK": "off",
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_ID": "77",
    }

    def make(what: Definition, kind: str = "services", group: str = "point-0000") -> Campaign:
        folder = SharedFolder(tmp_path / "shared")
        folder.make()
        hosts = what.load.hosts
        for host in range(hosts):
            load = what.load.model_copy(update={"host": host if hosts > 1 else None})
            own = what.model_copy(update={"load": load})
            folder.write_job(Job("chat", "d" * 64, host, own, base=str(tmp_path), campaign="c1"))
        services = tuple(GroupService(name, Batch(), Needs()) for name in what.services) if kind == "services" else ()
        one = Group(group, kind, tuple(range(hosts)), Batch(), Needs(), services)
        folder.campaign.write_text(json.dumps({"campaign": "c1", "groups": [to_plain(one)]}))
        made.append(Campaign(folder, group, environ, []))
        return made[-1]

    yield make
    for one in made:
        for process in one.processes:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_S)


def log(campaign: Campaign) -> str:
    """Everything that the processes of a campaign wrote."""
    return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(Path(campaign.folder.path).glob("*.log")))
