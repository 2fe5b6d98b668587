"""The hardware itself in every form of report: one line for each test, curves with their plateau and doubt."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from tests.unit.report import watched

from assay.report.device import device_sheet, device_tests, show_size
from assay.report.html import render_html
from assay.report.html.pictures import draw_device, size_axis
from assay.report.html.plots import HEIGHT
from assay.report.markdown import render_markdown
from assay.report.terminal import render_job, render_table
from assay.report.wording import job_label

build = watched.build


@pytest.fixture(scope="module")
def job():
    return watched.device_job()


@pytest.fixture(scope="module")
def figures(job) -> dict[str, ET.Element]:
    return {one.title: ET.fromstring(one.figure()) for one in draw_device(job)}


def rows_of(job) -> dict[str, dict[str, str]]:
    sheet = device_sheet(job)
    return {row[0]: dict(zip(sheet.head, row, strict=True)) for row in sheet.rows}


def test_each_test_has_its_line(job):
    rows = rows_of(job)
    assert list(rows) == ["copy", "read", "fp64", "fp32", "bf16", "fp8"]
    bf16 = rows["bf16"]
    assert bf16["value"].startswith("788.")  # the median of three runs: 800 · 1.001 · (1 − 1/64)
    assert bf16["interval"].startswith("[")
    assert (bf16["unit"], bf16["at"]) == ("TFLOPS", "16384²")
    assert bf16["of the bare loop"] == "99 % [98.5, 99.7]"
    assert (bf16["clock"], bf16["temperature"], bf16["power"]) == ("1,980 MHz", "61.0 °C", "650 W")
    assert bf16["throttled"] == "GPU 0: power cap"
    assert rows["copy"]["throttled"] == "no"
    assert (rows["copy"]["unit"], rows["copy"]["at"]) == ("GB/s", "512.0 MiB")
    assert rows["copy"]["of the bare loop"] == "-"


def test_what_could_not_be_measured_says_why(job):
    assert rows_of(job)["fp8"]["value"] == "-"
    assert "fp8: not measured: this board has no FP8" in device_sheet(job).notes


def test_curves_are_medians_of_the_runs(job):
    copy = next(test for test in device_tests(job) if test.name == "copy")
    assert [point.size for point in copy.curve] == list(watched.SIZES)
    assert copy.curve[-1].value == pytest.approx(4004.0)
    assert (copy.curve[-1].low, copy.curve[-1].high) == (pytest.approx(4000.0), pytest.approx(4008.0))
    assert copy.plateau == tuple(float(size) for size in watched.SIZES if size >= 2**26)


def test_one_run_shows_the_spread_of_its_blocks(job):
    alone = replace(job, runs=job.runs[:1])
    point = device_tests(alone)[0].curve[-1]
    assert (point.low, point.value, point.high) == (3960.0, 4000.0, 4040.0)


def test_bandwidth_over_size_has_its_plateau_band(figures):
    drawn = figures["Memory bandwidth over size"]
    bands = [node for node in drawn.iter("rect") if node.get("class") == "band"]
    assert len(bands) == 2  # copy and read
    axis = size_axis([float(size) for size in watched.SIZES], "bytes")
    x, width = (float(bands[0].get(name).rstrip("%")) for name in ("x", "width"))
    assert x == pytest.approx(100 * axis.share(2**26), abs=0.01)
    assert x + width == pytest.approx(100 * axis.share(2**30), abs=0.01)
    assert axis.label(2**26) == "64 MiB"
    assert axis.share(2**30) == pytest.approx(0.8)  # the rest is for the names
    # The steps of the axis are even.
    assert axis.share(2**22) - axis.share(2**21) == pytest.approx(axis.share(2**30) - axis.share(2**29))


def test_precisions_stand_in_one_picture_with_their_names(figures):
    drawn = figures["Arithmetic over shape, by precision"]
    paths = [node for node in drawn.iter("path") if "trace" in (node.get("class") or "")]
    assert len(paths) == 3
    assert len({path.get("class") for path in paths}) == 3  # not by colour alone
    names = {text.text: float(text.get("y")) for text in drawn.iter("text") if text.text in watched.PEAKS}
    assert set(names) == set(watched.PEAKS)
    assert names["fp32"] - names["fp64"] >= 13.9  # nearly equal values, and yet both names can be read
    assert names["bf16"] < names["fp64"]
    assert max(names.values()) <= HEIGHT + 4
    whiskers = [node for node in drawn.iter("line") if node.get("class") == "whisker"]
    assert len(whiskers) == 3 * len(watched.SHAPES)


def test_every_picture_is_reported_in_words(figures):
    for title, figure in figures.items():
        chart = figure.find("svg")
        assert chart.findtext("title") == title
        assert chart.findtext("desc")
    assert "bf16: 788" in figures["Arithmetic over shape, by precision"].find("svg").findtext("desc")


def test_transfers_do_not_flatten_the_memory():
    job = watched.device_job(tests=("copy", "to_device", "from_device_pinned"))
    titles = [one.title for one in draw_device(job)]
    assert titles == ["Memory bandwidth over size", "Transfers over size"]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_terminal_shows_the_tests_once_and_stays_narrow(job, width):
    text = render_table(build.campaign(job), width=width)
    lines = text.split("\n\n")[0].splitlines()
    assert lines[0] == "cuda  valid"
    assert all(len(line) <= width for line in lines[1:8])
    assert text.count("788.") == 1
    assert re.search(r"^bf16 +788\.", text, re.MULTILINE)


def test_every_form_shows_the_tests(job):
    record = build.campaign(job)
    assert "99 % [98.5, 99.7]" in render_job(job, width=160)
    assert "| bf16 | 788." in render_markdown(record)
    page = render_html(record, build.samples)
    ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert "<summary>Device tests</summary>" in page
    assert "Arithmetic over shape, by precision" in page


def test_a_job_is_named_by_its_device():
    assert job_label({}, {"target": {"device": "cuda:1"}}) == "cuda:1"
    assert job_label({}, {"target": {"model": "a/b.onnx", "device": "cpu"}}) == "b.onnx"


def test_sizes_are_written_as_people_write_them():
    assert [show_size(2**28, "bytes"), show_size(8192, "n"), show_size(1, "cores"), show_size(16, "cores")] == [
        "256.0 MiB",
        "8192²",
        "1 core",
        "16 cores",
    ]


@pytest.mark.parametrize(
    "tests",
    [{}, {"copy": None}, {"copy": {"curve": "none"}}, {"copy": {"curve": [{"bytes": 1}, {"value": 2}, 3]}},
     {"copy": {"metric": "copy_gb_per_s", "curve": [{"bytes": 0, "value": 1.0}], "plateau": {"absent": "why"}}}],
)  # fmt: skip
def test_facts_of_another_version_do_not_break_a_report(job, tests):
    odd = replace(job, runs=tuple(replace(run, facts={"tests": tests}, seen=None) for run in job.runs))
    assert draw_device(odd) == []
    assert render_html(build.campaign(odd), build.samples)
    assert render_table(build.campaign(odd))


def test_jobs_on_models_are_no_devices():
    assert device_sheet(watched.job()) is None
    assert draw_device(watched.job()) == []
