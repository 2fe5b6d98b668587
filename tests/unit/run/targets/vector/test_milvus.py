"""Milvus, a real server: its index and search options set and read back, filters, nothing left behind.

Opt-in, with `make test-milvus`. ASSAY_MILVUS is the interpreter of an environment with Milvus in it, whose server is
started here, or the URL of a server's port for management. What needs no server is tested always.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.unit.run.targets.vector.reading import count_of, recall_of

from assay.errors import MeasureError
from assay.run.targets.vector.collection import SearchTask
from assay.run.targets.vector.http import JsonClient
from assay.run.targets.vector.milvus import Milvus
from assay.run.workloads.corpus import VectorSet
from assay.spec.workload import Corpus

OPT_IN = "ASSAY_MILVUS names neither an interpreter with Milvus nor a URL; it is opt-in: make test-milvus"
HARD = {"vectors": 3000, "dims": 48, "clusters": 3, "spread": 1.0}


@pytest.fixture(scope="session")
def milvus() -> Iterator[str]:
    """URL of a Milvus server's port for management."""
    named = os.environ.get("ASSAY_MILVUS", "")
    if not named:
        pytest.skip(OPT_IN)
    if named.startswith(("http://", "https://")):
        yield named.rstrip("/")
        return
    if not cut_off():
        pytest.skip("Milvus listens on every address of this machine: run the tests under scripts/milvus.sh")
    program = Path(named).absolute().parent / "milvus-server"
    folder = Path(tempfile.mkdtemp(prefix="assay-milvus-"))
    command = [str(program), "--data", str(folder / "data"), "--proxy-port", "19530"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder, start_new_session=True
        )
    try:
        yield ready("http://127.0.0.1:9091", process, folder)
    finally:
        process.terminate()  # it ends the server, a process of its own
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def cut_off() -> bool:
    """Whether nothing but this machine can be reached from here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return True
    return False


def ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            collections(url)
        except (OSError, KeyError):
            time.sleep(0.2)
        else:
            return url
    pytest.fail(f"{url} did not answer: {(folder / 'log').read_text(errors='replace')[-800:]}")


def collections(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/api/v1/collections", timeout=5) as answer:
        told = json.load(answer)
    if told["status"]:
        raise KeyError(told)
    return [name for name in told.get("collection_names", []) if name.startswith("assay_")]


def engine(url: str, index: dict, search: dict, filtered: bool = False, patience_s: float = 60, **corpus) -> Milvus:
    rest = JsonClient("Milvus", url, headers={"Authorization": "x"}, timeout_s=30)
    task = SearchTask(Corpus(**{"vectors": 5, "dims": 4, **corpus}), 3, filtered, index, search)
    return Milvus(rest, task, patience_s)


@pytest.mark.live
@pytest.mark.parametrize(("metric", "share"), [("cosine", None), ("euclid", 0.1), ("dot", None)])
def test_a_flat_index_finds_everything(run, milvus, metric, share):
    corpus = {"vectors": 2000, "dims": 32, "clusters": 20, "metric": metric}
    target = {"endpoint": milvus, "api": "milvus", "index": {"kind": "flat"}}
    measured = run(target, {"corpus": corpus, "filter": share}, {"concurrency": 2, "requests": 200})
    assert recall_of(measured) == 1.0
    assert count_of(measured) == 200
    assert measured.facts["answers"]["outside_the_filter"] == 0
    assert measured.facts["answers"]["short"] == 0
    assert measured.metrics["error_rate"] == 0
    assert measured.metrics["insert_s"] > 0
    assert measured.metrics["index_s"] > 0
    assert "index_mb" in measured.absent
    told = measured.facts["engine"]
    assert told["index"] == {
        "index_type": "FLAT",
        "metric_type": {"cosine": "COSINE", "euclid": "L2", "dot": "IP"}[metric],
    }
    assert told.get("filter_index") == ({"index_type": "STL_SORT"} if share else None)
    assert told["searched_by"] == "a scan of all vectors"
    assert told["version"].startswith("v2.")
    assert collections(milvus) == []


@pytest.mark.live
def test_recall_rises_with_the_width_of_a_search(run, milvus):
    recalls = []
    for ef in (10, 300):
        target = {
            "endpoint": milvus,
            "api": "milvus",
            "index": {"kind": "hnsw", "m": 4, "ef_construct": 20},
            "search": {"ef": ef},
        }
        measured = run(target, {"corpus": HARD}, {"requests": 100}, {"warmup": "none"})
        told = measured.facts["engine"]
        assert told["index"] == {"index_type": "HNSW", "metric_type": "COSINE", "M": 4, "efConstruction": 20}
        assert (told["search"], told["searched_by"], told["indexed_vectors"]) == ({"ef": ef}, "the index", 3000)
        assert told["consistency"] == "bounded"
        recalls.append(recall_of(measured))
    assert recalls[0] < recalls[1]
    assert recalls[1] >= 0.9


@pytest.mark.live
def test_lists_and_probes_of_an_inverted_file(run, milvus):
    recalls = []
    for probes in (1, 64):
        target = {
            "endpoint": milvus,
            "api": "milvus",
            "index": {"kind": "ivf", "lists": 64},
            "search": {"probes": probes},
        }
        measured = run(target, {"corpus": HARD, "filter": 0.3}, {"requests": 100}, {"warmup": "none"})
        assert measured.facts["engine"]["index"]["nlist"] == 64
        assert measured.facts["engine"]["searched_by"] == "the index"
        assert measured.facts["answers"]["outside_the_filter"] == 0
        recalls.append(recall_of(measured))
    assert recalls[0] < 0.9
    assert recalls[1] == 1.0  # every list is looked into


@pytest.mark.live
def test_a_scan_is_called_a_scan(run, milvus):
    target = {"endpoint": milvus, "api": "milvus", "search": {"consistency": "eventually"}}
    corpus = {"vectors": 400, "dims": 16, "clusters": 8}
    measured = run(target, {"corpus": corpus, "queries": 20}, {"requests": 20}, {"warmup": "none"})
    told = measured.facts["engine"]
    assert recall_of(measured) == 1.0
    assert told["index"]["index_type"] == "AUTOINDEX"
    assert told["indexed_vectors"] == 0
    assert told["searched_by"].startswith("a scan of all vectors")
    assert told["consistency"] == "eventually"


@pytest.mark.live
@pytest.mark.parametrize(
    ("index", "search", "words", "code"),
    [
        ({"m": 1, "ef_construct": 0}, {}, "efConstruction out of range", "index-option"),
        ({"kind": "hsnw", "m": 8}, {}, "invalid index type: HSNW", "index-option"),
        ({"m": 8, "ef_construct": 40, "elephants": 3}, {}, "takes no notice of 'elephants'", "index-option"),
        ({"kind": "flat", "m": 8}, {}, "takes no notice of 'm'", "index-option"),
        ({"m": 8, "ef_construct": 40}, {"ef": 2}, r"ef\(2\) should be larger than k\(10\)", "search-option"),
        ({"m": 8, "ef_construct": 40}, {"ef": 20, "probes": 8}, "takes no notice of 'nprobe'", "search-option"),
        ({"kind": "flat"}, {"ef": 50}, "takes no notice of 'ef' with an index of kind FLAT", "search-option"),
    ],
)
def test_an_option_that_is_wrong_or_ignored_is_refused(run, milvus, index, search, words, code):
    with pytest.raises(MeasureError, match=words) as refused:
        run({"endpoint": milvus, "api": "milvus", "index": index, "search": search})
    assert refused.value.problem.code == code
    assert collections(milvus) == []


@pytest.mark.live
def test_a_collection_is_removed_after_a_failure(run, milvus):
    with pytest.raises(MeasureError, match="not for a vector search"):
        run(
            {"endpoint": milvus, "api": "milvus", "index": {"shards_num": 2}},
            load={"rate": "search"},
            objective={"latency_ms.p99": 500},
        )
    assert collections(milvus) == []


@pytest.mark.live
def test_an_impatient_run_says_what_it_waited_for(milvus):
    vectors = VectorSet(Corpus(vectors=50, dims=4), 0, 1)
    hurried = engine(milvus, {"kind": "flat"}, {}, patience_s=0.0, vectors=50)
    try:
        hurried.create()
        for block in vectors.blocks():
            hurried.insert(block)
        with pytest.raises(MeasureError, match="of 50 vectors in the index after 0 s"):
            hurried.finish()
    finally:
        hurried.close()
    assert collections(milvus) == []


@pytest.mark.live
def test_the_port_for_clients_is_refused(run, milvus):
    if not milvus.endswith("127.0.0.1:9091"):
        pytest.skip("only the server that is started here has a known port for clients")
    with pytest.raises(MeasureError, match="not its port for management") as refused:
        run({"endpoint": "http://127.0.0.1:19530", "api": "milvus", "timeout": "5s"})
    assert "9091" in refused.value.problem.try_


def test_a_server_that_is_not_there(run):
    with pytest.raises(MeasureError, match=r"Milvus at http://127\.0\.0\.1:1 cannot be reached") as refused:
        run({"endpoint": "http://127.0.0.1:1", "api": "milvus", "timeout": "2s"})
    assert refused.value.problem.code == "unreachable"


def test_an_unknown_consistency_is_refused(run):
    with pytest.raises(MeasureError, match="consistency is 'weak'") as refused:
        run({"endpoint": "http://127.0.0.1:1", "api": "milvus", "search": {"consistency": "weak"}})
    assert "strong, eventually, bounded" in refused.value.problem.try_


def test_numbers_survive_the_wire():
    query = np.array([0.1, 1e-7, -3.25, 16777217.0, 1 / 3], dtype=np.float32)
    made = engine("http://127.0.0.1:1", {"m": 8}, {"ef": 9}, filtered=True, dims=5, metric="euclid")
    method, path, body = made.search_request(query)
    assert (method, path) == ("POST", "/api/v1/search")
    sent = json.loads(body)
    assert np.array_equal(np.array(sent.pop("vectors"), dtype=np.float32), query[None])
    assert sent.pop("collection_name").startswith("assay_")
    assert {one["key"]: one["value"] for one in sent.pop("search_params")} == {
        "anns_field": "vector",
        "topk": "3",
        "metric_type": "L2",
        "params": '{"ef": 9}',
    }
    assert sent == {"nq": 1, "dsl_type": 1, "dsl": "tag == 1", "guarantee_timestamp": 2}
    assert made.headers() == {"Authorization": "x", "Content-Type": "application/json"}
    made.close()


def test_a_failed_search_comes_with_status_200_and_is_no_answer():
    made = engine("http://127.0.0.1:1", {}, {})
    assert made.read_ids(b'{"status":{},"results":{"ids":{"IdField":{"IntId":{"data":[3,1]}}}}}') == [3, 1]
    assert made.read_ids(b'{"status":{},"results":{"ids":{"IdField":{"IntId":{}}},"topks":[0]}}') == []
    with pytest.raises(ValueError, match="node is down"):
        made.read_ids(b'{"status":{"error_code":1,"reason":"node is down","code":65535}}')
    for body in (b"", b"nothing", b"[]", b"{}", b'{"status":{},"results":null}', b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011 - json and our own words alike
            made.read_ids(body)
    made.close()
