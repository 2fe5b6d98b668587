"""Results for programs: CSV (the 25 columns of SARK first, so that its readers keep working) and one JSON document."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from assay.analyse.records import RESULT_SCHEMA, CampaignRecord, MetricStatistics, MultiRunJobResult
from assay.documents import adapter, to_json
from assay.report.telemetry import energy_columns, throttling_sentences
from assay.report.wording import base, check_sentence, failed_checks, failure_sentence, machine, section
from assay.run.records import SingleRunResult
from assay.spec.section import compute_unit

Cell = str | int | float | None

SARK_COLUMNS = (
    "CreatedUtc", "Status", "UploadId", "FileName", "FileSize", "DeviceName", "DeviceYear", "Soc", "Ram",
    "DiscreteGpu", "VRam", "DeviceOs", "DeviceOsVersion", "ComputeUnits", "LoadMsMedian", "LoadMsStdDev",
    "LoadMsAverage", "LoadMsFirst", "PeakLoadRamUsage", "InferenceMsMedian", "InferenceMsStdDev",
    "InferenceMsAverage", "InferenceMsFirst", "PeakInferenceRamUsage", "JobId",
)  # fmt: skip


def _end_of(percentile: str, end: str) -> Callable[[MetricStatistics], Cell]:
    """One end of the interval of a percentile."""
    return lambda stats: getattr(stats.tails[percentile], end) if percentile in stats.tails else None


_STATUS = {"done": "Complete", "failed": "Failed", "cancelled": "Failed"}
_STATISTICS: Mapping[str, Callable[[MetricStatistics], Cell]] = {
    "median": lambda s: s.median,
    "low": lambda s: s.interval.low if s.interval else None,
    "high": lambda s: s.interval.high if s.interval else None,
    "mean": lambda s: s.mean,
    "std": lambda s: s.std,
    "p90": lambda s: s.p90,
    "p95": lambda s: s.p95,
    "p99": lambda s: s.p99,
    **{f"{name}_{end}": _end_of(name, end) for name in ("p90", "p95", "p99") for end in ("low", "high")},
    "count": lambda s: s.count,
    "runs": lambda s: s.runs,
}
# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_DESCRIPTION = (
    "One submission of a benchmark with all its jobs: statistics with intervals from the spread between "
    "runs, checks, verdicts, runs, environment and failures. What could not be measured is null or absent."
)


def render_csv(*records: CampaignRecord) -> str:
    """Write campaigns as CSV, one row per job; what was not measured is an empty cell."""
    rows = [_row(record, job) for record in records for job in record.jobs]
    text = io.StringIO()
    columns = _columns(records)
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({name: csv_cell(name) for name in columns})  # the program that emits a metric names it
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def render_sark_csv(*records: CampaignRecord) -> str:
    """Write campaigns with SARK's 25 columns and no others, for readers that count them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, SARK_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for record in records:
        for job in record.jobs:
            row = sark_columns(record, job)
            writer.writerow({name: "" if value is None else csv_cell(value) for name, value in row.items()})
    return text.getvalue()


def sark_columns(record: CampaignRecord, job: MultiRunJobResult) -> dict[str, Cell]:
    """SARK's 25 columns of one job, in its order; None where nothing is known."""
    row = _row(record, job)
    return {name: row.get(name) for name in SARK_COLUMNS}


def results_filename(campaign: str, created: datetime) -> str:
    """The name of a campaign's CSV file, as SARK names it."""
    return f"{campaign}_{created.astimezone(UTC):%Y%m%d_%H%M%S}_results.csv"


def _columns(records: Iterable[CampaignRecord]) -> list[str]:
    jobs = [job for record in records for job in record.jobs]
    points = dict.fromkeys(f"point.{path}" for job in jobs for path in job.point)
    metrics = dict.fromkeys(name for job in jobs for name in job.metrics)
    statistics = [f"{metric}.{statistic}" for metric in metrics for statistic in _STATISTICS]
    # Only where there is telemetry: a reader of older tables finds the columns that it knows.
    seen = dict.fromkeys(name for job in jobs for name in _telemetry_cells(job))
    return [*SARK_COLUMNS, "Verdict", "Benchmark", "Digest", *points, *statistics, "FailedChecks", "Error", *seen]


def _row(record: CampaignRecord, job: MultiRunJobResult) -> dict[str, Cell]:
    error = job.failure if job.state != "done" else None
    return {
        **_sark_identity(record, job),
        **_sark_machine(job),
        **(_sark_numbers(job) if job.state == "done" else {}),
        "JobId": job.job,
        "Verdict": job.verdict,
        "Benchmark": record.benchmark,
        "Digest": job.digest,
        **{f"point.{path}": _plain(value) for path, value in job.point.items()},
        **(_statistics(job.metrics) if job.state == "done" else {}),
        "FailedChecks": "; ".join(
            check_sentence(check)
            for check in (*failed_checks(job), *(gate for gate in job.gates if gate.passed is False))
        ),
        "Error": failure_sentence(error) if error else None,
        **_telemetry_cells(job),
    }


def _telemetry_cells(job: MultiRunJobResult) -> dict[str, Cell]:
    """Telemetry: energy with its grade, the price, and why clocks were held down."""
    cells: dict[str, Cell] = {**energy_columns(job)}
    return {**cells, "Throttled": "; ".join(throttling_sentences(job))} if cells else {}


def _sark_identity(record: CampaignRecord, job: MultiRunJobResult) -> dict[str, Cell]:
    target = section(job.definition, "target")
    model = _model_facts(job.runs)
    named = model.get("file") or target.get("model")
    return {
        "CreatedUtc": _utc(job.completed_at or record.created_at),
        "Status": _STATUS.get(job.state, job.state),
        "UploadId": record.campaign,
        "FileName": base(str(named)) if named else None,
        "FileSize": _plain(model.get("size_bytes")),
        "ComputeUnits": _compute_unit(target),
    }


def _sark_machine(job: MultiRunJobResult) -> dict[str, Cell]:
    facts = machine(job)
    return {
        "DeviceName": _plain(facts.get("name")),
        "DeviceYear": _plain(facts.get("year")),
        "Soc": _plain(facts.get("soc") or facts.get("cpu")),
        "Ram": _whole_gb(facts.get("memory_bytes")),
        "DiscreteGpu": _plain(facts.get("gpu")),
        "VRam": _whole_gb(facts.get("gpu_memory_bytes")),
        "DeviceOs": _plain(facts.get("os")),
        "DeviceOsVersion": _plain(facts.get("os_version")),
    }


def _sark_numbers(job: MultiRunJobResult) -> dict[str, Cell]:
    load, call = job.metrics.get("load_ms"), job.metrics.get("latency_ms")
    return {
        **_sark_times("LoadMs", load, _of_first_run(job, "load_ms")),
        **_sark_times("InferenceMs", call, _of_first_run(job, "first_ms")),
        "PeakLoadRamUsage": _peak(job, "peak_load_rss_mb"),
        "PeakInferenceRamUsage": _peak(job, "peak_run_rss_mb"),
    }


def _sark_times(prefix: str, stats: MetricStatistics | None, first: float | None) -> dict[str, Cell]:
    cells: dict[str, Cell] = {f"{prefix}First": first}
    if stats:
        cells |= {f"{prefix}Median": stats.median, f"{prefix}StdDev": stats.std, f"{prefix}Average": stats.mean}
    return cells


def _of_first_run(job: MultiRunJobResult, metric: str) -> float | None:
    first = next((run for run in job.runs if run.run_id == 0), None)
    return first.metrics.get(metric) if first else job.cold_start.get(metric)


def _peak(job: MultiRunJobResult, metric: str) -> float | None:
    """The highest of all runs: a peak says what must be there, not what is usual."""
    stats = job.metrics.get(metric)
    return stats.max if stats else None


def _statistics(metrics: Mapping[str, MetricStatistics]) -> dict[str, Cell]:
    return {f"{name}.{key}": of(stats) for name, stats in metrics.items() for key, of in _STATISTICS.items()}


def _model_facts(runs: Iterable[SingleRunResult]) -> Mapping[str, JsonValue]:
    return next((facts for run in runs if (facts := section(run.facts, "model"))), {})


def _compute_unit(target: Mapping[str, JsonValue]) -> str | None:
    device, runtime = target.get("device", "cpu"), target.get("runtime", "onnxruntime")
    if "model" not in target or not isinstance(device, str):
        return None
    # SARK's names contain the runtime; on any other one they would be untrue.
    return compute_unit(device) if runtime in ("onnxruntime", "coreml") else f"{device} ({runtime})"


def _whole_gb(size: JsonValue) -> int | None:
    return round(size / 2**30) if isinstance(size, int | float) and size else None


def _utc(moment: str) -> str:
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _plain(value: JsonValue) -> Cell:
    if value is None or isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)


def csv_cell(value: Cell) -> Cell:
    """A value that a spreadsheet neither runs as a formula nor takes for a number that it is not."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return "" if isinstance(value, float) and not math.isfinite(value) else value


def result_json(record: CampaignRecord) -> str:
    """Write a campaign as one JSON document of the schema `assay.result/1`."""
    return to_json(record, indent=2)


def result_schema() -> dict[str, Any]:
    """The JSON Schema of the documents that `result_json` writes."""
    schema = adapter(CampaignRecord).json_schema(mode="serialization")
    named = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{RESULT_SCHEMA.replace('.', ':').replace('/', ':')}",
        "title": RESULT_SCHEMA,
        "description": _DESCRIPTION,
    }
    return {**schema, **named}
