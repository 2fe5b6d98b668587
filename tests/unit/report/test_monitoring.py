"""What Prometheus saw, in the reports: known scrapes must come out as known figures, lines, gaps and sentences."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.monitoring.scrapes import BEGIN, metrics, node, series, server
from tests.unit.report import conftest as build
from tests.unit.report import watched

from assay.analyse.telemetry import summary
from assay.report.html import render_html
from assay.report.html.monitoring import draw_monitoring, panels_of, pieces, read_metrics
from assay.report.machine import monitored_figures, monitoring_sheet, scrape_sentences, unscraped_sentences
from assay.report.markdown import render_markdown
from assay.report.terminal import render_job
from assay.store.telemetry import FILE, encode

PHASES = [("load", BEGIN, BEGIN + 5), ("measure", BEGIN + 5, BEGIN + 15)]
TITLE = "Nodes and services while the job ran"


def scraped(run=0, **more):
    """What was scraped of one run: a minute after the one before."""
    rows = [*node(), *server(), *more.pop("rows", [])]
    found = metrics(*rows, phases=PHASES, **more)
    at = 60 * run
    moved = tuple(replace(one, at_ms=one.at_ms + at * 1000) for one in found.series)
    phases = tuple((name, begin + at, end + at) for name, begin, end in found.phases)
    return replace(found, series=moved, begin_s=BEGIN + at, end_s=BEGIN + 20 + at, phases=phases)


def job(*found):
    """A job whose runs were scraped."""
    whole = watched.job()
    runs = tuple(
        replace(run, facts={**run.facts, "monitoring": summary(one)}, files={**run.files, FILE: "0" * 64})
        for run, one in zip(whole.runs, found, strict=False)
    )
    return replace(whole, runs=runs)


def files(*found):
    return lambda _job, run, name: encode(found[run]) if name == FILE else None


def curves(picture, title):
    """The points of each curve in the panel of a title, in thousandths of the picture."""
    for group in picture.iter("g"):
        texts = [text.text for text in group.findall("text")]
        if title in texts:
            return [
                np.array([[float(n) for n in point.split()] for point in svg.find("path").get("d")[1:].split("L")])
                for svg in group.findall("svg")
            ]
    return []


def test_the_table_has_mean_and_highest_of_all_runs():
    sheet = monitoring_sheet(job(scraped(), scraped(1)))
    rows = {row[:2]: row[2:] for row in sheet.rows}
    assert rows["n1", "Processors busy"] == ("50.0 %", "50.0 %", "22")
    assert rows["n1", "Memory used"] == ("3.7 GiB", "3.7 GiB", "22")
    assert rows["n1", "Network, in"][0] == "3.0 MB/s"
    assert rows["llm", "Requests ended"][:2] == ("20.0 1/s", "20.0 1/s")
    assert rows["llm", "Requests waiting"][:2] == ("2.0", "2.0")
    assert rows["llm", "KV cache used"][:2] == ("25.0 %", "25.0 %")


def test_how_the_scrapes_went_is_reported():
    bad = series("up", {"node": "n2", "job": "j"}, [1, 1, 0, 0], at=[0, 1, 2, 9])
    (told,) = scrape_sentences(job(scraped(rows=[bad])))
    assert "every 1 s" in told
    assert "node n1 20 times, none failed" in told
    assert "node n2 4 times (2 of them failed, 1 gap)" in told
    assert "the measured window" in told


def test_a_counter_that_began_again_and_a_service_without_metrics_are_reported():
    again = series("vllm:prompt_tokens_total", server()[0].labels, [0, 5, 10, 3, 8, 13, 18, 23, 28, 33], kind="counter")
    silent = series("assay_service_has_metrics", {"service": "db", "node": "n1"}, np.zeros(20))
    notes = " ".join(monitoring_sheet(job(scraped(rows=[again, silent]))).notes)
    assert "Counters began again, and that step has no rate: llm: tokens in (1 ×)." in notes
    assert "not scraped: service db: the service answers, and has no metrics there" in notes


def test_why_a_run_has_no_metrics_is_reported():
    whole = watched.job()
    lost = replace(whole.runs[0], absent={FILE: "Prometheus does not answer"})
    assert unscraped_sentences(replace(whole, runs=(lost,))) == ["no metrics: Prometheus does not answer"]
    assert monitoring_sheet(replace(whole, runs=(lost,))).notes == ("no metrics: Prometheus does not answer",)


def test_a_job_that_nobody_watched_says_nothing():
    assert monitoring_sheet(watched.job()) is None
    assert draw_monitoring(watched.job(), lambda *_: None) is None
    assert "nodes and services" not in render_job(watched.job())


@pytest.mark.parametrize("told", [None, [], {"figures": "x", "targets": 3}, {"figures": [{"of": "n"}], "absent": []}])
def test_facts_of_another_shape_are_no_failure(told):
    whole = watched.job()
    strange = replace(whole, runs=(replace(whole.runs[0], facts={"monitoring": told}),))
    assert monitored_figures(strange) == []
    monitoring_sheet(strange)


def test_every_form_of_report_has_it():
    found = scraped()
    one = job(found)
    assert "Processors busy" in render_job(one)
    assert "| llm | Requests ended | 20.0 1/s | 20.0 1/s | 11 |" in render_markdown(build.campaign(one))
    page = render_html(build.campaign(one), lambda *_: (), files(found))
    assert TITLE in page
    assert "<summary>Nodes and services</summary>" in page


def test_lines_are_where_the_values_are_and_runs_follow_each_other():
    found = (scraped(), scraped(1))
    picture = ET.fromstring(draw_monitoring(job(*found), files(*found)).figure())
    first, second = curves(picture, "Requests running")
    assert first[:, 1].tolist() == pytest.approx([0.0] * len(first), abs=0.2)  # 4 is the top of the axis
    assert first[-1][0] == pytest.approx(1000 * 19 / 80, abs=0.5)
    assert second[0][0] == pytest.approx(1000 * 60 / 80, abs=0.5)
    titles = [rect.find("title").text for rect in picture.iter("rect") if rect.find("title") is not None]
    names = [one.partition(",")[0] for one in titles]
    assert names == ["run 1", "load", "measure", "run 2", "load", "measure"]


def test_a_gap_is_no_line():
    labels = server()[0].labels
    broken = series("vllm:num_requests_swapped", labels, [1.0])
    gauge = series(
        "vllm:num_requests_running", {**labels, "service": "b"}, [4.0] * 10, at=[0, 1, 2, 3, 4, 14, 15, 16, 17, 18]
    )
    found = scraped(rows=[gauge, broken])
    panel = next(one for one in panels_of([found], BEGIN) if one.title == "Requests running")
    course = dict(panel.lines)["b"]
    assert course.gaps == 1
    assert [(at[0], at[-1]) for at, _ in pieces(course)] == [(0.0, 4.0), (14.0, 18.0)]
    assert "Where a line is broken, scrapes are missing;" in draw_monitoring(job(found), files(found)).caption


def test_of_many_nodes_the_busiest_are_drawn():
    rows = [one for number in range(2, 8) for one in node(f"n{number}")]
    found = scraped(rows=rows)
    panel = next(one for one in panels_of([found], BEGIN) if one.title == "Processors busy")
    assert len(panel.lines) == 3
    assert panel.left_out == 4


def test_a_lost_or_damaged_file_costs_its_lines_alone():
    found = scraped()
    whole = job(found, found)
    assert set(read_metrics(whole, lambda _job, run, _name: encode(found) if run == 0 else b"rubbish")) == {0}
    assert draw_monitoring(whole, lambda *_: None) is None


def test_names_of_others_cannot_break_the_page():
    hostile = scraped(rows=[*server("<script>alert(1)</script>")])
    page = draw_monitoring(job(hostile), files(hostile)).figure()
    assert "<script>" not in page
    ET.fromstring(page)


def test_what_was_zero_all_the_time_is_reported_and_not_drawn():
    quiet = series("vllm:prompt_tokens_total", server()[0].labels, np.zeros(20), kind="counter")
    found = scraped(rows=[quiet])
    page = draw_monitoring(job(found), files(found)).figure()
    assert "Zero all the time: tokens in." in page
    assert curves(ET.fromstring(page), "Tokens in, 1/s") == []
