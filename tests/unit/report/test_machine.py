"""The machine before and after a job, side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.report import watched

from assay.report.html import render_html
from assay.report.machine import fitness_sheet
from assay.report.markdown import render_markdown
from assay.report.terminal import render_job

build = watched.build


def states(before, after):
    job = watched.job()
    return replace(job, environment={"before": {"fitness": before}, "after": {"fitness": after}})


def test_known_readings_stand_side_by_side():
    rows = {row[0]: row[1:] for row in fitness_sheet(watched.job()).rows}
    assert rows["governor"] == ("performance", "performance")
    assert rows["hottest sensor"] == ("50.0 °C (coretemp)", "62.0 °C (coretemp)")
    assert rows["room until it slows down"] == ("50.0 °C (coretemp)", "38.0 °C (coretemp)")
    assert rows["other programs"] == ("1.2 % of all cores", "1.2 % of all cores")
    assert rows["control, integers"] == ("20.40 ms (+1.5 %; ±3.0 % is usual)", "20.40 ms (-0.4 %; ±3.0 % is usual)")
    assert rows["control, memory"] == ("8.000 ms", "8.000 ms")
    assert rows["clock held down"] == ("no", "no")
    assert rows["GPU 0, temperature"] == ("40.0 °C", "52.0 °C")
    assert rows["GPU 0, programs of others"] == ("other (pid 99)", "other (pid 99)")
    assert rows["free memory"] == ("8.0 GiB", "8.0 GiB")


def test_what_was_not_read_says_why_and_is_no_row():
    sheet = fitness_sheet(states({"absent": {"governor": "no cpufreq"}, "clock": {"source": "tsc"}}, {}))
    assert sheet.rows == (("clock source", "tsc", "-"),)
    assert sheet.notes == ("not read: governor: no cpufreq",)


@pytest.mark.parametrize(
    "odd", [{"processor": None, "gpus": "none", "heat": {"hottest": 3}}, {"gpus": [1, {"index": 0}]}]
)
def test_states_of_another_version_do_not_break_a_report(odd):
    sheet = fitness_sheet(states(odd, odd))
    assert sheet is None or sheet.rows == ()


def test_older_results_have_no_such_table():
    assert fitness_sheet(build.done_job()) is None
    assert "before and after" not in render_job(build.done_job())


def test_every_form_shows_it():
    job = watched.job()
    for text in (render_job(job, width=120), render_markdown(build.campaign(job))):
        assert "hottest sensor" in text
        assert "±3.0 % is usual" in text
    page = render_html(build.campaign(job), build.samples)
    assert "The machine before and after" in page
    assert "<b>no</b>" not in page
