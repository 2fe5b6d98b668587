"""Qdrant, over its REST API."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.targets.vector.collection import SearchTask, own_name, refuse_ignored, renamed
from assay.run.targets.vector.http import JsonClient, RestCollection, searched_by
from assay.run.workloads.corpus import Floats

_DISTANCE = {"cosine": "Cosine", "euclid": "Euclid", "dot": "Dot"}
# What belongs to the collection as a whole; every other option is one of its HNSW index.
_OF_THE_COLLECTION = frozenset({
    "shard_number", "sharding_method", "replication_factor", "write_consistency_factor", "on_disk_payload",
    "hnsw_config", "wal_config", "optimizers_config", "quantization_config", "strict_mode_config",
})  # fmt: skip
_OF_THE_VECTORS = frozenset({"on_disk", "datatype"})
# The optimizer may start a moment after the last insert, so one green light is not enough.
_CHECKS, _BETWEEN_S = 4, 0.15


class Qdrant(RestCollection):
    name = "Qdrant"

    def __init__(self, rest: JsonClient, task: SearchTask, patience_s: float) -> None:
        super().__init__(rest, task, patience_s)
        self._collection = own_name()
        self._path = f"/collections/{self._collection}"
        self._batch = 500
        self._info: dict[str, Any] = {}
        params = renamed(task.search, {"ef": "hnsw_ef"})
        self._query: dict[str, JsonValue] = {"limit": task.k, "with_payload": False, "with_vector": False}
        if params:
            self._query["params"] = params
        if task.filtered:
            self._query["filter"] = {"must": [{"key": "tag", "match": {"value": 1}}]}

    def create(self) -> None:
        """Make the collection, and its payload index where a filter will need one."""
        self._version = self._rest.send_json("GET", "/")
        options = renamed(self._task.index, {"ef_construction": "ef_construct"})
        whole = {name: value for name, value in options.items() if name in _OF_THE_COLLECTION}
        params = {name: value for name, value in options.items() if name in _OF_THE_VECTORS}
        graph = {k: v for k, v in options.items() if k not in _OF_THE_COLLECTION | _OF_THE_VECTORS}
        given = whole.pop("hnsw_config", None)
        graph |= given if isinstance(given, dict) else {}
        corpus = self._task.corpus
        body = {"vectors": {"size": corpus.dims, "distance": _DISTANCE[corpus.metric], **params}, **whole}
        if graph:
            body["hnsw_config"] = graph
        self._rest.send_json("PUT", self._path, body, code="index-option", at="target.index")
        self._created = True
        config = self._description()["config"]
        refuse_ignored(self.name, graph, config["hnsw_config"], "target.index")
        refuse_ignored(self.name, params, config["params"]["vectors"], "target.index")
        effective = {**config, **config["params"], "optimizers_config": config["optimizer_config"]}
        refuse_ignored(self.name, whole, effective, "target.index")
        if self._task.filtered:
            field = {"field_name": "tag", "field_schema": "integer"}
            self._rest.send_json("PUT", f"{self._path}/index?wait=true", field)

    def insert_request(self, numbers: list[int], vectors: Floats, tags: list[int] | None) -> tuple[str, str, object]:
        batch: dict[str, object] = {"ids": numbers, "vectors": vectors.tolist()}
        if tags is not None:
            batch["payloads"] = [{"tag": tag} for tag in tags]
        return "PUT", f"{self._path}/points?wait=true", {"batch": batch}

    def finish(self) -> float:
        """Wait until the collection is green and stays so."""
        greens, green_ns = 0, 0
        while greens < _CHECKS:
            info = self._description()
            now = perf_counter_ns()
            if info["status"] == "red" or isinstance(info.get("optimizer_status"), dict):
                raise MeasureError(f"Qdrant could not index: {info.get('optimizer_status')}", code="index")
            if info["status"] in ("green", "grey"):
                green_ns = green_ns or now
                greens += 1
            else:
                greens, green_ns = 0, 0
            if (now - self._last_ns) / 1e9 > self._patience_s:
                message = f"Qdrant is still {info['status']} after {self._patience_s:g} s"
                raise MeasureError(message, code="index", try_="raise target.timeout")
            time.sleep(_BETWEEN_S)
        self.refuse_lost(self._rest.send_json("POST", f"{self._path}/points/count", {"exact": True})["result"]["count"])
        self._info = self._description()
        return (green_ns - self._last_ns) / 1e9

    def search_request(self, query: Floats) -> tuple[str, str, bytes]:
        rest = json.dumps(self._query, separators=(",", ":"))[1:]
        # The shortest text that reads back to the same single-precision number.
        vector = ",".join(map(str, query))
        return "POST", f"{self._path}/points/query", f'{{"query":[{vector}],{rest}'.encode()

    def read_ids(self, body: bytes) -> Sequence[int]:
        try:
            return [int(point["id"]) for point in json.loads(body)["result"]["points"]]
        except (KeyError, TypeError) as problem:
            raise ValueError(f"not an answer to a query: {problem}") from None

    def index_mb(self) -> str:
        return "Qdrant does not report the memory of one collection; the memory of its process is under probes"

    def facts(self) -> dict[str, JsonValue]:
        config = self._info.get("config", {})
        indexed, held = self._info.get("indexed_vectors_count"), self._info.get("points_count")
        return {
            "version": self._version.get("version") if isinstance(self._version, dict) else None,
            "index": config.get("hnsw_config"),
            "vectors": config.get("params", {}).get("vectors"),
            "optimizer": config.get("optimizer_config"),
            "quantization": config.get("quantization_config"),
            "search": self._query.get("params"),
            "segments": self._info.get("segments_count"),
            "indexed_vectors": indexed,
            "searched_by": searched_by(indexed, held, "optimizers_config.indexing_threshold"),
        }

    def drop(self) -> None:
        self._rest.send_json("DELETE", self._path)

    def _description(self) -> dict[str, Any]:
        description: dict[str, Any] = self._rest.send_json("GET", self._path)["result"]
        return description
