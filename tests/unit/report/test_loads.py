"""Loads in every form of report: one table for speed and quality, curves with doubt, facts beside the numbers."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.report import loads

from assay.report.export import SARK_COLUMNS, render_csv
from assay.report.html import render_html
from assay.report.html.load import draw_recall, draw_tail
from assay.report.html.samples import draw_distribution
from assay.report.markdown import render_markdown
from assay.report.served import (
    errors_of,
    finish_reasons_of,
    load_label,
    load_sheet,
    search_sentences,
    server_view_of,
    token_facts_of,
)
from assay.report.terminal import render_job, render_table
from assay.report.wording import job_labels


@pytest.fixture(scope="module")
def rates():
    return loads.over_rates()


@pytest.fixture(scope="module")
def search():
    return loads.searched()


@pytest.fixture(scope="module")
def vectors():
    return loads.vectors()


def figures(page: str) -> dict[str, ET.Element]:
    root = ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    return {figure.findtext("h4", ""): figure for figure in root.iter("figure")}


def test_speed_and_quality_stand_in_one_table(rates) -> None:
    record, _ = rates
    found = load_sheet(record, job_labels(record))
    assert {"goodput/s", "ttft p50", "ttft p99", "itl p99", "tokens/s", "rouge_l", "errors", "cost"} <= set(found.head)
    row = dict(zip(found.head, found.rows[-1], strict=True))
    job = record.jobs[-1]
    assert float(row["rouge_l"]) == pytest.approx(job.metrics["rouge_l"].mean, abs=1e-3)
    assert float(row["ttft p99"]) == pytest.approx(job.metrics["ttft_ms"].p99, rel=0.01)
    assert row["errors"] == "0.4 %"
    assert row["cost"].endswith(" USD")
    assert row["load"] == "19/s"
    assert load_sheet(replace(record, jobs=()), {}) is None


def test_a_campaign_without_a_load_has_no_such_table(build) -> None:
    assert load_sheet(build.honest(), job_labels(build.honest())) is None
    assert "Times in ms" not in render_table(build.honest())


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_terminal_stays_narrow_and_keeps_what_matters(rates, width) -> None:
    text = render_table(rates[0], width=width)
    first = text.split("\n\n")[0].splitlines()
    assert all(len(line) <= width for line in first[:-1] if not line.startswith("Times"))
    assert "goodput/s" in first[0]
    assert "verdict" in first[0]
    assert ("cost" in first[0]) is (width == 160)


def test_the_markdown_has_the_same_table_and_the_failed_requests(rates) -> None:
    text = render_markdown(rates[0])
    assert "## Speed, quality and cost" in text
    assert "3 × timeout" not in text  # over three runs there are nine
    assert "| timeout | 9 | no end after 120 s |" in text
    assert "<b>" not in text


def test_csv_keeps_the_first_columns_where_they_were(rates) -> None:
    rows = list(csv.reader(io.StringIO(render_csv(rates[0]))))
    assert tuple(rows[0][:25]) == SARK_COLUMNS
    assert {"ttft_ms.p99", "goodput_per_s.median", "rouge_l.mean", "point.load.rate"} <= set(rows[0])


def test_facts_of_all_runs_are_added_up(rates) -> None:
    job = rates[0].jobs[-1]
    assert [(one.kind, one.count) for one in errors_of(job)] == [("timeout", 9), ("status 503", 3)]
    ends = {one.kind: one.count for one in finish_reasons_of(job)}
    assert ends["stop"] == 6
    assert ("output tokens counted by", "server usage") in token_facts_of(job)
    view = next(one for one in server_view_of(job) if one.statistic == "ttft_ms.p50")
    assert view.ours == job.metrics["ttft_ms"].p50
    assert view.theirs < view.ours


def of_buckets(job, **statistics):
    """The job with what a histogram of the server says."""
    view = {name: {"from": "vllm:time_to_first_token_seconds", **told} for name, told in statistics.items()}
    runs = tuple(replace(run, facts={**run.facts, "server_view": {"service": view}}) for run in job.runs)
    return replace(job, runs=runs)


def test_percentiles_of_the_servers_histograms_show_their_bucket(rates) -> None:
    told = {
        "ttft_ms.p50": {"value": 75.0, "between": [50.0, 100.0]},
        "ttft_ms.mean": {"value": 51.0, "count": 9},
        "ttft_ms.p99": {"value": None, "between": [2500.0, None]},
    }
    record = rates[0]
    job = of_buckets(record.jobs[-1], **told)
    text = render_job(job, width=140)
    assert "~75.00 (50.00…100.0)" in text
    assert "above 2,500" in text
    assert "~51.00" not in text, "a mean of a histogram is exact"
    assert "~ is estimated inside a bucket of the server's histogram" in text
    html = render_html(replace(record, jobs=(*record.jobs[:-1], job)), *rates[1:])
    assert "~75.00 (50.00…100.0)" in html
    assert "estimated inside a bucket" in html
    assert "estimated inside a bucket" not in render_job(record.jobs[0], width=140)


def test_skipped_requests_are_among_the_failed(rates) -> None:
    job = rates[0].jobs[0]
    runs = tuple(replace(run, metrics={**run.metrics, "skipped": 7.0}) for run in job.runs)
    assert [(one.kind, one.count) for one in errors_of(replace(job, runs=runs))] == [("skipped", 21)]


def test_one_job_in_full_reports_what_came_back(rates) -> None:
    text = render_job(rates[0].jobs[-1], width=120)
    for part in ("failed requests", "why answers ended", "how tokens were counted", "the server's own view"):
        assert part in text
    assert "vllm:time_to_first_token_seconds" in text


def test_latency_over_rate_has_the_knee_the_objective_and_the_doubt(rates) -> None:
    drawn = figures(render_html(*rates))
    curve = drawn["ttft_ms over rate"]
    text = "".join(curve.itertext())
    assert "knee at" in text
    assert "objective: ttft_ms.p99 at most 500" in text
    assert len([node for node in curve.iter("line") if node.get("class") == "whisker"]) == len(rates[0].jobs)
    assert {"ttft_ms: cumulative distribution", "itl_ms: cumulative distribution", "ttft_ms, run by run"} <= set(drawn)


def test_a_level_curve_gets_no_knee() -> None:
    record, samples = loads.over_rates((1.0, 1.5, 2.0, 2.5, 3.0, 3.5))
    text = "".join(figures(render_html(record, samples))["ttft_ms over rate"].itertext())
    assert "knee at" not in text
    assert "No knee is marked: the curve bends no more than noise explains" in text


def test_every_picture_of_a_load_is_reported_in_words(rates, search, vectors) -> None:
    for record, samples in (rates, search, vectors):
        for title, figure in figures(render_html(record, samples)).items():
            chart = figure.find("svg")
            assert title
            assert chart.find("desc").text


def test_a_search_shows_its_probes_and_its_answer(search) -> None:
    record, _ = search
    job = record.jobs[0]
    assert len(search_sentences(job)) == 3
    assert load_label(job) == "search"
    drawn = figures(render_html(*search))["ttft_ms.p99 at each probed rate"]
    marks = [node.get("class") for node in drawn.iter("circle")]
    crosses = [node for node in drawn.iter("path") if (node.get("class") or "").startswith("cross")]
    probes = [probe for run in job.runs for probe in run.facts["search"]["probes"]]
    assert len(marks) + len(crosses) == len(probes)
    assert marks.count("dot valid") == sum(probe["meets"] is True for probe in probes)
    assert len(crosses) == sum(probe["meets"] is False for probe in probes)
    assert "objective: at most 500" in "".join(drawn.itertext())
    assert "met at" in render_table(record)


def test_recall_over_speed(vectors) -> None:
    record, _ = vectors
    labels = job_labels(record)
    picture = draw_recall(record.jobs, labels, {job.job: "x" for job in record.jobs}).svg
    assert all(label in picture for label in labels.values())
    assert draw_recall(record.jobs[:1], labels, {job.job: "x" for job in record.jobs}) is None


def test_a_score_is_shown_by_its_mean(vectors) -> None:
    record, _ = vectors
    assert "0.6476 (mean)" in render_table(record)
    runs = record.jobs[0].metrics["recall"].run_values
    assert len(set(runs.values())) > 1  # medians of tenths would all be equal


def test_millions_of_samples_make_a_small_picture_fast(rates) -> None:
    rng = np.random.default_rng(0)
    samples = {run: rng.lognormal(2.3, 0.3, 1_000_000) for run in range(3)}
    stats = replace(rates[0].jobs[0].metrics["itl_ms"], run_values=dict.fromkeys(range(3), 10.0))
    tail = draw_tail("itl_ms", stats, samples, {"p99": 50.0}).figure()
    assert "3,000,000 samples, drawn through 240 of their percentiles" in tail
    assert len(tail) < 40_000
    assert len(draw_distribution("itl_ms", stats, samples, "ms").figure()) < 60_000


def test_hostile_words_of_a_server_stay_text(rates) -> None:
    assert "<b>now</b>" not in render_html(*rates)
    assert "&lt;b&gt;now&lt;/b&gt;" in render_html(*rates)
