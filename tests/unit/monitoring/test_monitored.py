"""Known scrapes must come out as known figures; what was not scraped is not in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.monitoring.scrapes import BEGIN, metrics, node, series, server

from assay.analyse.telemetry import summary, together, watched


def figures(found):
    return {(one["of"], one["what"]): (one["mean"], one["max"]) for one in summary(found)["figures"]}


def test_the_figures_are_the_truth():
    told = figures(metrics(*node(), *server()))
    assert told["n1", "cpu_busy_pct"] == pytest.approx((50.0, 50.0))
    assert told["n1", "memory_used_bytes"] == pytest.approx((4e9, 4e9))
    assert told["n1", "net_in_bytes_per_s"] == pytest.approx((3e6, 3e6))  # the loopback is no network
    assert told["llm", "requests_per_s"] == pytest.approx((20.0, 20.0))
    assert told["llm", "output_tokens_per_s"] == pytest.approx((320.0, 320.0))
    assert told["llm", "running"] == (4.0, 4.0)
    assert told["llm", "waiting"] == (2.0, 2.0)
    assert told["llm", "cache_used_pct"] == pytest.approx((25.0, 25.0))


def test_figures_are_of_the_measured_window_alone():
    rows = server()
    busy = series("vllm:num_requests_running", rows[4].labels, [0.0] * 10 + [8.0] * 10, kind="gauge")
    found = metrics(*rows[:4], busy, phases=[("warmup", BEGIN, BEGIN + 10), ("measure", BEGIN + 10, BEGIN + 19)])
    told = summary(found)
    assert told["over"] == "the measured window"
    assert figures(found)["llm", "running"] == (8.0, 8.0)
    assert figures(replace(found, phases=()))["llm", "running"] == (4.0, 8.0)


def test_failed_and_missing_scrapes_are_counted():
    labels = {"node": "n1", "job": "j"}
    up = series("up", labels, [1, 1, 0, 1], at=[0, 1, 2, 9])
    assert summary(metrics(up))["targets"] == {"node n1": {"scrapes": 4, "failed": 1, "gaps": 1}}


def test_a_restarted_server_has_no_rate_where_it_began_again():
    labels = {"service": "llm", "node": "n1"}
    value = np.array([0.0, 20, 40, 60, 0, 20, 40])
    found = metrics(series("vllm:request_success_total", labels, value, kind="counter"))
    (one,) = summary(found)["figures"]
    assert (one["mean"], one["max"], one["resets"], one["readings"]) == (20.0, 20.0, 1, 5)


def test_a_service_without_metrics_says_so():
    found = metrics(*node(), series("assay_service_has_metrics", {"service": "db", "node": "n1"}, np.zeros(20)))
    assert summary(found)["absent"] == {"service db": "the service answers, and has no metrics there"}


def test_gpus_are_distinguished_by_node_and_number():
    rows = [
        series("DCGM_FI_DEV_POWER_USAGE", {"node": name, "gpu": gpu}, np.full(5, watts))
        for name, gpu, watts in (("n1", "0", 500.0), ("n1", "1", 80.0), ("n2", "0", 300.0))
    ]
    rows.append(series("DCGM_FI_DEV_FB_USED", {"node": "n1", "gpu": "0"}, np.full(5, 1024.0)))
    told = figures(metrics(*rows))
    assert told["n1 GPU 0", "gpu_power_w"] == (500.0, 500.0)
    assert told["n2 GPU 0", "gpu_power_w"] == (300.0, 300.0)
    assert told["n1 GPU 0", "gpu_mem_bytes"] == (2**30, 2**30)


def test_two_exporters_of_one_node_are_not_added_up():
    found = metrics(*node(), *node(instance="n1:9101", seconds=10))
    assert figures(found)["n1", "cpu_busy_pct"] == pytest.approx((50.0, 50.0))


def test_nothing_scraped_is_nothing_reported():
    assert watched(metrics()) == []
    assert summary(metrics())["figures"] == []


def test_the_clients_of_one_load_have_each_node_and_the_service_once():
    parts = [summary(metrics(*node(name), *server())) for name in ("n1", "n2")]
    told = together([*parts, None, "x"])
    assert set(told["targets"]) == {"node n1", "node n2", "service llm"}
    names = [(one["of"], one["what"]) for one in told["figures"]]
    assert len(names) == len(set(names))
    assert {("n1", "cpu_busy_pct"), ("n2", "cpu_busy_pct"), ("llm", "requests_per_s")} <= set(names)
    assert together([None, {}]) is None
