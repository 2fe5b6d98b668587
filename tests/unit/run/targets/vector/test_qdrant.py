"""Qdrant over its wire contract: requests in the published shapes, answers from its client library's local mode."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.unit.run.targets.vector.reading import count_of, recall_of

from assay.errors import MeasureError
from assay.run.targets.vector.collection import SearchTask
from assay.run.targets.vector.http import JsonClient
from assay.run.targets.vector.qdrant import Qdrant
from assay.run.workloads.corpus import VectorSet
from assay.spec.workload import Corpus

pytestmark = pytest.mark.live

CORPUS = {"vectors": 400, "dims": 16, "clusters": 8}


@pytest.mark.parametrize("metric", ["cosine", "euclid", "dot"])
@pytest.mark.parametrize("share", [None, 0.2])
def test_answers_agree_with_the_truth(run, qdrant_contract, metric, share):
    workload = {"corpus": {**CORPUS, "metric": metric}, "queries": 30, "filter": share}
    target = {"endpoint": qdrant_contract.url, "api": "qdrant", "search": {"ef": 64, "exact": True}}
    measured = run(target, workload, {"concurrency": 2, "requests": 60}, {"warmup": "none"})
    assert recall_of(measured) == 1.0
    assert count_of(measured) == 60
    assert measured.metrics["error_rate"] == 0
    assert measured.metrics["insert_s"] > 0
    assert measured.facts["engine"]["search"] == {"hnsw_ef": 64, "exact": True}
    assert "index_mb" in measured.absent


def test_the_effective_configuration_is_read_back(run, qdrant_contract):
    index = {"m": 24, "ef_construct": 80, "on_disk": True, "optimizers_config": {"indexing_threshold": 1}}
    target = {"endpoint": f"{qdrant_contract.url}/", "api": "qdrant", "index": index}
    engine = run(target, {"corpus": CORPUS, "queries": 20}, {"requests": 20}, {"warmup": "none"}).facts["engine"]
    assert engine["version"] == "1.19.0"
    assert (engine["index"]["m"], engine["index"]["ef_construct"]) == (24, 80)
    assert engine["vectors"]["on_disk"] is True
    assert engine["optimizer"]["indexing_threshold"] == 1
    assert engine["indexed_vectors"] == 400
    assert engine["searched_by"] == "the index"


def test_a_scan_is_called_a_scan(run, qdrant_contract):
    target = {"endpoint": qdrant_contract.url, "api": "qdrant"}
    engine = run(target, {"corpus": CORPUS, "queries": 20}, {"requests": 20}, {"warmup": "none"}).facts["engine"]
    assert engine["indexed_vectors"] == 0
    assert engine["searched_by"].startswith("a scan of all vectors")


def test_it_waits_until_the_collection_stays_green(qdrant_contract):
    vectors = VectorSet(Corpus(vectors=50, dims=4), 0, 1)
    rest = JsonClient("Qdrant", qdrant_contract.url, headers={}, timeout_s=10)
    engine = Qdrant(rest, SearchTask(vectors.corpus, 3, False, {}, {}), 30)
    try:
        engine.create()
        for block in vectors.blocks():
            engine.insert(block)
        # Two looks find it yellow before the first green one.
        assert engine.finish() >= 0.25
    finally:
        engine.close()


def test_an_impatient_run_says_what_it_waited_for(qdrant_contract):
    vectors = VectorSet(Corpus(vectors=50, dims=4), 0, 1)
    rest = JsonClient("Qdrant", qdrant_contract.url, headers={}, timeout_s=10)
    engine = Qdrant(rest, SearchTask(vectors.corpus, 3, False, {}, {}), 0.0)
    try:
        engine.create()
        for block in vectors.blocks():
            engine.insert(block)
        with pytest.raises(MeasureError, match="still yellow"):
            engine.finish()
    finally:
        engine.close()


def test_an_option_that_qdrant_would_ignore_is_refused(qdrant_contract):
    rest = JsonClient("Qdrant", qdrant_contract.url, headers={}, timeout_s=10)
    engine = Qdrant(rest, SearchTask(Corpus(vectors=5, dims=4), 3, False, {"memory_of_elephants": 3}, {}), 10)
    try:
        with pytest.raises(MeasureError) as refused:
            engine.create()
    finally:
        engine.close()
    assert "took no notice of 'memory_of_elephants'; it has ef_construct" in str(refused.value)
    # The shape itself was broken by this very test.
    (violation,) = qdrant_contract.forget()
    assert "memory_of_elephants" in violation


def test_its_own_words_for_a_bad_value(run, qdrant_contract):
    with pytest.raises(MeasureError, match="must be 4 or larger") as refused:
        run({"endpoint": qdrant_contract.url, "api": "qdrant", "index": {"ef_construct": 2}})
    assert refused.value.problem.code == "index-option"
    assert len(qdrant_contract.forget()) == 1  # the published shape has the same limit


def test_a_collection_is_removed_after_a_failure(run, qdrant_contract):
    target = {"endpoint": qdrant_contract.url, "api": "qdrant"}
    with pytest.raises(MeasureError, match="not for a vector search"):
        run(target, {"corpus": CORPUS, "queries": 5}, {"trace": "t.csv"})
    assert qdrant_contract.told()["collections"] == []


def test_numbers_survive_the_wire():
    query = np.array([0.1, 1e-7, -3.25, 16777217.0, 1 / 3], dtype=np.float32)
    rest = JsonClient("Qdrant", "http://127.0.0.1:1", headers={"api-key": "x"}, timeout_s=1)
    engine = Qdrant(rest, SearchTask(Corpus(vectors=5, dims=5), 3, True, {}, {"ef": 9}), 1)
    method, path, body = engine.search_request(query)
    assert (method, path.startswith("/collections/assay_"), path.endswith("/points/query")) == ("POST", True, True)
    sent = json.loads(body)
    assert np.array_equal(np.array(sent.pop("query"), dtype=np.float32), query)
    assert sent == {
        "limit": 3,
        "with_payload": False,
        "with_vector": False,
        "params": {"hnsw_ef": 9},
        "filter": {"must": [{"key": "tag", "match": {"value": 1}}]},
    }
    assert engine.headers() == {"api-key": "x", "Content-Type": "application/json"}
    rest.close()


@pytest.mark.parametrize(
    "body", [b"", b"nothing", b"[]", b'{"result": null}', b'{"result": {"points": [{}]}}', b"\xff"]
)
def test_an_answer_that_is_none(body):
    rest = JsonClient("Qdrant", "http://127.0.0.1:1", headers={}, timeout_s=1)
    engine = Qdrant(rest, SearchTask(Corpus(vectors=5, dims=5), 3, False, {}, {}), 1)
    with pytest.raises(ValueError):  # noqa: PT011 - json and our own words alike
        engine.read_ids(body)
    rest.close()
