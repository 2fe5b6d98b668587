"""Chroma, over version 2 of its HTTP API."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.targets.vector.collection import SearchTask, own_name, refuse_ignored, renamed
from assay.run.targets.vector.http import JsonClient, RestCollection
from assay.run.workloads.corpus import Floats

_SPACE = {"cosine": "cosine", "euclid": "l2", "dot": "ip"}
_NAMES = {"m": "max_neighbors", "ef_construct": "ef_construction", "ef": "ef_search"}
_DATABASE = "/tenants/default_tenant/databases/default_database"


def split_url(url: str) -> tuple[str, str]:
    """The root of the API and the database below it; a URL may name both, else the default database is used."""
    root, mark, rest = url.rstrip("/").partition("/api/v2")
    path = urlsplit(url).path
    if rest and "/databases/" not in path:
        message = f"{url} names no database"
        try_ = "write http://host:8000 or http://host:8000/api/v2/tenants/…/databases/…"
        raise MeasureError(message, code="endpoint", at="target.endpoint", try_=try_)
    return f"{root}/api/v2", rest if mark and rest else _DATABASE


class Chroma(RestCollection):
    name = "Chroma"

    def __init__(self, rest: JsonClient, task: SearchTask, patience_s: float) -> None:
        super().__init__(rest, task, patience_s)
        rest.url, database = split_url(rest.url)
        self._collection = own_name("-")
        self._all = f"{database}/collections"
        self._path = ""
        self._in_base64 = False
        self._caught_up = "a first query, which waits for the log of inserts to be read"
        self._facts: dict[str, JsonValue] = {}

    def create(self) -> None:
        """Make the collection; Chroma keeps the width of a search with the collection."""
        version = self._rest.send_json("GET", "/version")
        limits = self._rest.send_json("GET", "/pre-flight-checks")
        self._batch = min(self._batch, int(limits.get("max_batch_size") or self._batch))
        self._in_base64 = bool(limits.get("supports_base64_encoding"))
        asked = renamed({**self._task.index, **self._task.search}, _NAMES)
        graph = {"space": _SPACE[self._task.corpus.metric], **asked}
        body = {"name": self._collection, "configuration": {"hnsw": graph}, "get_or_create": False}
        made = self._rest.send_json("POST", self._all, body, code="index-option", at="target.index and target.search")
        self._path = f"{self._all}/{made['id']}"
        self._created = True
        config = (made.get("configuration_json") or {}).get("hnsw") or {}
        refuse_ignored(self.name, graph, {**_inner(made), **config}, "target.index and target.search")
        self._facts = {"version": version, "index": {**_inner(made), **config}}

    def insert_request(self, numbers: list[int], vectors: Floats, tags: list[int] | None) -> tuple[str, str, object]:
        body = {"ids": list(map(str, numbers)), "embeddings": self._embeddings(vectors)}
        if tags is not None:
            body["metadatas"] = [{"tag": tag} for tag in tags]
        return "POST", f"{self._path}/add", body

    def finish(self) -> float:
        """Wait until the log of inserts is read into the index."""
        while (left := self._unindexed()) is not None and left > 0:
            self._caught_up = "its indexing_status"
            if self.since_insert_s() > self._patience_s:
                message = f"Chroma has {left} vectors not indexed after {self._patience_s:g} s"
                raise MeasureError(message, code="index", try_="raise target.timeout")
            time.sleep(0.1)
        method, path, body = self.search_request(np.ones(self._task.corpus.dims, dtype=np.float32))
        self._rest.send_json(method, path, body)
        seconds = self.since_insert_s()
        self.refuse_lost(self._rest.send_json("GET", f"{self._path}/count"))
        return seconds

    def search_request(self, query: Floats) -> tuple[str, str, bytes]:
        rest: dict[str, JsonValue] = {"n_results": self._task.k, "include": []}
        if self._task.filtered:
            rest["where"] = {"tag": {"$eq": 1}}
        vector = ",".join(map(str, query))
        ending = json.dumps(rest, separators=(",", ":"))[1:]
        return "POST", f"{self._path}/query", f'{{"query_embeddings":[[{vector}]],{ending}'.encode()

    def read_ids(self, body: bytes) -> Sequence[int]:
        try:
            return [int(vector_id) for vector_id in json.loads(body)["ids"][0]]
        except (KeyError, TypeError, IndexError) as problem:
            raise ValueError(f"not an answer to a query: {problem}") from None

    def index_mb(self) -> str:
        return "Chroma does not report the memory of an index; the memory of its process is under probes"

    def facts(self) -> dict[str, JsonValue]:
        return {**self._facts, "index_finished_by": self._caught_up}

    def drop(self) -> None:
        self._rest.send_json("DELETE", f"{self._all}/{self._collection}")

    def _embeddings(self, vectors: Floats) -> list[object]:
        if not self._in_base64:
            return list(vectors.tolist())
        return [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]

    def _unindexed(self) -> int | None:
        """Vectors that are not in the index yet; None where this server does not say (one on a single machine)."""
        answer = self._rest.send("GET", f"{self._path}/indexing_status", None)
        if answer.status_code >= 400:
            return None
        return int(answer.json().get("num_unindexed_ops", 0))


def _inner(made: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Settings that only the schema of an answer shows, such as the threads."""
    place: Any = made.get("schema") or {}
    for step in ("defaults", "float_list", "vector_index", "config", "hnsw"):
        place = place.get(step) if isinstance(place, dict) else None
    return dict(place) if isinstance(place, dict) else {}
