"""PostgreSQL with pgvector, a real server: indexes, filters, settings, plans, errors, nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.run.targets.vector.reading import count_of, recall_of

from assay.errors import MeasureError
from assay.run.targets.vector.pgvector import copy_rows, settings, vector_bytes
from assay.run.workloads.corpus import Block

pytestmark = pytest.mark.live


def tables(url: str) -> list[str]:
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return [row[0] for row in rows]


@pytest.mark.parametrize("metric", ["cosine", "euclid", "dot"])
@pytest.mark.parametrize("share", [None, 0.1])
def test_without_an_index_it_is_exact(run, pgvector_server, metric, share):
    corpus = {"vectors": 2000, "dims": 32, "clusters": 20, "metric": metric}
    target = {"endpoint": pgvector_server, "api": "pgvector", "index": {"kind": "none"}}
    measured = run(target, {"corpus": corpus, "filter": share})
    assert recall_of(measured) == 1.0
    assert measured.facts["answers"]["outside_the_filter"] == 0
    assert measured.absent["index_mb"] == "there is no index"
    assert "Scan" in measured.facts["engine"]["searched_by"]


@pytest.mark.parametrize("metric", ["cosine", "euclid", "dot"])
def test_hnsw_finds_two_thousand_vectors(run, pgvector_server, metric):
    corpus = {"vectors": 2000, "dims": 32, "clusters": 20, "metric": metric}
    target = {
        "endpoint": pgvector_server,
        "api": "pgvector",
        "index": {"m": 16, "ef_construct": 64},
        "search": {"ef": 200},
    }
    measured = run(target, {"corpus": corpus}, {"concurrency": 3, "requests": 300}, {"warmup": 30})
    engine = measured.facts["engine"]
    assert recall_of(measured) >= 0.9
    assert count_of(measured) == 300
    assert "m='16', ef_construction='64'" in engine["index"]
    assert engine["search"] == {"hnsw.ef_search": "200"}
    assert engine["searched_by"] == "Index Scan using vectors_index on vectors"
    assert engine["version"].startswith("pgvector ")
    assert measured.metrics["index_mb"] > 0
    assert measured.metrics["insert_s"] > 0
    assert tables(pgvector_server) == []


def test_recall_rises_with_the_width_of_a_search(run, pgvector_server):
    corpus = {"vectors": 3000, "dims": 48, "clusters": 3, "spread": 1.0}
    recalls = []
    for ef in (10, 60, 400):
        target = {
            "endpoint": pgvector_server,
            "api": "pgvector",
            "index": {"m": 6, "ef_construct": 20},
            "search": {"ef": ef},
        }
        recalls.append(recall_of(run(target, {"corpus": corpus})))
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.9


def test_ivfflat(run, pgvector_server):
    target = {"endpoint": pgvector_server, "api": "pgvector", "index": {"kind": "ivfflat", "lists": 20}}
    workload = {"corpus": {"vectors": 2000, "dims": 48, "clusters": 3, "spread": 1.0}}
    few = recall_of(run({**target, "search": {"probes": 1}}, workload))
    all_of_them = recall_of(run({**target, "search": {"probes": 20}}, workload))
    assert few < all_of_them == 1.0


def test_an_open_loop(run, pgvector_server):
    target = {"endpoint": pgvector_server, "api": "pgvector"}
    measured = run(target, load={"rate": 100, "arrivals": "constant", "duration": "700ms"})
    assert measured.metrics["offered_per_s"] == pytest.approx(100, rel=0.1)
    assert count_of(measured, "schedule_delay_ms") == count_of(measured)


def test_a_missing_extension_says_what_to_run(run, plain_postgresql):
    with pytest.raises(MeasureError) as refused:
        run({"endpoint": plain_postgresql, "api": "pgvector"})
    assert refused.value.problem.code == "extension"
    assert "CREATE EXTENSION vector;" in refused.value.problem.try_


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"index": {"mm": 3}}, 'unrecognized parameter "mm"'),
        ({"index": {"m": 1}}, 'value 1 out of bounds for option "m"'),
        ({"index": {"m": "1); DROP TABLE x; --"}}, "not a value of an index option"),
        ({"index": {"m) x": 3}}, "not the name of a PostgreSQL option"),
        ({"index": {"kind": "tree"}}, "hnsw, ivfflat, none"),
        ({"index": {"kind": "none", "m": 3}}, "kind none has no m"),
        ({"search": {"efx": 3}}, 'unrecognized configuration parameter "efx"'),
        ({"search": {"hnsw.foo": 3}}, 'invalid configuration parameter name "hnsw.foo"'),
        ({"search": {"ef": 100_000}}, "outside the valid range"),
        ({"search": {"probes": 3}}, "belongs to an index of kind ivfflat"),
    ],
)
def test_bad_options_are_refused_in_its_own_words(run, pgvector_server, target, words):
    with pytest.raises(MeasureError) as refused:
        run({"endpoint": pgvector_server, "api": "pgvector", **target})
    assert words in str(refused.value)
    assert tables(pgvector_server) == []


def test_too_many_dimensions(run, pgvector_server):
    with pytest.raises(MeasureError, match="cannot exceed 16000"):
        run({"endpoint": pgvector_server, "api": "pgvector"}, {"corpus": {"vectors": 3, "dims": 20_000}})


def test_a_search_that_takes_too_long_is_an_error_that_is_counted(run, pgvector_server):
    corpus = {"vectors": 4000, "dims": 256}
    target = {"endpoint": pgvector_server, "api": "pgvector", "index": {"kind": "none"}, "timeout": 0.001}
    with pytest.raises(MeasureError, match="statement timeout"):
        run(target, {"corpus": corpus})
    assert tables(pgvector_server) == []


def test_a_server_that_is_not_there(run):
    pytest.importorskip("psycopg")
    with pytest.raises(MeasureError, match="cannot be reached") as refused:
        run({"endpoint": "postgresql://nobody@127.0.0.1:1/none", "api": "pgvector", "timeout": "2s"})
    assert refused.value.problem.code == "unreachable"


def test_a_secret_in_the_url_stays_a_reference(run):
    with pytest.raises(MeasureError, match="ASSAY_TEST_PASSWORD is not set"):
        run({"endpoint": "postgresql://u:${env:ASSAY_TEST_PASSWORD}@127.0.0.1:1/x", "api": "pgvector"})


def test_the_binary_form_of_a_vector():
    assert vector_bytes(np.array([1.0, -2.0], dtype=np.float32)) == bytes.fromhex("0002 0000 3f800000 c0000000")
    block = Block(7, np.array([[1.0]], dtype=np.float32), np.array([1], dtype=np.int32))
    assert copy_rows(block) == bytes.fromhex("0003 00000004 00000007 00000004 00000001 00000008 0001 0000 3f800000")


def test_names_of_settings():
    assert settings({"ef": 40}, "hnsw") == [("hnsw.ef_search", "40")]
    assert settings({"probes": 4, "enable_seqscan": False}, "ivfflat") == [
        ("ivfflat.probes", "4"),
        ("enable_seqscan", "off"),
    ]
    assert settings({"iterative_scan": "strict_order"}, "hnsw") == [("hnsw.iterative_scan", "strict_order")]
