"""Energy with its grade, prices, and jobs side by side per watt."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest
from tests.unit.report import watched

from assay.report.export import SARK_COLUMNS, render_csv
from assay.report.html import render_html
from assay.report.markdown import render_markdown
from assay.report.telemetry import (
    efficiency_sheet,
    energy_columns,
    energy_sentence,
    energy_sheet,
    grade_of,
    price_sentence,
    used_by,
    with_grade,
)
from assay.report.terminal import render_job, render_table
from assay.report.wording import job_labels
from assay.run.records import Energy

build = watched.build


def with_energy(*facts: dict):
    """A job whose runs tell of their energy in turn."""
    job = watched.job()
    told = [facts[place % len(facts)] for place in range(len(job.runs))]
    runs = zip(job.runs, told, strict=True)
    return replace(job, runs=tuple(replace(run, facts={**run.facts, "energy": energy}) for run, energy in runs))


def test_the_sentence_has_amount_source_and_idle_power():
    sentence = energy_sentence(watched.job())
    assert re.fullmatch(
        r"12\.30\d* J per item, 720\.\d+ W on average, read from the NVML energy counter of GPU 0 and the RAPL counter "
        r"of package-0; 121\.0 W when idle",
        sentence,
    )


@pytest.mark.parametrize(
    ("grade", "source", "words"),
    [
        ("counter", "NVML energy counter of GPU 0", "read from the NVML energy counter of GPU 0"),
        ("sampled", "NVML power of GPU 0", "summed from samples of the NVML power of GPU 0"),
        ("estimated", "combined power of powermetrics", "estimated from the combined power of powermetrics"),
    ],
)
def test_each_grade_is_reported_in_its_own_words(grade, source, words):
    job = with_energy(watched.energy_facts(grade, source, idle_w=None))
    assert energy_sentence(job).endswith(words)  # and no idle power, as that was not read
    assert grade_of(job) == grade
    assert with_grade("energy_j", "energy_j", job) == f"energy_j [{grade}]"
    assert with_grade("latency_ms", "latency_ms", job) == "latency_ms"


def test_readings_that_are_far_apart_for_the_window_are_said():
    facts = watched.energy_facts()
    rough = with_energy({**facts, "low_j": 7000.0, "high_j": 7300.0}, {**facts, "low_j": 6900.0, "high_j": 7300.0})
    doubt = "; the energy is known to -3.3 % to +1.4 %, as its readings are far apart for this window"
    assert energy_sentence(rough).endswith(doubt)
    fine = with_energy({**facts, "low_j": 7150.0, "high_j": 7250.0})
    assert "known to" not in energy_sentence(fine)


def test_grades_are_never_put_together():
    job = with_energy(watched.energy_facts("counter", "counter A"), watched.energy_facts("sampled", "power B"))
    assert "read from the counter A; summed from samples of the power B" in energy_sentence(job)
    assert grade_of(job) == "counter and sampled"


def test_a_source_that_is_not_the_jobs_own_stands_in_the_table_alone():
    """A second board that the job did not use was read, too."""
    job = watched.job()
    both = (*watched.seen().energy, Energy("NVML energy counter of GPU 1", "gpu", 900.0, 10.0, "counter"))
    job = replace(job, runs=tuple(replace(run, seen=watched.seen(energy=both)) for run in job.runs))
    assert "GPU 1" not in energy_sentence(job)
    assert [one.source for one in used_by(job)][-1] == "NVML energy counter of GPU 1"
    assert energy_sheet(job).rows[-1][0] == "NVML energy counter of GPU 1"


def test_without_a_metric_per_item_the_window_is_reported():
    job = watched.job()
    kept = {name: stats for name, stats in job.metrics.items() if not name.startswith("energy_per")}
    assert re.match(r"7,?200\.\d+ J in the measured window, 720\.", energy_sentence(replace(job, metrics=kept)))


def test_what_is_absent_says_why():
    job = watched.unseen_job()
    assert energy_sentence(job) == "no energy: /sys/class/powercap is not there"
    assert energy_sheet(job) is None
    older = build.done_job()
    assert energy_sentence(replace(older, runs=tuple(replace(run, absent={}) for run in older.runs))) == ""
    record = build.campaign(job)
    assert "no energy: /sys/class/powercap is not there" in render_job(job)
    assert "no energy: /sys/class/powercap is not there" in render_markdown(record)
    assert "<dt>no energy</dt><dd>/sys/class/powercap is not there</dd>" in render_html(record, build.samples)
    assert "\nenergy " not in render_table(record)


def test_where_only_the_probe_reports_the_reason_it_is_used():
    job = watched.unseen_job()
    silent = replace(job, runs=tuple(replace(run, absent={}) for run in job.runs))
    assert energy_sentence(silent) == "no energy: /sys/class/powercap is not there"


def test_each_source_has_its_line():
    sheet = energy_sheet(watched.job())
    assert sheet.rows[0] == ("NVML energy counter of GPU 0", "6,020", "602.0", "81.00", "counter", "gpu", "5")
    assert sheet.head == ("read from", "J", "W", "W when idle", "grade", "of", "runs")
    assert sheet.rows[1][:5] == ("RAPL counter of package-0", "1,200", "120.0", "40.00", "counter")


def test_what_the_readings_leave_open_has_its_column():
    job = watched.job()
    board, package = watched.seen().energy
    energy = (replace(board, low_j=5900.0, high_j=6100.0), package)
    sheet = energy_sheet(replace(job, runs=tuple(replace(run, seen=watched.seen(energy=energy)) for run in job.runs)))
    assert sheet.head[1:3] == ("J", "known between")
    assert [row[2] for row in sheet.rows] == ["5,900 to 6,100", "-"]


def test_metrics_made_of_energy_show_their_grade_in_every_table():
    job = watched.job()
    assert re.search(r"energy_per_item_j \[counter\] +12\.3", render_job(job, width=140))
    page = render_html(build.campaign(job), build.samples)
    assert "energy_per_item_j [counter]</span>" in page
    assert re.search(r"<summary>Energy and price</summary><(p|ul) class=.quiet.>(<li>)?12\.3", page)
    assert re.search(r"^energy   batch=1 threads=1: 12\.3", render_table(build.campaign(job)), re.MULTILINE)


def test_csv_gets_columns_at_its_end_and_only_where_something_was_sampled():
    record = build.campaign(watched.job(), watched.unseen_job())
    rows = list(csv.DictReader(io.StringIO(render_csv(record))))
    header = list(rows[0])
    assert tuple(header[:25]) == SARK_COLUMNS
    assert header[header.index("Error") + 1 :] == [
        "EnergyGrade",
        "EnergySource",
        "IdlePowerW",
        "NoEnergy",
        "PricePerHour",
        "PriceCurrency",
        "PriceDate",
        "Throttled",
    ]
    assert (rows[0]["EnergyGrade"], rows[0]["IdlePowerW"], rows[0]["PricePerHour"]) == ("counter", "121.0", "2.5")
    assert rows[0]["EnergySource"] == "NVML energy counter of GPU 0; RAPL counter of package-0"
    assert rows[0]["PriceDate"] == "2026-01-30"
    assert "power cap" in rows[0]["Throttled"]
    assert (rows[1]["EnergyGrade"], rows[1]["NoEnergy"]) == ("", "/sys/class/powercap is not there")
    assert float(rows[0]["energy_per_item_j.median"]) == pytest.approx(12.3, rel=1e-3)
    assert energy_columns(build.done_job()) == {}
    assert "EnergyGrade" not in render_csv(build.campaign(build.done_job()))


def test_the_price_is_reported_with_its_day():
    assert price_sentence(watched.job()) == "2.5 USD an hour (looked up 2026-01-30)"
    assert price_sentence(build.done_job()) == ""


def test_jobs_stand_side_by_side_per_watt_and_per_price():
    record = build.campaign(watched.job(), replace(watched.job(1), point={"workload.batch": 8}))
    sheet = efficiency_sheet(record, job_labels(record))
    assert sheet.head == (
        "job",
        "throughput/s",
        "W",
        "J/item",
        "items/J",
        "items per price",
        "grade",
        "price",
        "verdict",
    )
    row = dict(zip(sheet.head, sheet.rows[0], strict=True))
    assert row["items/J"].startswith("0.0815")
    assert row["grade"] == "counter"
    assert row["price"] == "2.5 USD an hour (looked up 2026-01-30)"
    for text in (render_table(record, width=160), render_markdown(record), render_html(record, build.samples)):
        assert "items/J" in text
        assert "Items per joule is throughput per watt" in text
    assert efficiency_sheet(build.campaign(watched.job()), {}) is None
    assert efficiency_sheet(build.honest(), job_labels(build.honest())) is None


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_keeps_what_the_table_is_for(width):
    record = build.campaign(watched.job(), replace(watched.job(1), point={"workload.batch": 8}))
    lines = render_table(record, width=width).splitlines()
    head = next(line for line in lines if "items/J" in line)
    assert len(head) <= width
    assert "verdict" in head
