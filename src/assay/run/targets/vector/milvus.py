"""Milvus, over the REST API of its port for management (9091).

That API passes a request on as the server's own clients would send it, so every option of an index and of a search can
be set and read back. The one on port 19530 cannot do so in every version, which is why it is not used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

import httpx
import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run.targets.vector.collection import Options, SearchTask, own_name, refuse_ignored, renamed
from assay.run.targets.vector.http import JsonClient, RestCollection, encoded, searched_by
from assay.run.workloads.corpus import Floats

_API = "/api/v1"
_METRIC = {"cosine": "COSINE", "euclid": "L2", "dot": "IP"}
_SCAN = "FLAT"
_KINDS = {"hnsw": "HNSW", "ivf": "IVF_FLAT", "flat": _SCAN}
# Numbers of the protocol for its data types and states.
_INT64, _FLOAT_VECTOR = 5, 101
_INDEX_FAILED, _SEALED = 4, 3
# A timestamp that stands for a level of consistency; a strong search carries none.
_CONSISTENCY = {"strong": 0, "eventually": 1, "bounded": 2}
# No option has such a value: a server that accepts it does not look at the option.
_ABSURD = "assay"
_BATCH_VALUES = 2**20
_BETWEEN_S = 0.1


class Milvus(RestCollection):
    name = "Milvus"

    def __init__(self, rest: JsonClient, task: SearchTask, patience_s: float) -> None:
        super().__init__(rest, task, patience_s)
        self._collection = own_name()
        self._own: dict[str, JsonValue] = {"collection_name": self._collection}
        self._metric = _METRIC[task.corpus.metric]
        self._kind, self._index, self._shards = _index_of(task.index)
        self._search, self._consistency = _search_of(task.search)
        self._ending = self._search_body(self._search)
        self._batch = max(1, min(self._batch, _BATCH_VALUES // task.corpus.dims))
        self._facts: dict[str, JsonValue] = {}

    def create(self) -> None:
        """Make the collection and say which index its vectors get."""
        self._facts["version"] = self._version()
        fields: list[JsonValue] = [
            {"name": "id", "data_type": _INT64, "is_primary_key": True},
            {"name": "vector", "data_type": _FLOAT_VECTOR, "type_params": _pairs({"dim": self._task.corpus.dims})},
        ]
        if self._task.filtered:
            fields.append({"name": "tag", "data_type": _INT64})
        schema: dict[str, JsonValue] = {"name": self._collection, "fields": fields}
        body: dict[str, JsonValue] = {**self._own, "schema": schema}
        if self._shards is not None:
            body["shards_num"] = self._shards
        self._send_json("POST", "/collection", body, code="index-option", at="target.index")
        self._created = True
        made = self._send_json("GET", "/collection", self._own)
        refuse_ignored(self.name, {"shards_num": self._shards}, made, "target.index")
        self._refuse_unread(self._index, self._make_index, "target.index")
        self._make_index(self._index)
        effective = _read_index(self._indexes()["vector"])
        asked = {"index_type": self._kind, "metric_type": self._metric, **self._index}
        refuse_ignored(self.name, asked, effective, "target.index")
        self._facts |= {"index": effective, "shards": made.get("shards_num")}
        if self._task.filtered:
            sort = {"field_name": "tag", "index_name": "tag", "extra_params": _pairs({"index_type": "STL_SORT"})}
            self._send_json("POST", "/index", {**self._own, **sort})
            self._facts["filter_index"] = _read_index(self._indexes()["tag"])

    def insert_request(self, numbers: list[int], vectors: Floats, tags: list[int] | None) -> tuple[str, str, object]:
        columns: list[JsonValue] = [
            {"field_name": "id", "type": _INT64, "field": [*numbers]},
            {"field_name": "vector", "type": _FLOAT_VECTOR, "field": vectors.tolist()},
        ]
        if tags is not None:
            columns.append({"field_name": "tag", "type": _INT64, "field": [*tags]})
        return "POST", f"{_API}/entities", {**self._own, "num_rows": len(vectors), "fields_data": columns}

    def timed_insert(self, method: str, path: str, body: object) -> float:
        """Send some vectors; a refusal comes with status 200."""
        wire = encoded(body)
        start = perf_counter_ns()
        answer = self._rest.send(method, path, wire)
        taken = (perf_counter_ns() - start) / 1e9
        self._checked(answer, code="insert", at="workload.corpus")
        return taken

    def finish(self) -> float:
        """Close the segments, wait for their index, and load them for searching."""
        self._send_json("POST", "/persist", {"collection_names": [self._collection]}, code="index")
        self._wait(self._all_indexed, "vectors in the index")
        seconds = self.since_insert_s()
        start = perf_counter_ns()
        self._send_json("POST", "/collection/load", self._own, code="index")
        self._wait(self._all_loaded, "vectors loaded")
        loaded_s = (perf_counter_ns() - start) / 1e9
        self.refuse_lost(self._count())
        segments = self._segments()
        indexed = sum(int(segment.get("num_rows", 0)) for segment in segments if segment.get("index_name"))
        self._try_search(self._search)
        if indexed or self._kind == _SCAN:  # segments too small for an index have no use for its options
            self._refuse_unread(self._search, self._try_search, "target.search")
        self._facts |= {
            "search": dict(self._search),
            "consistency": self._consistency,
            "loaded_s": round(loaded_s, 3),
            "segments": len(segments),
            "indexed_vectors": indexed,
            "searched_by": "a scan of all vectors"
            if self._kind == _SCAN
            else searched_by(indexed, self._inserted, "indexCoord.segment.minSegmentNumRowsToEnableIndex"),
        }
        return seconds

    def search_request(self, query: Floats) -> tuple[str, str, bytes]:
        # The shortest text that reads back to the same single-precision number.
        vector = ",".join(map(str, query))
        return "POST", f"{_API}/search", f'{{"vectors":[[{vector}]],{self._ending}'.encode()

    def read_ids(self, body: bytes) -> Sequence[int]:
        """The vectors of an answer; Milvus says in the body, with status 200, that a search has failed."""
        try:
            answer = json.loads(body)
            if said := _complaint(answer):
                raise ValueError(said)
            return [int(vector_id) for vector_id in answer["results"]["ids"]["IdField"]["IntId"].get("data", [])]
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"not an answer to a search: {problem}") from None

    def index_mb(self) -> str:
        return "Milvus does not report the memory of one index; the memory of its process is under probes"

    def facts(self) -> dict[str, JsonValue]:
        return self._facts

    def drop(self) -> None:
        self._send_json("DELETE", "/collection", self._own)

    def _version(self) -> str | None:
        if self._rest.send("GET", f"{_API}/health", None).status_code == 404:
            message = f"{self._rest.url} has no {_API}: it is not Milvus, or not its port for management"
            try_ = "give the port that also has /metrics, 9091 unless set otherwise; it alone can set every option"
            raise MeasureError(message, code="endpoint", at="target", try_=try_)
        answer = self._send_json("GET", "/metrics", {"request": json.dumps({"metric_type": "system_info"})})
        with suppress(ValueError, LookupError, TypeError):
            version = json.loads(answer["response"])["nodes_info"][0]["infos"]["system_info"]["build_version"]
            return str(version)
        return None

    def _make_index(self, options: Options) -> None:
        given = {"metric_type": self._metric, "index_type": self._kind, "params": json.dumps(options)}
        body = {**self._own, "field_name": "vector", "index_name": "vector", "extra_params": _pairs(given)}
        self._send_json("POST", "/index", body, code="index-option", at="target.index")

    def _indexes(self) -> dict[str, dict[str, Any]]:
        indexes = self._send_json("GET", "/index", self._own)["index_descriptions"]
        return {index["field_name"]: index for index in indexes}

    def _segments(self) -> list[dict[str, Any]]:
        segments = (
            self._send_json("GET", "/query-segment-info", {"collectionName": self._collection}).get("infos") or []
        )
        return [segment for segment in segments if segment.get("state") == _SEALED]

    def _all_indexed(self) -> int:
        indexes = self._indexes().values()
        for index in indexes:
            if index.get("state") == _INDEX_FAILED:
                raise MeasureError(f"Milvus could not index: {index.get('index_state_fail_reason')}", code="index")
        return min(int(entry.get("indexed_rows", 0)) for entry in indexes)

    def _all_loaded(self) -> int:
        return sum(int(segment.get("num_rows", 0)) for segment in self._segments())

    def _count(self) -> int:
        """Vectors that a search can see; this waits until all that was inserted can be seen."""
        answer = self._send_json("POST", "/query", {**self._own, "expr": "", "output_fields": ["count(*)"]})
        return int(answer["fields_data"][0]["Field"]["Scalars"]["Data"]["LongData"]["data"][0])

    def _wait(self, reached: Callable[[], int], what: str) -> None:
        deadline = time.monotonic() + self._patience_s
        while (now := reached()) != self._inserted:
            if time.monotonic() > deadline:
                message = f"Milvus has {now} of {self._inserted} {what} after {self._patience_s:g} s"
                raise MeasureError(message, code="index", try_="raise measure.timeout")
            time.sleep(_BETWEEN_S)

    def _refuse_unread(self, options: Options, attempt: Callable[[Options], None], at: str) -> None:
        """Refuse options that Milvus passes over: it repeats any name, so each is tried with a wrong value."""
        for name in options:
            try:
                attempt({**options, name: _ABSURD})
            except MeasureError as refused:
                if refused.problem.code in ("unreachable", "timeout", "auth"):
                    raise
            else:
                message = f"Milvus takes no notice of {name!r} with an index of kind {self._kind}"
                try_ = f"remove it, or use the engine's own names under {at}"
                raise MeasureError(message, code=at.replace("target.", "") + "-option", at=at, try_=try_)

    def _try_search(self, options: Options) -> None:
        vector = np.ones(self._task.corpus.dims, dtype=np.float32).tolist()
        body = f'{{"vectors":[{json.dumps(vector)}],{self._search_body(options)}'.encode()
        self._send_json("POST", "/search", body, code="search-option", at="target.search")

    def _search_body(self, options: Options) -> str:
        given: dict[str, JsonValue] = {
            "anns_field": "vector",
            "topk": self._task.k,
            "metric_type": self._metric,
            "params": json.dumps(options),
        }
        rest: dict[str, JsonValue] = {**self._own, "nq": 1, "dsl_type": 1, "search_params": _pairs(given)}
        rest["dsl"] = "tag == 1" if self._task.filtered else ""
        if level := _CONSISTENCY[self._consistency]:
            rest["guarantee_timestamp"] = level
        return json.dumps(rest, separators=(",", ":"))[1:]

    def _send_json(self, method: str, path: str, body: object, *, code: str = "vector-engine", at: str = "") -> Any:  # noqa: ANN401
        return self._checked(self._rest.send(method, _API + path, encoded(body)), code=code, at=at)

    def _checked(self, answer: httpx.Response, *, code: str, at: str) -> Any:  # noqa: ANN401
        """The JSON of an answer, unless it is a complaint."""
        if answer.status_code in (401, 403):
            raise self._rest.refusal(answer, code=code, at=at)
        try:
            document = answer.json()
        except ValueError:
            document = None
        said = _complaint(document)
        if said or answer.status_code >= 400 or not isinstance(document, dict):
            said = said or f"{answer.status_code} {answer.text.strip()[:200]}"
            raise MeasureError(f"Milvus answered: {said[:600]}", code=code, at=at or self._rest.url)
        return document


def _index_of(options: Options) -> tuple[str, dict[str, JsonValue], JsonValue]:
    """Kind of an index in Milvus' own words, its parameters, and the shards of the collection."""
    given = renamed(options, {"index_type": "kind"})
    shards = given.pop("shards_num", None)
    kind = str(given.pop("kind", "hnsw" if given else "AUTOINDEX"))
    kind = _KINDS.get(kind, kind.upper())
    names = {"lists": "nlist"}
    if kind.startswith("HNSW"):  # others have an `m` of their own
        names |= {"m": "M", "ef_construct": "efConstruction"}
    return kind, renamed(given, names), shards


def _search_of(options: Options) -> tuple[dict[str, JsonValue], str]:
    """Parameters of a search in Milvus' own words, and how fresh its answers must be."""
    given = renamed(options, {"probes": "nprobe"})
    level = given.pop("consistency", "bounded")
    if not isinstance(level, str) or level not in _CONSISTENCY:
        message = f"target.search.consistency is {level!r}"
        raise MeasureError(message, code="search-option", at="target.search", try_=f"use {', '.join(_CONSISTENCY)}")
    return given, level


def _pairs(values: Options) -> list[JsonValue]:
    return [{"key": key, "value": str(value)} for key, value in values.items()]


def _read_index(described: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The settings of an index; some versions wrap its parameters, others give them one by one as text."""
    settings: dict[str, Any] = {pair["key"]: pair["value"] for pair in described.get("params", ())}
    with suppress(ValueError, TypeError):
        settings |= json.loads(settings.pop("params", "{}"))
    return {name: _number(value) for name, value in settings.items()}


def _number(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        return value
    try:
        read: JsonValue = json.loads(value)
    except ValueError:
        return value
    return read


def _complaint(answer: object) -> str:
    """What Milvus says about a failure; most calls wrap it in `status`, some answer with nothing else."""
    status = answer.get("status", answer) if isinstance(answer, dict) else None
    if isinstance(status, dict) and (status.get("error_code") or status.get("code")):
        return str(status.get("reason") or status.get("detail") or status)
    return ""
