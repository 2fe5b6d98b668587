"""FAISS in process: exact where it is exact, better with a wider search, honest about threads and errors."""

from __future__ import annotations

import pytest
from tests.unit.run.targets.vector.reading import count_of, recall_of

from assay.errors import MeasureError

HARD = {"vectors": 5000, "dims": 48, "clusters": 3, "spread": 1.0}


@pytest.mark.parametrize("metric", ["cosine", "euclid", "dot"])
@pytest.mark.parametrize("share", [None, "10%"])
def test_a_flat_index_is_exact(run, metric, share):
    corpus = {"vectors": 2000, "dims": 24, "metric": metric}
    measured = run({"library": "faiss", "index": {"kind": "flat"}}, {"corpus": corpus, "filter": share})
    assert recall_of(measured) == 1.0
    assert measured.facts["answers"]["outside_the_filter"] == 0
    assert measured.facts["answers"]["different_queries"] == 100
    assert measured.metrics["index_mb"] == pytest.approx(2000 * 24 * 4 / 1e6, rel=0.01)
    assert "insert_s" in measured.absent


@pytest.mark.parametrize(
    ("kind", "index", "name", "values"),
    [("hnsw", {"m": 8, "ef_construct": 60}, "ef", (10, 40, 400)), ("ivf", {"lists": 64}, "probes", (1, 8, 64))],
)
def test_recall_rises_with_the_width_of_a_search(run, kind, index, name, values):
    target = {"library": "faiss", "threads": 1, "index": {"kind": kind, **index}}
    recalls = [recall_of(run({**target, "search": {name: value}}, {"corpus": HARD})) for value in values]
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[0] < 0.9
    assert recalls[2] >= 0.98


def test_settings_are_read_back(run):
    target = {"library": "faiss", "threads": 1, "index": {"m": 12, "ef_construct": 50}, "search": {"ef_search": 33}}
    engine = run(target).facts["engine"]
    assert engine["index"] == {"m": 12, "ef_construct": 50}
    assert engine["search"] == {"ef": 33}
    assert engine["threads"] == 1
    assert engine["vectors"] == 2000


def test_threads_are_read_where_searches_run(run):
    target = {"library": "faiss", "threads": 2, "index": {"kind": "flat"}}
    assert run(target, load={"concurrency": 3}).facts["engine"]["threads"] == 2


def test_figures_of_a_run(run):
    measured = run(
        {"library": "faiss", "index": {"kind": "flat"}},
        load={"concurrency": 2},
        measure_={"warmup": 50, "until": {"at_least": "300ms", "at_most": "300ms"}},
        objective={"latency_ms.p99": 1000, "recall.mean": 0.9},
    )
    metrics = measured.metrics
    assert count_of(measured) == count_of(measured, "recall")
    assert metrics["throughput_per_s"] == pytest.approx(count_of(measured) / 0.3, rel=0.2)
    assert metrics["goodput_per_s"] == pytest.approx(metrics["throughput_per_s"])
    assert metrics["error_rate"] == 0
    assert 0.5 < metrics["concurrency"] <= 2
    assert 0 < metrics["client_ceiling_pct"] < 100
    assert metrics["index_s"] > 0
    assert measured.facts["load"]["warmup"]["calls"] >= 50
    warm = [one for one in measured.samples if one.phase == "warmup"]
    assert warm
    assert len(warm[0].value) >= 50
    assert measured.window.harness_ns > 0
    assert measured.facts["corpus"]["sha256"]
    assert measured.facts["truth"]["confirmed_by_a_second_method"] == 8


def test_an_objective_that_few_meet_has_a_small_goodput(run):
    measured = run({"library": "faiss", "index": {"kind": "flat"}}, objective={"latency_ms.p99": 1e-9})
    assert measured.metrics["goodput_per_s"] == 0


def test_exactly_as_many_searches_as_asked(run):
    measured = run({"library": "faiss"}, load={"concurrency": 3, "requests": 250}, measure_={"warmup": 30})
    assert count_of(measured) == 250


def test_a_duration_is_kept(run):
    measured = run({"library": "faiss"}, load={"duration": "400ms"}, measure_={"warmup": "none"})
    assert measured.facts["measured_s"] == pytest.approx(0.4, abs=0.15)


def test_the_stop_rule_ends_a_run(run):
    until = {"interval": "50%", "at_least": "100ms", "at_most": "20s"}
    measured = run({"library": "faiss"}, measure_={"until": until})
    assert measured.facts["measured_s"] < 10


def test_latency_is_that_of_the_calls(run):
    measured = run({"library": "faiss", "index": {"kind": "flat"}}, {"corpus": {"vectors": 20_000, "dims": 64}})
    (latency,) = [one.value for one in measured.samples if one.metric == "latency_ms"]
    assert latency.mean() * measured.metrics["throughput_per_s"] / 1000 == pytest.approx(1, abs=0.5)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"index": {"kind": "tree"}}, "flat, ivf, hnsw"),
        ({"index": {"kind": "flat", "m": 3}}, "has no 'm'"),
        ({"index": {"m": "many"}}, "whole number"),
        ({"index": {"m": 0}}, "whole number"),
        ({"search": {"probes": 3}}, "has no 'probes'"),
        ({"index": {"kind": "ivf", "lists": 99_999}}, "FAISS refuses"),
        ({"index": {"kind": "ivf", "lists": 3, "nlist": 3}}, "given twice"),
    ],
)
def test_bad_options_are_refused(run, target, words):
    with pytest.raises(MeasureError) as refused:
        run({"library": "faiss", **target})
    assert words in str(refused.value)
    assert refused.value.problem.code == "index-option"


def test_another_task_is_refused(run):
    with pytest.raises(MeasureError, match="knn"):
        run({"library": "faiss"}, {"task": "embedding"})
