from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from assay.errors import StoreError
from assay.report.answer import write_answer
from assay.report.html import fragment_html, render_html
from assay.report.html.chart import axis_for, close_axis, el
from assay.report.html.samples import MOST_POINTS, thin


def nothing(job_id: str, run_id: int) -> tuple:
    return ()


def unreadable(job_id: str, run_id: int) -> tuple:
    raise StoreError("the sample file is gone")


def parsed(page: str) -> ET.Element:
    return ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize("kind", ["honest", "hostile", "campaign"])
def test_the_page_is_well_formed_and_needs_nothing_else(build, kind):
    page = render_html(getattr(build, kind)(), build.samples)
    root = parsed(page)
    links = [value for node in root.iter() for name, value in node.attrib.items() if name in ("href", "src")]
    assert all(link.startswith("#") for link in links)
    assert not list(root.iter("script"))
    policy = next(node.get("content") for node in root.iter("meta") if node.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_every_link_leads_somewhere(build):
    root = parsed(render_html(build.honest(), build.samples))
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    assert {node.get("href", "")[1:] for node in root.iter("a")} <= set(ids)


def test_hostile_names_stay_text(build):
    page = render_html(build.hostile(), build.samples)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in fragment_html(build.hostile())


def test_attributes_are_escaped():
    assert el("a", "x", title='"><b>') == '<a title="&quot;&gt;&lt;b&gt;">x</a>'


def test_every_picture_is_reported_in_words(build):
    root = parsed(render_html(build.honest(), build.samples))
    figures = list(root.iter("figure"))
    # One overview; distribution, cold start, memory and time for each of the three measured jobs.
    assert len(figures) == 1 + 3 * 4
    for figure in figures:
        chart = figure.find("svg")
        assert chart.find("title").text
        assert chart.find("desc").text
    reading = next(node for node in root.iter("section") if node.get("id") == "reading")
    kinds = [node.text for node in reading.iter("dt")]
    assert kinds == ["All jobs", "Run by run", "Cold start and warm calls", "Memory", "Over time"]


def test_a_failed_job_shows_why_and_no_pictures(build):
    root = parsed(render_html(build.campaign(build.failed_job(0)), build.samples))
    section = next(node for node in root.iter("section") if node.get("id") == "job-0")
    told = "".join(section.itertext())
    assert "out-of-memory" in told
    assert "std::bad_alloc" in told
    assert not list(section.iter("svg"))


def test_without_samples_the_medians_of_the_runs_are_drawn(build):
    for samples in (nothing, unreadable):
        root = parsed(render_html(build.campaign(build.done_job()), samples))
        assert not [node for node in root.iter("path") if node.get("class") == "violin"]
        assert len(list(root.iter("circle"))) >= 5


def test_samples_that_are_not_numbers_are_left_out(build):
    def with_holes(job_id, run_id):
        sets = build.samples(job_id, run_id)
        return tuple(replace(part, value=np.where(np.arange(part.value.size) % 7, part.value, np.nan)) for part in sets)

    assert "nan" not in render_html(build.campaign(build.done_job()), with_holes).replace("governor", "")


def test_unbacked_percentiles_say_what_they_need(build):
    page = render_html(build.campaign(build.suspect_job()), build.samples)
    assert '<span title="p99 needs 662 samples" class="absent">–</span>' in page


def test_a_hundred_runs_stay_small(build):
    job = build.done_job()
    stats = job.metrics["latency_ms"]
    many = replace(stats, run_values={i: stats.median + i / 100 for i in range(100)}, runs=100)
    runs = tuple(replace(job.runs[0], run_id=i) for i in range(100))
    page = render_html(build.campaign(replace(job, metrics={"latency_ms": many}, runs=runs)), build.samples)
    assert len(page) < 600_000
    assert "The first 20 of 100 runs are drawn." in page


def test_thinning_keeps_the_extremes():
    value = np.random.default_rng(1).random(50_000)
    value[12_345], value[40_000] = 9.0, -9.0
    at, kept = thin(np.arange(50_000.0), value)
    assert kept.size <= MOST_POINTS
    assert (kept.max(), kept.min()) == (9.0, -9.0)
    assert (np.diff(at) > 0).all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (11.99, 12.18), (-3.0, 7.0), (5.0, 5.0), (1e-7, 3e-7), (0, 4e9)])
def test_ticks_are_round_and_hold_the_values(low, high):
    axis = axis_for((low, high))
    assert axis.low <= low <= high <= axis.high
    assert 2 <= len(axis.ticks) <= 8
    assert len({axis.label(tick) for tick in axis.ticks}) == len(axis.ticks)
    assert close_axis(low, high).share(high) <= 1


def test_a_wide_range_gets_a_logarithmic_axis():
    axis = axis_for((1.0, 5000.0), may_log=True)
    assert axis.log
    assert [axis.label(tick) for tick in axis.ticks] == ["1", "10", "100", "1,000", "10,000"]


def test_the_fragment_is_small_and_has_no_style_of_its_own(build):
    text = fragment_html(build.honest())
    ET.fromstring(text)
    assert "<style" not in text
    assert "suspect – batch=8 threads=2: machine quiet" in text
    assert re.search(r">12\.09</td>.*\[11\.99, 12\.18\]", text)


def test_the_page_begins_with_the_answer_and_has_its_reasons_once(build):
    page = render_html(build.honest(), build.samples)
    first = write_answer(build.honest()).sentences[0]
    assert page.index('class="answer-box"') < page.index('id="overview"')
    assert first in html.unescape(page[page.index('class="answer-box"') :][:2000])
    overview = page[page.index('id="overview"') : page.index('class="job ')]
    assert overview.index("All jobs, the best first") < overview.index("Reasons for doubt")
    assert "machine busy" in overview
