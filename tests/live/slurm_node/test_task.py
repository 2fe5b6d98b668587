"""One job on a node: with services that run elsewhere, with other clients, and what it leaves when it cannot."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from tests.live.slurm_node.conftest import Campaign, definition, log
from tests.support.running_server import PATIENCE_S, wait_for

from assay.analyse.merge import PartResult, PartRun, merge_point
from assay.analyse.records import MultiRunJobResult
from assay.documents import from_json
from assay.engines.slurm.node.end import request_end
from assay.engines.slurm.node.publication import publish_failure
from assay.errors import Problem
from assay.plan.job import whole
from assay.run.load.http.recording import REQUESTS, read_requests
from assay.store.artefacts import ArtefactFiles
from assay.store.samples import SampleFiles

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]


def test_a_job_uses_the_service_of_another_node_and_keeps_its_log(campaign):
    here = campaign(definition())
    service = here.start("service", "llm")
    here.service()
    assert here.start("task", "0").wait(PATIENCE_S) == 0, log(here)
    request_end(here.folder, here.group)
    assert service.wait(PATIENCE_S) == 0
    run = here.result()["runs"][0]
    assert run["error"] is None
    told = run["facts"]["service"]
    assert (told["node"], told["shared"], told["host"]) == ("n1", True, "127.0.0.1")
    assert float(told["start_to_ready_s"]) > 0
    assert told["warm"] == "POST /v1/chat/completions"
    assert "start_to_ready_s" not in run["metrics"], "its start is not this run's"
    assert run["metrics"]["throughput_per_s"] > 1
    assert "barrier" not in run["facts"]
    job = json.loads(here.folder.job(0).read_text())
    assert "host" not in job["definition"]["target"], "the definition stays as it was written"


def waits_for_others(campaign: Campaign, host: int) -> Path:
    """What a client leaves where the clients of a group meet."""
    return campaign.folder.barrier(campaign.group, 0).parent / "jobs" / f"host-{host}.json"


@pytest.mark.quiet
def test_clients_begin_at_one_moment_and_their_samples_are_one_result(campaign):
    load = {"concurrency": 4, "duration": 2.0, "hosts": 2}
    here = campaign(definition(load=load, measure={"runs": 2}))
    service = here.start("service", "llm")
    here.service()
    first = here.start("task", "0")
    wait_for(waits_for_others(here, 0).exists, what="the first client")  # the queue lets the second begin later
    second = here.start("task", "1")
    assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0), log(here)
    request_end(here.folder, here.group)
    service.wait(PATIENCE_S)
    parts = []
    for host in range(2):
        result = from_json(MultiRunJobResult, (here.folder.out(host) / "result.json").read_bytes(), source="here")
        files, samples = ArtefactFiles(here.folder.out(host) / "files"), SampleFiles(here.folder.out(host) / "samples")
        runs = tuple(
            PartRun(host, run, samples.read(run.samples), read_requests(files.path(run.files[REQUESTS]).read_bytes()))
            for run in result.runs
        )
        parts.append(PartResult(host, result, runs))
    for run in range(2):
        moments = {part.runs[run].result.facts["barrier"]["start_at_epoch_ns"] for part in parts}
        assert len(moments) == 1
        late = [part.runs[run].result.facts["barrier"]["began_after_s"] for part in parts]
        assert all(0 <= one < 0.5 for one in late), late
    merged, _ = merge_point(whole(here.folder.read_job(0)), parts)
    assert merged.error is None, merged.error
    starts = merged.runs[0].facts["merged"]["starts"]
    assert starts["met"]
    assert starts["skew_s"] < 0.5
    assert starts["clocks_apart_s_at_least"] == 0, "both ran on one machine"
    assert merged.metrics["concurrency"].median == pytest.approx(4, rel=0.1)
    (check,) = [one for one in merged.checks if one.name == "load delivered"]
    assert "the clients began within" in check.detail, check


def test_a_service_that_failed_is_the_result_of_the_job(campaign):
    here = campaign(definition())
    publish_failure(
        here.folder, here.group, "llm", Problem("service-ended", "it has no model", "services.llm", "get one")
    )
    assert here.start("task", "0").wait(PATIENCE_S) == 3, log(here)
    error = here.result()["runs"][0]["error"]
    assert (error["code"], error["message"], error["try_"]) == ("service-ended", "it has no model", "get one")
    assert here.result()["state"] == "failed"


def test_nobody_waits_for_a_client_that_cannot_come(campaign):
    load = {"concurrency": 2, "duration": 1.0, "hosts": 2}
    target = {"endpoint": "http://127.0.0.1:9", "api": "openai-chat", "model": "sim"}
    here = campaign(definition(services={}, target=target, load=load, measure={"timeout": 600.0}), kind="clients")
    clients = [here.start("task", "0"), here.start("task", "1")]
    assert [one.wait(PATIENCE_S) for one in clients] == [3, 3], log(here)  # of the ten minutes that they could wait
    errors = {here.result(host)["runs"][0]["error"]["code"] for host in range(2)}
    assert errors <= {"endpoint-refused", "barrier-absent"}


def test_a_cancelled_client_frees_the_others_and_leaves_no_process(campaign):
    load = {"concurrency": 2, "duration": 1.0, "hosts": 2}
    here = campaign(definition(load=load))
    service = here.start("service", "llm")
    here.service()
    clients = [here.start("task", "0")]
    wait_for(waits_for_others(here, 0).exists, what="the client")
    clients[0].send_signal(signal.SIGTERM)
    assert clients[0].wait(PATIENCE_S) == 143
    clients.append(here.start("task", "1"))
    request_end(here.folder, here.group)
    service.wait(PATIENCE_S)
    for run in range(1):
        assert (here.folder.barrier(here.group, run) / "absent-0.json").exists()
    clients[1].kill()


def test_a_place_or_a_group_that_is_not_there_is_reported(campaign):
    here = campaign(definition())
    assert here.start("task", "7").wait(PATIENCE_S) == 2
    assert "none at 7" in log(here)
    here.group = "point-9999"
    assert here.start("task", "0").wait(PATIENCE_S) == 2
    assert "has no group 'point-9999'" in log(here)
