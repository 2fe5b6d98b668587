from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime

from assay.report.export import render_csv, results_filename

SARK = [
    "CreatedUtc", "Status", "UploadId", "FileName", "FileSize", "DeviceName", "DeviceYear", "Soc", "Ram", "DiscreteGpu",
    "VRam", "DeviceOs", "DeviceOsVersion", "ComputeUnits", "LoadMsMedian", "LoadMsStdDev", "LoadMsAverage",
    "LoadMsFirst", "PeakLoadRamUsage", "InferenceMsMedian", "InferenceMsStdDev", "InferenceMsAverage",
    "InferenceMsFirst", "PeakInferenceRamUsage", "JobId",
]  # fmt: skip


def rows_of(*records) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(*records))))


def test_the_first_25_columns_are_sarks(build):
    header = next(csv.reader(io.StringIO(render_csv(build.honest()))))
    assert header[:25] == SARK
    assert header[25:28] == ["Verdict", "Benchmark", "Digest"]
    assert header[-2:] == ["FailedChecks", "Error"]
    assert len(set(header)) == len(header)


def test_a_finished_job(build):
    record = build.honest()
    row = rows_of(record)[0]
    job = record.jobs[0]
    assert row["CreatedUtc"] == "2026-02-03T10:00:24.500000+00:00"
    assert (row["Status"], row["UploadId"], row["JobId"]) == ("Complete", "campaign-1770112800", job.job)
    assert (row["FileName"], row["FileSize"]) == ("squeezenet.onnx", "4952222")
    assert (row["DeviceName"], row["DeviceYear"], row["Ram"], row["VRam"]) == ("bench-03", "", "16", "")
    assert row["ComputeUnits"] == "CPU (ONNX)"
    assert float(row["LoadMsFirst"]) == job.runs[0].metrics["load_ms"]
    assert float(row["InferenceMsFirst"]) == job.runs[0].metrics["first_ms"]
    assert float(row["InferenceMsMedian"]) == job.metrics["latency_ms"].median
    assert float(row["latency_ms.low"]) == job.metrics["latency_ms"].interval.low
    assert (row["point.workload.batch"], row["point.target.threads"]) == ("1", "1")
    assert row["Verdict"] == "valid"


def test_a_failed_job_has_no_numbers(build):
    row = rows_of(build.honest())[2]
    assert row["Status"] == "Failed"
    assert row["Error"].startswith("error[out-of-memory] while loading")
    numbers = [
        name for name in row if "Ms" in name or "RamUsage" in name or name.partition(".")[0] in build.done_job().metrics
    ]
    assert {row[name] for name in numbers} == {""}


def test_numbers_of_a_failed_job_are_left_out_even_when_some_runs_gave_them(build):
    row = rows_of(build.campaign(replace(build.done_job(), state="failed")))[0]
    assert row["LoadMsFirst"] == row["latency_ms.median"] == ""


def test_cells_are_never_formulas(build):
    job = replace(build.done_job(), point={"a": "=1+1", "b": "@x", "c": -3, "d": "-3", "e": "+x"})
    row = rows_of(build.campaign(job, benchmark="=cmd()"))[0]
    cells = [row[f"point.{name}"] for name in "abcde"]
    assert cells == ["'=1+1", "'@x", "-3", "'-3", "'+x"]
    assert row["Benchmark"] == "'=cmd()"


def test_several_campaigns_share_one_table(build):
    rows = rows_of(build.honest(), build.campaign(build.command_job()))
    assert len(rows) == 5
    assert rows[-1]["ComputeUnits"] == rows[-1]["InferenceMsMedian"] == ""
    assert float(rows[-1]["images_per_s.median"]) == 5542.0


def test_the_file_is_named_as_sark_named_it():
    assert (
        results_filename("campaign-1", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC))
        == "campaign-1_20260203_040506_results.csv"
    )


def test_headings_are_never_formulas(build):
    job = build.done_job()
    statistics = next(iter(job.metrics.values()))
    job = replace(job, metrics={**job.metrics, "=cmd|calc!A0": statistics, "@sum": statistics})
    text = render_csv(build.campaign(job))
    header, row = list(csv.reader(io.StringIO(text)))
    assert not [name for name in header if name.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert dict(zip(header, row, strict=True))["'=cmd|calc!A0.median"] == str(statistics.median)
