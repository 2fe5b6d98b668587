"""One load shared by two agents of a real server, against a simulated model server: together they are the load."""

import json
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest
from tests.live.agent.test_with_server import ASSAY, Fleet, wait_for
from tests.support.simulated import llm_server

from assay.engines.fleet import read
from assay.engines.shared_load import merge

pytest.importorskip("fastapi", reason="the server's packages are not installed")
pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]

RATE, SECONDS = 40.0, 4.0


@pytest.fixture
def fleet(tmp_path):
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def benchmark(url, **load):
    return {
        "benchmark": "shared",
        "target": {"endpoint": url, "api": "openai-chat", "model": "sim"},
        "workload": {"output_tokens": 8},
        "load": {"rate": RATE, "arrivals": "constant", "duration": f"{SECONDS}s", "hosts": 2, **load},
        "measure": {"runs": 1, "warmup": "1s", "timeout": "60s"},
        "place": {"engine": "fleet"},
    }


@pytest.mark.quiet
def test_two_agents_share_a_load_and_their_samples_are_one_result(fleet, tmp_path):
    """The agents start one after another: no part begins before there are two."""
    with llm_server(ttft_ms=20, itl_ms=5, tokens=8) as sim:
        fleet.start_agent("one")
        wait_for(lambda: list(fleet.client.pages("/agents")), what="the first agent")
        file = tmp_path / "shared.json"
        file.write_text(json.dumps(benchmark(sim.url)))
        command = [*ASSAY, "run", str(file), "--server", fleet.url, "--format", "json", "--fail-on", "never"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        fleet.stack.callback(running.kill)
        (campaign,) = wait_for(lambda: list(fleet.client.pages("/campaigns")), what="the campaign")
        jobs = fleet.jobs(campaign["id"])
        assert [job["state"] for job in jobs.values()] == ["pending", "pending"]
        fleet.start_agent("two")
        out, errors = running.communicate(timeout=240)
        assert running.returncode == 0, errors
        truth = sim.records()
    assert len({job["agent"] for job in fleet.jobs(campaign["id"]).values()}) == 2, "each part on its own agent"

    found = merge(read(fleet.client, campaign["id"]))
    whole, *parts = found.beside_parts.jobs
    assert (whole.point, [part.point for part in parts]) == ({}, [{"load.host": 0}, {"load.host": 1}])
    assert whole.error is None, whole.error
    facts = whole.runs[0].facts
    assert facts["merged"]["length_s"] > SECONDS / 2
    assert whole.metrics["offered_per_s"].median == pytest.approx(RATE, rel=0.03)
    assert whole.metrics["throughput_per_s"].median == pytest.approx(RATE, rel=0.05)
    assert whole.metrics["output_tokens_per_s"].median == pytest.approx(8 * RATE, rel=0.05)
    for part in parts:
        assert part.metrics["offered_per_s"].median == pytest.approx(RATE / 2, rel=0.05)
    assert facts["requests"]["due"] == sum(one["due"] for one in facts["merged"]["of"])
    assert whole.metrics["e2e_ms"].count == facts["requests"]["ok"] == facts["requests"]["due"]
    served = (truth.first_ns - truth.arrival_ns) / 1e6
    # Latency counts from when a request was due: a machine too busy to send in time adds to it, and the check says so.
    delivered = {check.name: check for check in whole.checks}["load delivered"]
    late_ms = 60 if delivered.passed is False else 6
    assert np.median(served) - 6 < whole.metrics["ttft_ms"].median < np.median(served) + late_ms, delivered

    printed = json.loads(out)
    assert [job["job"] for job in printed["jobs"]] == [whole.job, *(part.job for part in parts)]
    told = subprocess.run(
        [*ASSAY, "merge", campaign["id"], "--server", fleet.url, "--out", str(tmp_path / "out"), "--fail-on", "never"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr
    assert "host=0" in told.stdout
    assert "host=1" in told.stdout
    assert len(list((tmp_path / "out").iterdir())) == 3
