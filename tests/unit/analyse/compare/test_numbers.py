"""Numbers by name, and what a result has of them."""

from dataclasses import replace

import numpy as np
import pytest

from assay.analyse.gate import (
    names_in,
    not_backed,
    reading_of,
    short_name,
    statistic_of_run,
    unknown_spread,
)
from assay.run.records import SampleSet


def test_one_name_stands_for_all_contexts_of_a_program(result) -> None:
    job = result(1.0, 1.0)
    job = replace(job, metrics={f"speed{{batch={n}}}": job.metrics["latency_ms"] for n in (1, 8)})
    assert names_in("speed.p99", job) == ("speed{batch=1}.p99", "speed{batch=8}.p99")
    assert names_in("speed{batch=8}", job) == ("speed{batch=8}",)
    assert names_in("sped", job) == ()
    assert short_name("speed{batch=8}.p99") == "speed.p99"


def test_the_number_of_a_metric_is_what_its_runs_gave(result) -> None:
    job = result(1.0, 1.1, 0.9)
    stats = job.metrics["latency_ms"]
    for statistic in ("", "median", "p50"):
        found = reading_of(job, stats, "latency_ms", statistic)
        assert found.runs == tuple(stats.run_values.values())
        assert found.value == pytest.approx(np.median(found.runs))


def test_other_statistics_are_known_over_all_runs_or_by_their_samples(result) -> None:
    job = result(1.0, 1.1, 0.9)
    stats = job.metrics["latency_ms"]
    assert reading_of(job, stats, "latency_ms", "p99").runs == ()
    by_run = reading_of(job, stats, "latency_ms", "p99", lambda *_: {0: 1.0, 1: 2.0})
    assert (by_run.value, by_run.runs) == (stats.p99, (1.0, 2.0))
    assert reading_of(job, replace(stats, p99=None), "latency_ms", "p99") is None


def test_a_score_is_reported_by_its_mean(stats) -> None:
    score = stats(0.5, 0.6, unit="", better="higher", name="recall")
    assert reading_of(None, score, "recall", "mean").runs == (0.5, 0.6)
    assert reading_of(None, score, "recall", "median").runs == ()


def samples(values) -> tuple[SampleSet, ...]:
    values = np.asarray(values, dtype=np.float64)
    at = np.arange(values.size, dtype=np.int64)
    return SampleSet("m", "warmup", at, values * 100), SampleSet("m", "measure", at, values)


def test_statistics_of_a_run_come_from_its_measured_samples() -> None:
    drawn = np.random.default_rng(0).exponential(size=1000)
    kept = samples([*drawn, np.nan])
    for statistic, value in {
        "mean": drawn.mean(),
        "min": drawn.min(),
        "max": drawn.max(),
        "median": np.median(drawn),
        "std": drawn.std(ddof=1),
        "p99": np.quantile(drawn, 0.99),
    }.items():
        assert statistic_of_run(kept, "m", statistic) == pytest.approx(value)
    assert statistic_of_run(kept, "m", "p99_9") is None
    assert statistic_of_run(kept, "other", "mean") is None
    assert statistic_of_run(samples([1.0]), "m", "std") is None


def test_reasons_are_sentences_with_their_figures() -> None:
    assert not_backed("m.p99", [800, 200]) == "m.p99 is not given: it needs 662 samples and 200 were taken"
    assert not_backed("m.std", [1]) == "m.std needs more than one value"
    assert "662 or more in each, or a baseline of several results" in unknown_spread("p99")
