"""What pages and programs read of a result."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.report import conftest as build

from assay.serve.web.reading import MetricView


def test_a_score_is_shown_by_its_mean_which_its_interval_is_about() -> None:
    stats = replace(build.done_job().metrics["latency_ms"], mean=0.66, median=0.7)
    assert MetricView.of(stats, "recall").median == 0.66
    assert MetricView.of(stats, "latency_ms").median == 0.7
