"""A real model server as a service: started by us, ready, asked, scraped by the probes, and gone."""

from __future__ import annotations

import httpx
import psutil
import pytest
from tests.support.model_server import SCRIPT, servers_python
from tests.unit.run.services.conftest import is_gone

from assay.run.probes import service_probe
from assay.run.services import started
from assay.spec.benchmark import Service

pytestmark = pytest.mark.live


def test_a_language_model_is_started_measured_and_ended(scratch):
    command = (str(servers_python()), SCRIPT.name, "--port", "{port}", "--parallel", "2", "--context", "512")
    model = Service(command=command, ready={"http": "/health", "within": 120.0})
    with started({"llm": model}, SCRIPT.parent, scratch) as running:
        one = running["llm"]
        assert 0.05 < one.start_to_ready_s < 120
        pids, urls = {"llm": one.pid}, {"llm": f"{one.base_url}/metrics"}
        with service_probe(scratch=scratch, scrapes=urls, pids=pids, every_s=0.2, gpus=False) as probe:
            body = {"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
            answer = httpx.post(f"{one.base_url}/v1/completions", json=body, timeout=120, trust_env=False).json()
            telemetry = probe.finish((one.ready_ns, one.ready_ns + 3600 * 10**9))
    assert "Paris" in answer["choices"][0]["text"]
    told = telemetry.facts["server"]["llm"]["series"]
    assert told["llamacpp:tokens_predicted_total"]["per_s"] > 0
    assert telemetry.facts["processes"]["llm"]["rss_mb_max"] > 100
    assert is_gone(one.pid)
    assert not psutil.pid_exists(one.pid)
    assert "SmolLM2-135M at http" in one.stdout.read_text()


def test_the_script_says_what_is_missing(scratch, tmp_path):
    import subprocess
    import sys

    # -S: an interpreter without any package.
    done = subprocess.run([sys.executable, "-S", SCRIPT, "--port", "1"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install xllamacpp" in done.stderr
