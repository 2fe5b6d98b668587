"""The real Prometheus and the real node exporter: what is kept is what they, and the simulated server, really did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from urllib.parse import urlencode

import numpy as np
import psutil
import pytest
from tests.support.ports import free_port
from tests.unit.monitoring.conftest import PATIENCE_S, fetch, wait_for

from assay.analyse.telemetry import summary
from assay.api.run import run
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node.monitor import watched
from assay.errors import MeasureError
from assay.monitoring.discovery import ScrapeTarget, add_target, names, seen
from assay.monitoring.grafana import boards
from assay.monitoring.monitor import FACT
from assay.monitoring.prometheus import PrometheusApi
from assay.monitoring.scraper import MonitorOrder, read_parts, write_order
from assay.report.live import SilentView
from assay.run.probes.prometheus import parse
from assay.run.services import held
from assay.spec.benchmark import Monitoring, Ready, Service
from assay.store.telemetry import FILE, decode

pytestmark = [pytest.mark.live, pytest.mark.quiet]

SIM = "assay sim llm --port {port} --ttft 50ms --itl 10ms --seed 1"
# Gauges that the same kernel tells both exporters within a moment, and how far they may differ meanwhile.
ALIKE = {"node_memory_MemTotal_bytes": 0.0, "node_memory_MemAvailable_bytes": 0.1, "node_boot_time_seconds": 2e-9,
         "node_memory_SwapTotal_bytes": 0.0, "node_time_seconds": 2e-9}  # fmt: skip


class Notes(SilentView):
    """A view that remembers what was noted."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def service(**more):
    return {"command": SIM, "ready": {"http": "/health", "within": "60s"}, **more}


def benchmark(**more):
    return {
        "benchmark": "watched",
        "services": {"llm": service()},
        "target": {"service": "llm", "api": "openai-chat", "model": "sim"},
        "workload": {"output_tokens": 16},
        "load": {"concurrency": 4, "duration": "3s"},
        "measure": {"runs": 1, "warmup": "none"},
        "monitoring": True,
        **more,
    }


def prometheus_processes() -> set[int]:
    """Those that this test process, or something below it, started."""
    below = psutil.Process().children(recursive=True)
    return {one.pid for one in below if one.name() == "prometheus" and one.status() != psutil.STATUS_ZOMBIE}


@pytest.fixture(scope="module")
def own_exporter():
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "assay.monitoring.exporter", "--port", str(port)])
    try:
        wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def told_by(port):
    found = parse(fetch(port)[1])
    return found, {(one.name, one.labels): one.value for one in found.samples}


def test_the_own_exporter_says_what_the_node_exporter_says(node_exporter, own_exporter):
    theirs, before = told_by(node_exporter)
    ours, mine = told_by(own_exporter)
    _, after = told_by(node_exporter)
    shared = {name for name, _ in mine if name.startswith("node_")} & {name for name, _ in before}
    assert {
        "node_cpu_seconds_total",
        "node_memory_MemAvailable_bytes",
        "node_network_receive_bytes_total",
        "node_load1",
        "node_context_switches_total",
    } <= shared
    assert {name for name, _ in mine if name.startswith("node_")} - shared == set()  # no name of our own making
    for name in shared:
        assert ours.kinds[name] == theirs.kinds[name], name
    compared = 0
    for key, value in mine.items():
        if key not in before or key not in after:
            continue
        if ours.kinds[key[0]] == "counter":  # read between two looks of theirs, so it lies between them
            slack = 0.02 * (1 + len(os.sched_getaffinity(0))) if key[0] == "node_cpu_seconds_total" else 1e-6
            assert before[key] - slack <= value <= after[key] + slack, key
            compared += 1
        elif key[0] in ALIKE:
            assert value == pytest.approx(before[key], rel=ALIKE[key[0]], abs=2.0), key
            compared += 1
    assert compared > 20
    # Every processor and every interface that they name, we name.
    for name in ("node_cpu_seconds_total", "node_network_receive_bytes_total"):
        assert {labels for one, labels in before if one == name} <= {labels for one, labels in mine if one == name}


@pytest.fixture(scope="module")
def campaign(prometheus, tmp_path_factory):
    view = Notes()
    done = run(benchmark(), store=tmp_path_factory.mktemp("store"), view=view)
    return done, view.notes, prometheus_processes()


def test_a_local_campaign_keeps_what_was_scraped(campaign):
    done, notes, left = campaign
    assert any("Prometheus" in note and "http://127.0.0.1" in note for note in notes)
    assert left == set()  # it ended with the campaign
    job = done.jobs[0]
    (one,) = job.runs
    told = one.facts[FACT]
    assert told["over"] == "the measured window"
    assert told["absent"] == {}
    node = next(name for name in told["targets"] if name.startswith("node "))
    assert told["targets"][node]["failed"] == told["targets"]["service llm"]["failed"] == 0
    assert told["targets"]["service llm"]["scrapes"] >= 3
    kept = decode(done.file(job.job, 0, FILE))
    assert all({"campaign", "job", "node"} <= set(series.labels) for series in kept.series)
    assert {series.labels["job"] for series in kept.series} == {job.job}
    assert {series.labels.get("service") for series in kept.named("vllm:num_requests_running")} == {"llm"}
    assert {name for name, *_ in kept.phases} >= {"load", "measure"}


def test_the_figures_of_the_service_are_those_that_the_client_saw(campaign):
    done, *_ = campaign
    (one,) = done.jobs[0].runs
    told = {figure["what"]: figure for figure in one.facts[FACT]["figures"]}
    assert told["running"]["max"] == 4  # a scrape may also come while one has ended and the next not begun
    assert 2 <= told["running"]["mean"] <= 4
    assert told["requests_per_s"]["mean"] == pytest.approx(one.metrics["throughput_per_s"], rel=0.25)
    assert told["output_tokens_per_s"]["mean"] == pytest.approx(one.metrics["output_tokens_per_s"], rel=0.25)
    assert 0 < told["cpu_busy_pct"]["mean"] <= 110
    total = psutil.virtual_memory().total
    assert 0 < told["memory_used_bytes"]["mean"] < total


def test_the_reports_hold_it_without_any_prometheus(campaign):
    done, *_ = campaign
    assert "Nodes and services" in done.to_markdown()
    page = done.to_html()
    assert "Nodes and services while the job ran" in page
    assert "Requests running" in page


def test_without_prometheus_nothing_is_measured_unless_it_may_be(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_PROMETHEUS", "no-such-prometheus")
    plain = {"benchmark": "b", "target": {"command": "true"}, "measure": {"runs": 1}}
    with pytest.raises(MeasureError, match="no-such-prometheus"):
        run({**plain, "monitoring": True}, store=tmp_path / "a")
    view = Notes()
    done = run({**plain, "monitoring": {"required": False}}, store=tmp_path / "b", view=view)
    assert done.jobs[0].state == "done"
    assert any("not monitored" in note for note in view.notes)


@pytest.fixture
def shared(tmp_path):
    folder = SharedFolder(tmp_path / "c9")
    folder.make()
    write_order(folder.metrics, MonitorOrder("c9", Monitoring(within="20s")))
    return folder


def test_a_monitor_of_a_cluster_watches_a_node_and_its_service(prometheus, shared, tmp_path):
    command = [sys.executable, "-m", "assay.engines.slurm.node.monitor", str(shared.path)]
    environ = {**os.environ, "SLURMD_NODENAME": "n3", "SLURM_JOB_ID": "17"}
    monitor = subprocess.Popen(command, env=environ)
    notes = []
    sim = Service(command=SIM, ready=Ready(http="/health", within=60.0))
    try:
        # The port chosen for the service is known to nobody but the relay, and Prometheus still has it at once.
        with watched(
            shared, {"group": "g1"}, who="g1-llm", services=["llm"], host="127.0.0.1", notify=notes.append
        ) as on:
            assert on
            assert seen(shared.discovery) >= {"exporter-g1-llm", "service-llm-g1-llm"}
            with held({"llm": sim}, tmp_path, tmp_path):
                time.sleep(3.5)
        published = json.loads(shared.service("monitor", "monitor").read_text())
        assert (published["node"], published["slurm_job"]) == ("n3", "17")
        assert names(shared.discovery) == set()
        monitor.send_signal(signal.SIGTERM)
        assert monitor.wait(PATIENCE_S) == 0
    finally:
        monitor.kill()
        monitor.wait()
    assert notes == []
    kept = read_parts(shared.metrics)
    running = kept.named("vllm:num_requests_running")
    assert {one.labels["group"] for one in running} == {"g1"}
    assert {one.labels["campaign"] for one in kept.series} == {"c9"}
    assert sum(one.value.size for one in running) >= 2
    assert kept.named("node_cpu_seconds_total")
    assert json.loads((shared.metrics / "window.json").read_text())["interval_s"] == 1.0


HELD = """
import sys
from pathlib import Path
from assay.monitoring.scraper import MonitorOrder, hold
from assay.spec.benchmark import Monitoring
discovery, metrics, scratch, url = map(Path, sys.argv[1:5])
order = MonitorOrder("c9", Monitoring())
hold(order, discovery, metrics, scratch, publish=lambda one: url.write_text(one.api.url), stopped=lambda: False,
     part_every_s=1.0)
"""


def test_a_monitor_that_stands_still_leaves_a_gap_and_one_that_is_killed_its_parts(
    prometheus, shared, node_exporter, tmp_path
):
    add_target(shared.discovery, ScrapeTarget("node", f"127.0.0.1:{node_exporter}", {"campaign": "c9", "node": "n1"}))
    url = tmp_path / "url"
    places = (shared.discovery, shared.metrics, tmp_path / "scratch", url)
    monitor = subprocess.Popen([sys.executable, "-c", HELD, *map(str, places)])
    try:
        _until(lambda: len(list(shared.metrics.glob("part-*.parquet"))) >= 2)
        (pid,) = prometheus_processes()
        psutil.Process(pid).suspend()  # it scrapes nothing, and nothing may stand in its place
        time.sleep(4.0)
        psutil.Process(pid).resume()
        _until(lambda: read_parts(shared.metrics).named("up")[0].at_ms[-1] / 1e3 > time.time() - 1.5)
        _ask_every_dashboard(PrometheusApi(url.read_text()))
    finally:
        below = psutil.Process(monitor.pid).children(recursive=True)
        monitor.kill()
        monitor.wait()
    assert psutil.wait_procs(below, timeout=PATIENCE_S)[1] == []  # Prometheus went with it
    assert not (shared.metrics / FILE).exists()
    kept = read_parts(shared.metrics)
    assert kept.named("node_cpu_seconds_total")[0].kind == "counter"
    steps = np.diff(kept.named("up")[0].at_ms)
    assert steps.max() > 3000
    assert (steps > 0).all()
    assert summary(kept)["targets"]["node n1"]["gaps"] == 1


def _until(true):
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


def _ask_every_dashboard(api):
    """Every expression is one that Prometheus understands, and the busy share of the node is one."""
    told = {}
    for name, board in boards().items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$__rate_interval", "20s")
                for variable in ("campaign", "job", "node", "service"):
                    expression = expression.replace(f"${variable}", ".*")
                form = urlencode({"query": expression}).encode()
                told[name, panel["title"]] = api._request("POST", "/api/v1/query", form)["result"]
    (busy,) = told["client-nodes", "Processors busy"]
    assert 0 <= float(busy["value"][1]) <= 110
    assert told["service-nodes", "Processors busy"] == []  # no service has a node of its own here


def test_a_failed_monitor_and_a_missing_one_keep_nobody_waiting(shared, monkeypatch):
    shared.services("monitor").mkdir(parents=True, exist_ok=True)
    notes = []
    write_order(shared.metrics, MonitorOrder("c9", Monitoring(within="300ms")))
    with watched(shared, {"job": "j"}, who="g0", notify=notes.append) as on:
        assert not on
    assert "not there within" in notes[0]
    monkeypatch.setenv("ASSAY_PROMETHEUS", "no-such-prometheus")
    done = subprocess.run(
        [sys.executable, "-m", "assay.engines.slurm.node.monitor", str(shared.path)], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert "no-prometheus" in done.stderr
    with watched(shared, {"job": "j"}, who="g0", notify=notes.append) as on:
        assert not on
    assert "no-such-prometheus" in notes[1]
    (shared.metrics / "order.json").unlink()
    with watched(shared, {"job": "j"}, who="g0", notify=notes.append) as on:
        assert not on
    assert len(notes) == 2  # a campaign without monitoring is left alone
