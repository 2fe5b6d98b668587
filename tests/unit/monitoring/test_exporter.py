"""The own exporter: a strict reader understands it, GPUs have DCGM's names, and services are passed on as they are."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from assay.monitoring.exporter import GpuExporter, MetricFamily, answers, machine_families, relayed, render, serving
from assay.run.probes.prometheus import parse


class Board:
    """Two GPUs, of which the second is lost; values as an H200 tells them."""

    facts: ClassVar = [
        {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "570.1", "memory_bytes": 150_754_820_096},
        {"index": 1},
    ]
    count = 2

    def read(self, index):
        if index:
            raise RuntimeError("GPU is lost")
        return {
            "gpu_util_pct": 97.0,
            "gpu_mem_bytes": 68_719_476_736.0,
            "power_w": 612.25,
            "sm_mhz": 1980.0,
            "mem_mhz": 3201.0,
            "temperature_c": 58.0,
            "energy_j": 1234.5,
            "throttle_bits": 4.0,
        }


@contextmanager
def server(answer):
    """A server that answers every GET the same way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, content_type, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{one.server_port}"
        one.shutdown()


def announce(folder, name, url):
    (folder / f"{name}.json").write_text(json.dumps({"url": url}))


def test_a_strict_reader_understands_the_machine():
    told = parse(render(machine_families()))
    names = {one.name for one in told.samples}
    assert {
        "node_cpu_seconds_total",
        "node_load1",
        "node_memory_MemTotal_bytes",
        "node_memory_MemAvailable_bytes",
        "node_network_receive_bytes_total",
        "node_time_seconds",
        "node_boot_time_seconds",
    } <= names
    assert told.kinds["node_cpu_seconds_total"] == "counter"
    assert {
        mode
        for one in told.samples
        if one.name == "node_cpu_seconds_total"
        for key, mode in one.labels
        if key == "mode"
    } >= {"user", "system", "idle"}


def test_labels_are_escaped():
    text = render([MetricFamily("a", "gauge", "x", (({"l": 'q"\\\n'}, 1.0),))])
    assert parse(text).samples[0].labels == (("l", 'q"\\\n'),)


def test_memory_fields_with_parentheses_are_named_as_the_node_exporter_does(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 16 kB\nActive(anon): 3 kB\nHugePages_Total: 7\n")
    told = {one.name: one.values[0][1] for one in machine_families(tmp_path)}
    assert told["node_memory_MemTotal_bytes"] == 16384
    assert told["node_memory_Active_anon_bytes"] == 3072
    assert "node_memory_HugePages_Total_bytes" not in told


def test_gpus_have_the_names_and_units_of_dcgm_and_a_lost_one_says_nothing():
    told = {one.name: one for one in parse(render(GpuExporter(Board).families())).samples}
    assert {name: one.value for name, one in told.items()} == {
        "DCGM_FI_DEV_GPU_UTIL": 97.0,
        "DCGM_FI_DEV_FB_USED": 65536.0,
        "DCGM_FI_DEV_POWER_USAGE": 612.25,
        "DCGM_FI_DEV_SM_CLOCK": 1980.0,
        "DCGM_FI_DEV_MEM_CLOCK": 3201.0,
        "DCGM_FI_DEV_GPU_TEMP": 58.0,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1234500.0,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 4.0,
        "DCGM_FI_DEV_FB_TOTAL": 143771.0,
    }
    labels = dict(told["DCGM_FI_DEV_GPU_UTIL"].labels)
    assert (labels["gpu"], labels["UUID"], labels["modelName"], labels["device"]) == (
        "0",
        "GPU-1",
        "NVIDIA H200",
        "nvidia0",
    )


def test_a_service_is_passed_on_as_it_is(tmp_path):
    body = b'# TYPE x counter\nx_total{a="b"} 3'
    with server(lambda path: (200, "text/plain; version=0.0.4", body if path == "/m" else b"")) as url:
        announce(tmp_path, "llm", f"{url}/m")
        said = relayed(tmp_path, "llm", 1.0)
    assert said.status == 200
    assert said.body.startswith(body)
    assert parse(said.body.decode()).samples[-1].name == "assay_service_has_metrics"
    assert parse(said.body.decode()).samples[-1].value == 1


@pytest.mark.parametrize(
    "answer",
    [(404, "text/plain", b"no"), (200, "text/html", b"<html>"), (200, "text/plain", b"<!doctype html>"),
     (200, "application/json", b"{}")],
)  # fmt: skip
def test_a_service_without_metrics_is_no_failed_scrape(tmp_path, answer):
    with server(lambda _: answer) as url:
        announce(tmp_path, "db", f"{url}/metrics")
        said = relayed(tmp_path, "db", 1.0)
    assert said.status == 200
    (one,) = parse(said.body.decode()).samples
    assert (one.name, one.value) == ("assay_service_has_metrics", 0)


def test_a_service_that_fails_or_does_not_run_fails_its_scrape(tmp_path):
    assert relayed(tmp_path, "llm", 1.0).status == 503
    announce(tmp_path, "llm", "http://127.0.0.1:9/metrics")
    assert relayed(tmp_path, "llm", 1.0).status == 502
    with server(lambda _: (500, "text/plain", b"broken")) as url:
        announce(tmp_path, "llm", url)
        assert relayed(tmp_path, "llm", 1.0).status == 502


@pytest.mark.parametrize("name", ["../../etc/passwd", "", ".hidden", "a/b", "a%2fb"])
def test_a_name_never_leaves_the_folder(tmp_path, name):
    (tmp_path.parent / "secret.json").write_text('{"url": "http://127.0.0.1:1/"}')
    assert relayed(tmp_path, name, 1.0).status == 404


def test_the_server_answers_scrapes_and_nothing_else(tmp_path):
    answer = answers(lambda: [MetricFamily("a", "gauge", "x", (({}, 1.0),))], tmp_path, 1.0)
    with serving("127.0.0.1", 0, answer) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        connection = HTTPConnection("127.0.0.1", one.server_port, timeout=60)
        told = {}
        for path in ("/metrics", "/relay/llm", "/", "/etc/passwd", "/metrics/x"):
            connection.request("GET", path)
            got = connection.getresponse()
            told[path] = (got.status, got.read())
        connection.close()
        one.shutdown()
    assert told["/metrics"][0] == 200
    assert parse(told["/metrics"][1].decode()).samples[0].value == 1
    assert [told[path][0] for path in ("/relay/llm", "/", "/etc/passwd", "/metrics/x")] == [503, 200, 404, 404]
