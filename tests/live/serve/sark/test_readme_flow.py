"""The commands of SARK's README, word for word but for host and model, against a real server and a real agent."""

from __future__ import annotations

import csv
import functools
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest
from tests.support.running_server import PATIENCE_S, wait_for

from assay.report.export import SARK_COLUMNS

pytestmark = [pytest.mark.live, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")]

CREATE = """
curl -X POST $ORCHESTRATOR_HOST/api/campaigns \\
  -H "Content-Type: application/json" \\
  -d '{
    "model_url": "%s",
    "jobs": [
      {
        "compute_unit": "CPU (ONNX)",
        "num_inference_runs": 10
      }
    ]
  }'
"""
FILES = "curl $ORCHESTRATOR_HOST/api/results/files"
MONITOR = "curl $ORCHESTRATOR_HOST/api/campaigns/%s"
DOWNLOAD = "curl $ORCHESTRATOR_HOST/api/campaigns/%s/results > results.csv"


@pytest.fixture
def model_url(tiny_model):
    """A web server that has the model."""
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tiny_model.parent)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{tiny_model.name}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def host(tmp_path):
    """A server and an agent, each a process."""
    started = []

    def start(*words, log):
        with (tmp_path / log).open("wb") as out:
            environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store"), "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen([sys.executable, "-m", "assay", *words], stdout=out, stderr=out, env=environment)
        started.append(process)

    start("serve", "--port", "0", log="server.log")
    log = tmp_path / "server.log"
    url = wait_for(lambda: re.search(r"listening on (\S+)", log.read_text()), what="the server's address")[1]
    start("agent", "start", "--server", url, "--state", str(tmp_path / "agent"), "--min-free", "1MB", log="agent.log")
    yield url
    for process in reversed(started):
        process.terminate()
        process.wait(PATIENCE_S)


def test_the_readme_of_sark_gives_a_finished_campaign_and_its_csv(host, model_url, tmp_path):
    def shell(command):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "ORCHESTRATOR_HOST": host},
        )
        return json.loads(done.stdout) if done.stdout else None

    made = shell(CREATE % model_url)
    assert (made["status"], made["total_jobs"]) == ("running", 1)
    campaign = made["campaign_id"]
    wait_for(lambda: shell(MONITOR % campaign)["status"] != "running", what="the campaign's end")
    assert shell(MONITOR % campaign)["status"] == "completed"
    assert [file["filename"].startswith(campaign) for file in shell(FILES)["files"]] == [True]
    shell(DOWNLOAD % campaign)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert tuple(rows[0]) == SARK_COLUMNS
    row = rows[0]
    assert (row["Status"], row["FileName"], row["ComputeUnits"]) == ("Complete", "tiny.onnx", "CPU (ONNX)")
    assert float(row["InferenceMsMedian"]) > 0
    assert float(row["LoadMsStdDev"]) > 0  # several loads, each in a process of its own
