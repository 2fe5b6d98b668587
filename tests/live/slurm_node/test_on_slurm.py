"""A service and its end as batch jobs of a real Slurm: cancelled by an outsider, and ended in good order."""

from __future__ import annotations

import shlex
import sys

import pytest
from tests.live.slurm_node.test_service import family, pids
from tests.support.running_server import wait_for
from tests.unit.run.services.conftest import await_gone

from assay.engines.slurm.scheduler import comment_of

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]


def submitted(slurm, here, module: str, name: str, *words: str) -> str:
    command = [sys.executable, "-m", f"assay.engines.slurm.node.{module}", str(here.folder.path), here.group, *words]
    out = here.folder.path / f"{name}.log"
    return slurm.run(
        "sbatch",
        "--parsable",
        f"--output={out}",
        f"--error={out}",
        f"--job-name={name}",
        f"--comment={comment_of('c1', name)}",
        "--export=ALL,ASSAY_NODE_ADDRESS=127.0.0.1",
        f"--wrap=exec {shlex.join(command)}",
    ).strip()


def test_scancel_ends_everything_and_is_reported(slurm, campaign, tmp_path):
    here = campaign(family(tmp_path))
    number = submitted(slurm, here, "service", f"{here.group}-web", "web")
    told = here.service("web")
    assert told["slurm_job"] == number
    assert told["node"] in slurm.nodes
    slurm.run("scancel", number)
    assert "SIGTERM: cancelled, preempted or out of time" in here.failure("web")["message"]
    await_gone(*pids(tmp_path))
    wait_for(lambda: number not in slurm.queued(), what="the end of the batch job")


def test_the_end_job_stops_services_and_cancels_those_that_never_began(slurm, campaign, tmp_path):
    here = campaign(family(tmp_path))
    submitted(slurm, here, "service", f"{here.group}-web", "web")
    here.service("web")
    held = slurm.run(
        "sbatch",
        "--parsable",
        "--hold",
        f"--comment={comment_of('c1', f'{here.group}-db')}",
        "--output=/dev/null",
        "--wrap=true",
    ).strip()
    other = slurm.run(
        "sbatch",
        "--parsable",
        "--hold",
        f"--comment={comment_of('c1', f'{here.group}0-db')}",
        "--output=/dev/null",
        "--wrap=true",
    ).strip()
    submitted(slurm, here, "end", f"{here.group}-end")
    wait_for(lambda: slurm.queued() == [other], what="the end of the group alone")
    assert f"cancelled: {held}" in (here.folder.path / f"{here.group}-end.log").read_text()
    assert not here.folder.failed_service(here.group, "web").exists(), "it was asked to end in good order"
    await_gone(*pids(tmp_path))
