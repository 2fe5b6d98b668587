"""Realistic records to render, hostile ones among them, and a browser to look at the report with."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.records import (
    CampaignRecord,
    Check,
    Interval,
    MetricStatistics,
    MultiRunJobResult,
    Outlier,
)
from assay.metrics import describe
from assay.run.records import DeviceProof, Failure, SampleSet, SingleRunResult, Window

HOSTILE = "<script>alert(1)</script>"
RUNS = 5
MACHINE = {
    "name": "bench-03",
    "soc": "AMD EPYC 9454P",
    "cpu": "AMD EPYC 9454P 48-Core Processor",
    "cores": 48,
    "memory_bytes": 16_642_998_272,
    "gpu": None,
    "os": "Linux",
    "os_version": "Debian 12",
    "kernel": "6.1.0-31-amd64",
}
ENVIRONMENT = {
    "machine": MACHINE,
    "governor": "performance",
    "packages": {"onnxruntime": "1.20.1", "numpy": "2.1.3", "assay": "0.1.0"},
    "git": {"commit": "3f2b9c1", "dirty": False},
    "load_average": [0.12, 0.2, 0.18],
}
CHECKS = (
    Check("enough samples", True, "9,855 samples in 5 runs, 100 are needed"),
    Check("steady state", True, "5 of 5 runs reached a steady state before the clock started"),
    Check("interval narrow enough", True, "±1.1 % between runs, the limit is 5 %"),
    Check("requested device used", True, "cpu asked for, CPUExecutionProvider ran all 66 nodes"),
    Check("clocks not throttled", None, "this machine does not tell its throttle count"),
)
SUSPECT = Check("machine quiet", False, "other programs took 14 % of the processor time in run 3, the limit is 5 %")


def draw(job: int, run: int, phase: str, count: int, centre: float) -> SampleSet:
    """Samples with a long tail, a slow drift in the first run and a few spikes."""
    rng = np.random.default_rng([job, run, count])
    value = centre * (1 + 0.004 * run) * (0.97 + rng.gamma(2.0, 0.018, count))
    if phase == "warmup":
        value *= 1 + 1.6 * np.exp(-np.arange(count) / 6)
    value[rng.random(count) < 0.004] *= 2.2
    at_ns = np.concatenate([[0], np.cumsum(value[:-1] * 1e6)]).astype(np.int64)
    return SampleSet("latency_ms", phase, at_ns, value)  # type: ignore[arg-type]


def statistics(name: str, by_run: Mapping[int, np.ndarray], *, sampled: bool = False) -> MetricStatistics:
    values = np.concatenate(list(by_run.values()))
    medians = {run: float(np.median(v)) for run, v in by_run.items()}
    centre = float(np.median(list(medians.values())))
    half = 2.78 * float(np.std(list(medians.values()), ddof=1)) / len(medians) ** 0.5 if len(medians) > 1 else 0
    metric = describe(name)
    tail = [float(q) for q in np.percentile(values, [90, 95, 99])] if sampled and values.size > 700 else [None] * 3
    return MetricStatistics(
        unit=metric.unit,
        better=metric.better,
        count=values.size,
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if values.size > 1 else None,
        median=centre,
        min=float(values.min()),
        max=float(values.max()),
        mad=float(np.median(np.abs(values - centre))),
        p50=float(np.median(values)),
        p90=tail[0],
        p95=tail[1],
        p99=tail[2],
        p99_9=None,
        interval=Interval(centre - half, centre + half, 0.95, "t on run medians") if len(medians) > 1 else None,
        runs=len(medians),
        run_values=medians,
        outliers=(Outlier(0, 17, float(values.max()), 21.4),) if sampled else (),
        outlier_count=31 if sampled else 0,
    )


def single_run(job: int, run: int, centre: float, samples: tuple[SampleSet, ...]) -> SingleRunResult:
    cold = 1.9 if run == 0 else 1.0
    return SingleRunResult(
        run_id=run,
        is_cold_start=run == 0,
        started_at=f"2026-02-03T10:{job:02}:{run * 5:02}.000+00:00",
        completed_at=f"2026-02-03T10:{job:02}:{run * 5 + 4:02}.500+00:00",
        duration_seconds=4.5,
        phases={
            "prepare": 0.01,
            "load": 0.062 * cold,
            "first": 0.02,
            "warmup": float(samples[0].value.sum()) / 1e3,
            "measure": float(samples[1].value.sum()) / 1e3,
        },
        metrics={
            "load_ms": 62.0 * cold + run,
            "first_ms": centre * 2.4 * cold,
            "throughput_per_s": 1000 / centre - run * 0.1,
            "baseline_rss_mb": 61.2 + run * 0.1,
            "peak_load_rss_mb": 92.5 + run * 0.3,
            "peak_run_rss_mb": 118.1 + run * 0.4,
        },
        absent={"power_w": "no power counter can be read on this machine"},
        sample_counts={"latency_ms": samples[1].value.size},
        facts={"model": {"file": "/models/squeezenet.onnx", "size_bytes": 4_952_222, "sha256": "ab" * 32}},
        device=DeviceProof("cpu", "cpu", {"CPUExecutionProvider": 66}, "onnxruntime profile"),
        window=Window(4.0, 3.9, 0.4, 0.0, 48, 0, 180.0, 0.1, 0.2),
        samples="cd" * 32,
    )


def definition(batch: int, threads: int) -> dict:
    return {
        "target": {"model": "models/squeezenet.onnx", "runtime": "onnxruntime", "device": "cpu", "threads": threads},
        "workload": {"batch": batch, "seed": 0},
        "load": {},
        "measure": {"runs": RUNS, "warmup": "auto", "until": {"interval": 0.02, "at_most": 10.0}},
    }


def done_job(
    index: int = 0, batch: int = 1, threads: int = 1, centre: float = 12.0, per_run: int = 900
) -> MultiRunJobResult:
    drawn = {
        run: (draw(index, run, "warmup", 60, centre), draw(index, run, "measure", per_run + run * 3, centre))
        for run in range(RUNS)
    }
    runs = tuple(single_run(index, run, centre, drawn[run]) for run in range(RUNS))
    metrics = {
        name: statistics(name, {r.run_id: np.array([r.metrics[name]]) for r in runs}) for name in runs[0].metrics
    }
    metrics["latency_ms"] = statistics("latency_ms", {r: sets[1].value for r, sets in drawn.items()}, sampled=True)
    return MultiRunJobResult(
        job=f"campaign-1770112800-job-{index}",
        digest="d1" * 32,
        index=index,
        point={"workload.batch": batch, "target.threads": threads},
        state="done",
        verdict="valid",
        checks=CHECKS,
        gates=(Check("latency_ms.p99", True, "13.9 ms, the objective is 20 ms"),),
        metrics=metrics,
        runs=runs,
        total_runs=RUNS,
        successful_runs=RUNS,
        failed_runs=0,
        cold_start=dict(runs[0].metrics),
        environment=ENVIRONMENT,
        definition=definition(batch, threads),
        started_at=runs[0].started_at,
        completed_at=runs[-1].completed_at,
    )


def suspect_job(index: int = 1) -> MultiRunJobResult:
    job = done_job(index, batch=8, threads=2, centre=47.0, per_run=90)
    missed = Check("latency_ms.p99", None, "not backed: 495 samples, 662 are needed")
    return replace(job, verdict="suspect", checks=(SUSPECT, *CHECKS), gates=(missed,))


def failed_job(index: int = 2, message: str = "the process was killed while it loaded the model") -> MultiRunJobResult:
    failure = Failure(
        "out-of-memory",
        message,
        phase="load",
        signal="SIGKILL",
        memory_mb=15_211.0,
        log_tail=("loading squeezenet", "terminate called after throwing 'std::bad_alloc'", "\x1b[31mkilled\x1b[0m"),
        try_="a smaller workload.batch, or a machine with more memory",
    )
    dead = SingleRunResult(
        0, True, "2026-02-03T10:09:00.000+00:00", "2026-02-03T10:09:02.000+00:00", 2.0, error=failure
    )
    return replace(
        done_job(index),
        point={"workload.batch": 512, "target.threads": 2},
        state="failed",
        verdict=None,
        checks=(),
        gates=(),
        metrics={},
        runs=(dead,),
        total_runs=1,
        successful_runs=0,
        failed_runs=1,
        cold_start={},
        error=failure,
    )


def one_run_job(index: int = 3) -> MultiRunJobResult:
    job = done_job(index, batch=2, threads=2, centre=17.3, per_run=200)
    runs = job.runs[:1]
    sample = draw(index, 0, "measure", 200, 17.3)
    metrics = {name: statistics(name, {0: np.array([runs[0].metrics[name]])}) for name in runs[0].metrics}
    metrics["latency_ms"] = statistics("latency_ms", {0: sample.value}, sampled=True)
    checks = (Check("enough runs", False, "one run has no spread between runs; ask for at least 3"), *CHECKS)
    return replace(
        job, runs=runs, metrics=metrics, total_runs=1, successful_runs=1, verdict="suspect", checks=checks, gates=()
    )


def command_job(index: int = 0, metric: str = "images_per_s") -> MultiRunJobResult:
    job = done_job(index)
    values = {run: np.array([5480.0 + 31 * run]) for run in range(RUNS)}
    stats = {
        metric: statistics(metric, values),
        "duration_s": statistics("duration_s", {r: v / 900 for r, v in values.items()}),
    }
    target = {"command": "python train.py --epochs 1", "metrics": [{"name": metric, "unit": "1/s"}]}
    runs = tuple(
        replace(r, metrics={n: s.run_values[r.run_id] for n, s in stats.items()}, sample_counts={}) for r in job.runs
    )
    return replace(job, point={}, metrics=stats, definition={"target": target}, gates=(), runs=runs, cold_start={})


def campaign(*jobs: MultiRunJobResult, benchmark: str = "squeezenet on a CPU") -> CampaignRecord:
    return CampaignRecord(
        campaign="campaign-1770112800",
        benchmark=benchmark,
        created_at="2026-02-03T10:00:00.000+00:00",
        state="done",
        jobs=jobs,
        labels={"team": "vision"},
        assay_version="0.1.0",
    )


def honest() -> CampaignRecord:
    """A campaign as users make them: valid, suspect, failed and one with a single run."""
    return campaign(done_job(), suspect_job(), failed_job(), one_run_job())


def hostile() -> CampaignRecord:
    """A campaign in which every text a user can choose tries to become markup, a formula or a terminal code."""
    bad = f"{HOSTILE}\"'&|=1+1\x1b[31m\nsecond line ünïcødé 模型"
    job = replace(
        suspect_job(0),
        point={"target.model": bad, "workload.batch": 8},
        checks=(Check(bad, False, bad),),
        gates=(Check(bad, None, bad),),
        environment={"machine": {"name": bad, "cpu": bad}, bad: bad},
        definition={"target": {"model": bad, "device": "cpu"}, bad: bad},
    )
    job = replace(job, metrics={**job.metrics, f"speed{{{bad}}}": job.metrics["load_ms"]})
    return replace(campaign(job, failed_job(1, bad), benchmark=bad), labels={bad: bad})


def samples(job_id: str, run_id: int) -> tuple[SampleSet, ...]:
    """Samples of the jobs above, drawn again from the same seeds."""
    index = int(job_id.rpartition("-")[2])
    centre, per_run = {0: (12.0, 900), 1: (47.0, 90), 3: (17.3, 200)}.get(index, (47.0, 90))
    return (draw(index, run_id, "warmup", 60, centre), draw(index, run_id, "measure", per_run + run_id * 3, centre))


@pytest.fixture
def build():
    """The builders of this file."""
    return sys.modules[__name__]


BROWSER_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)  # fmt: skip


def browser_path() -> str | None:
    named = os.environ.get("ASSAY_CHROMIUM")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """A headless browser; the test is skipped where there is none, unless one is required."""
    path = browser_path()
    if path is None:
        missing = "no Chromium found; name one in ASSAY_CHROMIUM"
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, headless=True, args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()
