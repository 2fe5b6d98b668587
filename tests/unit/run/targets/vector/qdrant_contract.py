"""A server that speaks the part of Qdrant's REST API that we use, answered by the local mode of its own client library.

Every request and every answer is held against the published shapes; what does not fit is told at `/violations`.
Run by an interpreter that has qdrant-client: it is not a Qdrant server, and nothing about speed can be learned from it.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jsonschema import Draft202012Validator
from pydantic import ValidationError
from qdrant_client import QdrantClient
from qdrant_client.http import models
from qdrant_shapes import ENDPOINTS, ERROR

# How often a collection is yellow after an insert, as one is while its optimizer runs.
YELLOW_LOOKS = 2
DEFAULT_HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000, "max_indexing_threads": 0, "on_disk": False}
DEFAULT_OPTIMIZERS = {
    "deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0, "max_segment_size": None,
    "memmap_threshold": None, "indexing_threshold": 20000, "flush_interval_sec": 5, "max_optimization_threads": None,
}  # fmt: skip


class Refusal(Exception):  # noqa: N818 - it is an answer
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Server:
    """Collections in memory."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.created: dict[str, dict[str, Any]] = {}
        self.yellow: dict[str, int] = {}
        self.violations: list[str] = []
        self.lock = threading.Lock()

    def answer(self, method: str, path: str, body: bytes) -> Any:
        path, _, query = path.partition("?")
        parts = path.split("/")
        name = parts[2] if len(parts) > 2 else ""
        shape = (method, "/".join("*" if index == 2 else part for index, part in enumerate(parts)))
        if shape not in ENDPOINTS:
            self.violations.append(f"{method} {path} is not in the contract")
            raise Refusal(404, "not found")
        document = json.loads(body) if body else None
        self._hold(f"request {method} {path}", ENDPOINTS[shape][0], document)
        with self.lock:
            result = self._do(shape, name, document, query)
        whole = result if shape == ("GET", "/") else {"result": result, "status": "ok", "time": 0.0001}
        self._hold(f"answer {method} {path}", ENDPOINTS[shape][1], whole)
        return whole

    def _hold(self, what: str, shape: dict[str, Any] | None, document: Any) -> None:
        if shape is None:
            if document is not None:
                self.violations.append(f"{what}: there is a body")
            return
        for problem in Draft202012Validator(shape).iter_errors(document):
            self.violations.append(f"{what}: {problem.message[:200]} at {problem.json_path}")

    def _do(self, shape: tuple[str, str], name: str, document: Any, query: str) -> Any:
        if shape == ("GET", "/"):
            return {"title": "qdrant - vector search engine", "version": "1.19.0"}
        if shape == ("PUT", "/collections/*"):
            return self._create(name, document)
        if name not in self.created:
            raise Refusal(404, f"Not found: Collection `{name}` doesn't exist!")
        if shape == ("GET", "/collections/*"):
            return self._info(name)
        if shape == ("DELETE", "/collections/*"):
            del self.created[name]
            return bool(self.client.delete_collection(name))
        if shape[1].endswith("/index"):
            self.created[name]["payload_schema"][document["field_name"]] = {
                "data_type": document["field_schema"],
                "points": 0,
            }
            return {"operation_id": 0, "status": "completed" if "wait=true" in query else "acknowledged"}
        if shape[1].endswith("/points"):
            return self._upsert(name, document, query)
        if shape[1].endswith("/count"):
            return {"count": self.client.count(name, exact=document.get("exact", True)).count}
        return self._query(name, document)

    def _create(self, name: str, document: dict[str, Any]) -> bool:
        if name in self.created:
            raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
        graph = document.get("hnsw_config") or {}
        known = {key: value for key, value in graph.items() if key in models.HnswConfigDiff.model_fields}
        try:  # the library's own models, made from the same document, refuse unknown fields
            models.CreateCollection.model_validate({**document, "hnsw_config": known})
        except ValidationError as problem:
            raise Refusal(400, f"Format error in JSON body: {problem.errors()[0]['msg']}") from None
        if known.get("ef_construct", 100) < 4:
            raise Refusal(
                422, "Validation error in JSON body: [hnsw_config.ef_construct: value 2 invalid, must be 4 or larger]"
            )
        vectors = models.VectorParams.model_validate(document["vectors"])
        self.client.create_collection(name, vectors_config=vectors)
        self.created[name] = {
            "hnsw": {**DEFAULT_HNSW, **known},
            "optimizers": {**DEFAULT_OPTIMIZERS, **(document.get("optimizers_config") or {})},
            "vectors": document["vectors"],
            "payload_schema": {},
            "quantization": document.get("quantization_config"),
        }
        return True

    def _info(self, name: str) -> dict[str, Any]:
        made, count = self.created[name], self.client.count(name).count
        yellow = self.yellow.get(name, 0) > 0
        self.yellow[name] = self.yellow.get(name, 0) - 1
        size_kb = count * made["vectors"]["size"] * 4 / 1024
        indexed = 0 if yellow or size_kb < made["optimizers"]["indexing_threshold"] else count
        return {
            "status": "yellow" if yellow else "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": indexed,
            "points_count": count,
            "segments_count": 2,
            "config": {
                "params": {"vectors": made["vectors"], "shard_number": 1, "replication_factor": 1},
                "hnsw_config": made["hnsw"],
                "optimizer_config": made["optimizers"],
                "quantization_config": made["quantization"],
            },
            "payload_schema": made["payload_schema"],
        }

    def _upsert(self, name: str, document: dict[str, Any], query: str) -> dict[str, Any]:
        batch = models.PointsBatch.model_validate(document).batch
        size = self.created[name]["vectors"]["size"]
        if any(len(vector) != size for vector in batch.vectors):
            got = len(batch.vectors[0])
            raise Refusal(400, f"Wrong input: Vector dimension error: expected dim: {size}, got {got}")
        self.client.upsert(name, batch)
        self.yellow[name] = YELLOW_LOOKS
        return {"operation_id": 1, "status": "completed" if "wait=true" in query else "acknowledged"}

    def _query(self, name: str, document: dict[str, Any]) -> dict[str, Any]:
        asked = models.QueryRequest.model_validate(document)
        found = self.client.query_points(
            name,
            query=document["query"],
            query_filter=asked.filter,
            search_params=asked.params,
            limit=asked.limit or 10,
            with_payload=bool(asked.with_payload),
            with_vectors=bool(asked.with_vector),
        )
        return {"points": [{"id": one.id, "version": 0, "score": float(one.score)} for one in found.points]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_points: Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server_of_points
        status = 200
        if self.path == "/violations":
            answer: Any = {"violations": server.violations, "collections": sorted(server.created)}
        else:
            try:
                answer = server.answer(self.command, self.path, body)
            except Refusal as refused:
                status, answer = refused.status, {"status": {"error": str(refused)}, "time": 0.0001}
                server._hold(f"error of {self.command} {self.path}", ERROR, answer)
        wire = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(wire)))
        self.end_headers()
        self.wfile.write(wire)

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        return


class Listener(ThreadingHTTPServer):
    daemon_threads = True


if __name__ == "__main__":
    Handler.server_of_points = Server()
    # Head and body go out as one segment: two would wait for each other.
    Handler.wbufsize = 65536
    Handler.disable_nagle_algorithm = True
    listener = Listener(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{listener.server_address[1]}", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), listener.shutdown()), daemon=True).start()
    listener.serve_forever()
