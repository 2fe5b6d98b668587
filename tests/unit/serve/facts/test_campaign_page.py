"""The pictures over all jobs of a campaign."""

from __future__ import annotations

from tests.unit.report import conftest as build

from assay.serve.facts.campaign_page import panels_of_campaign


def test_every_headline_metric_is_drawn_over_all_measured_jobs() -> None:
    panels = panels_of_campaign(build.campaign(build.done_job(0, threads=1), build.done_job(1, threads=2)))
    (overview,) = panels.items
    assert overview.title == "latency_ms of all jobs"
    assert [row[0] for row in overview.rows] == ["batch=1 threads=1", "batch=1 threads=2"]
    assert panels.absent == {}


def test_what_cannot_be_drawn_says_why() -> None:
    assert "measured" in panels_of_campaign(build.campaign(build.failed_job(0))).absent["pictures"]
    many = build.campaign(*(build.done_job(n, batch=n + 1) for n in range(201)))
    assert "more than 200 jobs" in panels_of_campaign(many).absent["pictures"]
