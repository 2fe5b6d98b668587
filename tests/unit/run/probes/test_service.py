"""Watching real processes and real endpoints from another process, with known truth."""

from __future__ import annotations

import csv
import gzip
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from time import perf_counter_ns, sleep

import psutil
import pytest
from tests.support.model_server import smollm2
from tests.support.running_server import wait_for
from tests.unit.run.children import children
from tests.unit.run.services.conftest import await_gone

from assay.run.probes import SERVICE_FILE, service_probe
from assay.run.probes.service_sampler import GpuSeries

pytestmark = pytest.mark.live


@pytest.fixture
def endpoint():
    """A server whose counter grows by exactly 100 a second, by the clock."""
    seen: list[dict[str, str]] = []
    begin_ns = perf_counter_ns()

    class Metrics(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append(dict(self.headers))
            elapsed_s = (perf_counter_ns() - begin_ns) / 1e9
            text = f'# TYPE done_total counter\ndone_total{{kind="a"}} {100 * elapsed_s}\n# TYPE open gauge\nopen 3\n'
            body = {"/metrics": text, "/page": "<html>"}.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_): ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.seen = seen
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


def rows(path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


@pytest.mark.quiet
def test_counters_come_on_our_clock(tmp_path, endpoint, monkeypatch):
    monkeypatch.setenv("SCRAPE_KEY", "sesame-1234")
    headers = {"Authorization": "Bearer ${env:SCRAPE_KEY}"}
    urls = {"llm": f"{endpoint.url}/metrics"}
    with service_probe(scratch=tmp_path, scrapes=urls, headers=headers, every_s=0.1, gpus=False) as probe:
        begin = perf_counter_ns()
        sleep(1.5)
        end = perf_counter_ns()
        telemetry = probe.finish((begin, end))
        assert probe.finish((0, 1)) is telemetry
    told = telemetry.facts["server"]["llm"]
    assert told["series"]['done_total{kind="a"}']["per_s"] == pytest.approx(100, rel=0.05)
    assert told["series"]["open"] == {"mean": 3.0, "max": 3.0}
    assert told["covers"]["inside_window"]
    scrapes = telemetry.facts["scrapes"]["llm"]
    assert scrapes["failed"] == 0
    assert 8 <= scrapes["asked"] <= 20
    assert 0 < telemetry.facts["probe_cpu_s"] < 5
    assert telemetry.absent == {}
    assert endpoint.seen[0]["Authorization"] == "Bearer sesame-1234"
    kept = rows(telemetry.file)
    assert telemetry.file == tmp_path / SERVICE_FILE
    assert len(kept) == telemetry.rows == 2 * scrapes["asked"]
    first = kept[0]
    assert (first["source"], first["name"], json.loads(first["labels"])) == ("llm", "done_total", {"kind": "a"})
    assert begin - 1e9 < int(first["at_ns"]) < end


@pytest.mark.parametrize(
    ("path", "says"), [("/nothing", "status 404"), ("/page", "not the Prometheus text format: line 1")]
)
def test_an_endpoint_that_reports_nothing_is_absent_with_its_reason(tmp_path, endpoint, path, says):
    urls = {"llm": endpoint.url + path}
    with service_probe(scratch=tmp_path, scrapes=urls, every_s=0.05, gpus=False) as probe:
        wait_for(lambda: len(endpoint.seen) >= 3, what="three scrapes")  # the first two have been read by then
        telemetry = probe.finish((0, perf_counter_ns()))
    assert says in telemetry.absent["server:llm"]
    assert telemetry.facts["scrapes"]["llm"]["failed"] >= 2
    assert telemetry.file is None


def test_an_endpoint_that_nobody_serves_ends_nothing(tmp_path):
    urls = {"llm": "http://127.0.0.1:9/metrics"}
    with service_probe(scratch=tmp_path, scrapes=urls, every_s=0.05, gpus=False) as probe:
        telemetry = probe.finish((0, perf_counter_ns()))
    assert "refused" in telemetry.absent["server:llm"]


def test_an_unset_secret_is_named_and_nothing_is_sent(tmp_path, endpoint):
    headers = {"Authorization": "${env:NOT_SET_ANYWHERE}"}
    with service_probe(scratch=tmp_path, scrapes={"llm": endpoint.url}, headers=headers, gpus=False) as probe:
        telemetry = probe.finish((0, perf_counter_ns()))
    assert "NOT_SET_ANYWHERE" in telemetry.absent["server:llm"]
    assert endpoint.seen == []


BUSY = """
import subprocess, sys, threading, time
child = subprocess.Popen([sys.executable, "-c", "import time; data = bytearray(50_000_000); time.sleep(600)"])
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("up", flush=True)
while True:  # half a core
    until = time.thread_time() + 0.005
    while time.thread_time() < until: pass
    time.sleep(0.005)
"""


@pytest.mark.quiet
def test_a_process_tree_is_read(tmp_path):
    service = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    try:
        service.stdout.readline()
        sleep(0.3)  # the child takes its memory
        with service_probe(scratch=tmp_path, pids={"llm": service.pid}, gpus=False) as probe:
            before, begin = psutil.Process(service.pid).cpu_times(), perf_counter_ns()
            sleep(1.5)
            end, after = perf_counter_ns(), psutil.Process(service.pid).cpu_times()
            telemetry = probe.finish((begin, end))
    finally:
        for one in (*psutil.Process(service.pid).children(), service):
            one.kill()
        service.wait()
        service.stdout.close()
    truth_pct = 100 * (after.user + after.system - before.user - before.system) / ((end - begin) / 1e9)
    told = telemetry.facts["processes"]["llm"]
    assert told["cpu_pct"] == pytest.approx(truth_pct, abs=15)
    assert told["rss_mb_max"] > 50
    assert told["threads_max"] >= 3
    assert told["processes_max"] == 2
    assert {row["name"] for row in rows(telemetry.file)} == {"cpu_s", "rss_bytes", "threads", "processes"}


def test_a_process_that_is_gone_is_absent(tmp_path):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    with service_probe(scratch=tmp_path, pids={"llm": done.pid}, gpus=False) as probe:
        sleep(0.2)
        telemetry = probe.finish((0, perf_counter_ns()))
    assert telemetry.absent == {"process:llm": f"process {done.pid} has ended"}


def watchers() -> list[psutil.Process]:
    return children("assay.run.probes")


def test_a_watcher_that_is_killed_is_reported_and_ends_nothing(tmp_path):
    with service_probe(scratch=tmp_path, pids={"llm": os.getpid()}, gpus=False) as probe:
        (watcher,) = watchers()
        watcher.send_signal(signal.SIGKILL)
        telemetry = probe.finish((0, perf_counter_ns()))
    assert telemetry.absent == {"telemetry": "the watching process ended with code -9"}


def test_no_watcher_stays_when_the_body_raises(tmp_path):
    with pytest.raises(RuntimeError), service_probe(scratch=tmp_path, gpus=False):
        raise RuntimeError
    assert watchers() == []


def test_the_watcher_ends_with_who_started_it(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from assay.run.probes import service_probe\n"
        "with service_probe(scratch=Path(sys.argv[1]), gpus=False) as p:\n"
        "    print(p._process.pid, flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    with holder.stdout:
        pid = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
    await_gone(pid)


def test_it_loads_nothing_heavy():
    code = "import runpy, sys; import assay.run.probes.service_sampler; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pydantic", "pyarrow", "httpx"} & {name.partition(".")[0] for name in loaded}


def test_gpus_are_absent_with_a_reason_where_there_is_no_library():
    def load(name: str):
        raise ImportError

    assert "pynvml is not installed" in GpuSeries(load).absent


def test_llama_cpp_reports_its_own_view_of_a_real_model(tmp_path):
    import httpx

    with smollm2() as url, service_probe(scratch=tmp_path, scrapes={"llm": f"{url}/metrics"}, every_s=0.3) as probe:
        begin = perf_counter_ns()
        body = {"messages": [{"role": "user", "content": "Count to twenty."}], "max_tokens": 24, "temperature": 0}
        usage = []
        for _ in range(2):
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120, trust_env=False)
            usage.append(answer.json()["usage"]["completion_tokens"])
        sleep(0.7)
        telemetry = probe.finish((begin, perf_counter_ns()))
    view = telemetry.server_view["llm"]
    seconds = telemetry.facts["server"]["llm"]["covers"]["seconds"]
    # The counter moves when an answer is complete: the first scrapes may miss part of the first one, never more.
    assert 0 < view["output_tokens_per_s"]["value"] * seconds <= sum(usage) + 1
    assert view["tpot_ms.mean"]["from"] == "llamacpp:tokens_predicted_seconds_total"
    assert 1 < view["tpot_ms.mean"]["value"] < 2000
    assert telemetry.facts["scrapes"]["llm"]["failed"] == 0
    names = {row["name"] for row in rows(telemetry.file)}
    assert {"llamacpp:tokens_predicted_total", "llamacpp:requests_processing"} <= names
