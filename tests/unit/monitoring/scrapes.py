"""Scrapes whose truth is known: a node that is 50 % busy, a server that ends 20 requests a second."""

from __future__ import annotations

import numpy as np

from assay.store.telemetry import Metrics, ScrapedSeries

BEGIN = 1_794_700_000.0


def series(name, labels, value, *, at=None, kind=""):
    """One series; a scrape a second from the beginning unless moments are given."""
    value = np.asarray(value, dtype=np.float64)
    at = np.arange(value.size, dtype=np.float64) if at is None else np.asarray(at, dtype=np.float64)
    return ScrapedSeries(name, labels, kind, np.round((BEGIN + at) * 1e3).astype(np.int64), value)


def node(name="n1", seconds=20, **more) -> list[ScrapedSeries]:
    """A node with two processors of which one is busy, 4 of 16 GB used, 3 MB a second coming in."""
    told = {"node": name, "job": "assay", "campaign": "c1", "instance": f"{name}:9100", **more}
    at = np.arange(seconds, dtype=np.float64)
    rows = [series("up", told, np.ones(seconds))]
    for cpu, (user, idle) in enumerate(((1.0, 0.0), (0.0, 1.0))):
        rows.append(series("node_cpu_seconds_total", {**told, "cpu": str(cpu), "mode": "user"}, user * at + 100))
        rows.append(series("node_cpu_seconds_total", {**told, "cpu": str(cpu), "mode": "idle"}, idle * at + 500))
    rows += [
        series("node_memory_MemTotal_bytes", told, np.full(seconds, 16e9)),
        series("node_memory_MemAvailable_bytes", told, np.full(seconds, 12e9)),
        series("node_network_receive_bytes_total", {**told, "device": "eth0"}, 3e6 * at),
        series("node_network_receive_bytes_total", {**told, "device": "lo"}, 9e9 * at),
    ]
    return rows


def server(name="llm", seconds=20, **more) -> list[ScrapedSeries]:
    """A server that ends 20 requests a second in two ways, runs 4 and lets 2 wait."""
    told = {"node": "n1", "service": name, "job": "assay", "campaign": "c1", "instance": "n1:9100", **more}
    at = np.arange(seconds, dtype=np.float64)
    return [
        series("up", told, np.ones(seconds)),
        series("assay_service_has_metrics", told, np.ones(seconds)),
        series("vllm:request_success_total", {**told, "finished_reason": "stop"}, 15 * at, kind="counter"),
        series("vllm:request_success_total", {**told, "finished_reason": "length"}, 5 * at, kind="counter"),
        series("vllm:num_requests_running", told, np.full(seconds, 4.0), kind="gauge"),
        series("vllm:num_requests_waiting", told, np.full(seconds, 2.0), kind="gauge"),
        series("vllm:kv_cache_usage_perc", told, np.full(seconds, 0.25), kind="gauge"),
        series("vllm:generation_tokens_total", {**told, "model_name": "m"}, 320 * at, kind="counter"),
    ]


def metrics(*found, seconds=20, phases=(), notes=None) -> Metrics:
    """All of it in one record."""
    return Metrics(tuple(found), 1.0, BEGIN, BEGIN + seconds, tuple(phases), notes or {})
