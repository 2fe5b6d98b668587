"""The pictures of a job as the report and the dashboard share them: looks from classes alone, and true numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from importlib.resources import files

import numpy as np
import pytest
from tests.unit.report import loads, watched

from assay.report.html.chart import Chart, Numbers, axis_for, close_axis
from assay.report.html.load import draw_curves, draw_goodput
from assay.report.html.pictures import job_pictures
from assay.report.wording import job_labels

build = watched.build
STYLE = files("assay.report.html").joinpath("chart.css").read_text("utf-8")
ELEMENTS = {"svg", "g", "title", "desc", "line", "rect", "circle", "path", "text"}
ATTRIBUTES = {
    "class", "role", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d", "width", "height", "viewBox",
    "preserveAspectRatio", "overflow", "vector-effect",
}  # fmt: skip
GROUPS = {"latency", "runs", "time", "cold", "telemetry", "load", "llm", "device", "other"}


@pytest.fixture(scope="module")
def rates():
    return loads.over_rates()


@pytest.fixture(scope="module")
def pictures(rates):
    record, samples = rates
    found = {
        "plain": job_pictures(build.done_job(), build.samples, lambda *_: None),
        "watched": job_pictures(watched.job(), build.samples, watched.files),
        "device": job_pictures(watched.device_job(), build.samples, lambda *_: None),
        "load": job_pictures(record.jobs[-1], samples, lambda *_: None),
        "search": job_pictures(loads.searched()[0].jobs[0], loads.searched()[1], lambda *_: None),
        "curves": [*draw_curves(record, job_labels(record), {}), *draw_goodput(record)],
    }
    return [(kind, one) for kind, group in found.items() for one in group]


def by_key(pictures, kind):
    return {one.key: one for of, one in pictures if of == kind}


def test_there_is_a_picture_of_every_kind(pictures):
    assert {one.group for _, one in pictures} == GROUPS
    for kind in ("plain", "watched", "device", "load", "search", "curves"):
        keys = [one.key for of, one in pictures if of == kind]
        assert keys
        assert len(keys) == len(set(keys))


def test_a_picture_has_no_style_of_its_own_and_nothing_that_could_act(pictures):
    for _, one in pictures:
        root = ET.fromstring(one.svg)
        assert root.tag == "svg"
        assert {node.tag for node in root.iter()} <= ELEMENTS
        assert {name for node in root.iter() for name in node.attrib} <= ATTRIBUTES
        assert root.findtext("title")
        assert root.findtext("desc")


def test_every_class_of_the_frame_has_its_rule(pictures):
    frames = {name for _, one in pictures for name in ET.fromstring(one.svg).get("class").split()} - {"chart"}
    assert frames
    for frame in frames:
        assert re.search(rf"\.chart(\.[\w-]+)*\.{frame}[ .:]", STYLE), frame


@pytest.mark.parametrize("left", [1, 8, 9, 21, 52, 53, 100, 182, 999])
def test_any_margin_finds_one_that_there_is_a_rule_for(left):
    drawn = Chart("t", "d", axis_for((0.0, 1.0)), "x", 10, left=left).draw()
    room = int(re.search(r"left-(\d+)", drawn)[1])
    assert min(left, 182) <= room <= max(left + 13, 8)
    assert (
        f".chart.left-{room} {{ margin-left: {room}px; margin-right: 22px; width: calc(100% - {room + 22}px); }}"
        in STYLE
    )


def test_every_picture_has_its_numbers(pictures):
    for kind, one in pictures:
        numbers = one.numbers()
        assert numbers.rows, (kind, one.key)
        assert all(len(row) == len(numbers.columns) for row in numbers.rows), (kind, one.key)
        assert len(set(numbers.columns)) == len(numbers.columns)
        assert all(
            cell is None or isinstance(cell, str | int) or np.isfinite(cell) for row in numbers.rows for cell in row
        )


def test_the_numbers_of_a_distribution_are_those_of_the_runs(pictures):
    job = build.done_job()
    stats = job.metrics["latency_ms"]
    numbers = by_key(pictures, "plain")["runs:latency_ms"].numbers()
    runs = {row[0]: row[2] for row in numbers.rows}
    assert {run: pytest.approx(value) for run, value in runs.items() if run != "all runs"} == {
        str(run): value for run, value in stats.run_values.items()
    }
    whole = dict(zip(numbers.columns, numbers.rows[-1], strict=True))
    assert whole["interval low"] == pytest.approx(stats.interval.low)
    assert whole["interval high"] == pytest.approx(stats.interval.high)


def test_few_samples_have_no_quantiles():
    job = build.done_job()
    numbers = next(
        one for one in job_pictures(job, lambda *_: (), lambda *_: None) if one.key == "runs:latency_ms"
    ).numbers()
    assert {cell for row in numbers.rows[:-1] for cell in row[3:]} == {None}


def test_the_numbers_of_a_curve_are_those_of_the_jobs(pictures, rates):
    record, _ = rates
    numbers = by_key(pictures, "curves")["curve:load.rate"].numbers()
    for row, job in zip(numbers.rows, record.jobs, strict=True):
        stats = job.metrics["ttft_ms"]
        assert row[:5] == pytest.approx(
            (job.point["load.rate"], stats.p50, stats.interval.low, stats.interval.high, stats.p99)
        )
        assert row[-1] == job.job


def test_goodput_falls_behind_what_was_finished(pictures, rates):
    record, _ = rates
    drawn = by_key(pictures, "curves")["goodput:load.rate"]
    last = dict(zip(drawn.numbers().columns, drawn.numbers().rows[-1], strict=True))
    assert last["goodput, 1/s"] == pytest.approx(record.jobs[-1].metrics["goodput_per_s"].median)
    assert last["goodput, 1/s"] < last["finished, 1/s"]
    assert draw_goodput(build.campaign(build.done_job())) == []


def test_telemetry_reports_each_reading_once(pictures):
    rows = by_key(pictures, "watched")["telemetry"].numbers().rows
    assert {"Processor", "Memory", "Power", "Phase"} <= {row[0] for row in rows}
    assert len(rows) == len(set(rows))


def test_hostile_names_stay_text():
    for job in build.hostile().jobs:
        for one in job_pictures(job, build.samples, lambda *_: None) if job.state == "done" else ():
            ET.fromstring(one.svg)
            assert "<script" not in one.svg


def test_numbers_are_short_and_what_is_none_is_absent():
    told = Numbers.of(("a", "b", "c", "d"), [(1 / 3, float("nan"), "x", 7), (float("inf"), None, "y", 0)])
    assert told.rows == ((0.33333333, None, "x", 7), (None, None, "y", 0))


def test_many_shares_are_those_of_each():
    values = np.array([-1.0, 0.001, 0.5, 3.0, 900.0, 5000.0])
    for axis in (close_axis(0.0, 10.0), axis_for((0.01, 1000.0), may_log=True)):
        assert axis.shares(values) == pytest.approx([axis.share(one) for one in values.tolist()])
