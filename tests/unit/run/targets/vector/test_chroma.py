"""Chroma, a real server: load, search, filter, options in its own words, nothing left behind."""

from __future__ import annotations

import json
import urllib.request

import pytest
from tests.support.vector_servers import SERVERS, need
from tests.unit.run.targets.vector.reading import count_of, recall_of

from assay.errors import MeasureError
from assay.run.targets.vector.chroma import split_url

pytestmark = pytest.mark.live
ALL = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def collections(url: str) -> list[str]:
    with urllib.request.urlopen(url + ALL) as answer:
        return [one["name"] for one in json.load(answer)]


@pytest.mark.parametrize(("metric", "share"), [("cosine", None), ("euclid", 0.1), ("dot", None)])
def test_two_thousand_vectors_are_found(run, chroma_server, metric, share):
    corpus = {"vectors": 2000, "dims": 32, "clusters": 20, "metric": metric}
    target = {
        "endpoint": chroma_server,
        "api": "chroma",
        "index": {"m": 16, "ef_construct": 100},
        "search": {"ef": 200},
    }
    measured = run(target, {"corpus": corpus, "filter": share}, {"concurrency": 2, "requests": 200}, {"warmup": 20})
    assert recall_of(measured) >= (0.9 if metric != "dot" else 0.8)
    assert count_of(measured) == 200
    assert measured.facts["answers"]["outside_the_filter"] == 0
    assert measured.metrics["error_rate"] == 0
    assert measured.metrics["insert_s"] > 0
    assert measured.metrics["index_s"] > 0
    effective = measured.facts["engine"]["index"]
    assert (effective["max_neighbors"], effective["ef_construction"], effective["ef_search"]) == (16, 100, 200)
    assert collections(chroma_server) == []


def test_recall_rises_with_the_width_of_a_search(run, chroma_server):
    corpus = {"vectors": 3000, "dims": 48, "clusters": 3, "spread": 1.0}
    recalls = []
    for ef in (5, 300):
        target = {
            "endpoint": chroma_server,
            "api": "chroma",
            "index": {"m": 6, "ef_construct": 20},
            "search": {"ef": ef},
        }
        recalls.append(recall_of(run(target, {"corpus": corpus}, {"requests": 100}, {"warmup": "none"})))
    assert recalls[0] < recalls[1]
    assert recalls[1] > 0.9


def test_an_unknown_option_is_refused_in_its_own_words(run, chroma_server):
    with pytest.raises(MeasureError, match="unknown field `efc`") as refused:
        run({"endpoint": chroma_server, "api": "chroma", "index": {"efc": 3}})
    assert refused.value.problem.code == "index-option"
    assert collections(chroma_server) == []


def test_a_collection_is_removed_after_a_failure(run, chroma_server):
    with pytest.raises(MeasureError):
        run({"endpoint": chroma_server, "api": "chroma"}, load={"trace": "t.csv"})
    assert collections(chroma_server) == []


def test_a_database_that_does_not_exist(run, chroma_server):
    url = f"{chroma_server}/api/v2/tenants/default_tenant/databases/nowhere"
    with pytest.raises(MeasureError) as refused:
        run({"endpoint": url, "api": "chroma"})
    assert "nowhere" in str(refused.value) or "not" in str(refused.value).lower()


@pytest.mark.parametrize("api", ["chroma", "qdrant"])
def test_a_server_that_is_not_there(run, api):
    with pytest.raises(MeasureError, match="cannot be reached") as refused:
        run({"endpoint": "http://127.0.0.1:1", "api": api, "timeout": "2s"})
    assert refused.value.problem.code == "unreachable"


def test_another_kind_of_server(run, chroma_server):
    with pytest.raises(MeasureError) as refused:
        run({"endpoint": chroma_server, "api": "qdrant"})
    assert "Qdrant answered 404" in str(refused.value) or "not JSON" in str(refused.value)


@pytest.mark.parametrize("key", [{"model": "x"}, {"path": "/x"}, {"options": {"a": 1}}, {"body": {}}])
def test_keys_that_mean_nothing_here_are_refused(run, key):
    with pytest.raises(MeasureError, match="does nothing for chroma"):
        run({"endpoint": "http://127.0.0.1:1", "api": "chroma", **key})


def test_where_the_database_is():
    default = "/tenants/default_tenant/databases/default_database"
    assert split_url("http://h:8000") == ("http://h:8000/api/v2", default)
    assert split_url("http://h:8000/api/v2/") == ("http://h:8000/api/v2", default)
    assert split_url("http://h/api/v2/tenants/t/databases/d") == ("http://h/api/v2", "/tenants/t/databases/d")
    assert split_url("http://h/behind/a/proxy") == ("http://h/behind/a/proxy/api/v2", default)
    with pytest.raises(MeasureError, match="names no database"):
        split_url("http://h/api/v2/tenants/t")


def test_a_service_that_the_run_starts_and_ends(run, tmp_path):
    program = need(SERVERS / "bin" / "chroma", "chroma")
    command = f"{program} run --path {tmp_path}/data --host 127.0.0.1 --port {{port}}"
    services = {"db": {"command": command, "ready": {"http": "/api/v2/heartbeat", "within": "60s"}}}
    target = {"service": "db", "api": "chroma", "search": {"ef": 100}}
    measured = run(target, load={"requests": 100}, services=services)
    assert recall_of(measured) >= 0.9
    assert measured.metrics["start_to_ready_s"] > 0
    assert measured.facts["service"]["name"] == "db"
    assert measured.facts["telemetry"]
    assert measured.files
    assert measured.window.cpu_s > 0
