"""The shapes of the Qdrant endpoints that we use, after its published OpenAPI document (v1.19.x).

The shapes of requests follow the models that Qdrant's client library generates from that document.

Only these endpoints, with the fields that the document lists for them; a request may have no other.
"""

from __future__ import annotations

from typing import Any

Shape = dict[str, Any]


def _object(properties: Shape, required: tuple[str, ...] = (), *, extra: bool = False) -> Shape:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": extra}


def _maybe(shape: Shape) -> Shape:
    return {"anyOf": [shape, {"type": "null"}]}


COUNT: Shape = {"type": "integer", "minimum": 0}
NUMBER: Shape = {"type": "number"}
VECTOR: Shape = {"type": "array", "items": NUMBER, "minItems": 1}
POINT_ID: Shape = {"anyOf": [COUNT, {"type": "string", "format": "uuid"}]}
FLAG: Shape = {"type": "boolean"}
ANY: Shape = {"type": "object"}

HNSW_CONFIG_DIFF = _object(
    {
        "m": _maybe(COUNT),
        "ef_construct": _maybe({"type": "integer", "minimum": 4}),
        "full_scan_threshold": _maybe(COUNT),
        "max_indexing_threads": _maybe(COUNT),
        "on_disk": _maybe(FLAG),
        "payload_m": _maybe(COUNT),
        "inline_storage": _maybe(FLAG),
    }
)
OPTIMIZERS_CONFIG_DIFF = _object(
    {
        "deleted_threshold": _maybe(NUMBER),
        "vacuum_min_vector_number": _maybe(COUNT),
        "default_segment_number": _maybe(COUNT),
        "max_segment_size": _maybe(COUNT),
        "memmap_threshold": _maybe(COUNT),
        "indexing_threshold": _maybe(COUNT),
        "flush_interval_sec": _maybe(COUNT),
        "max_optimization_threads": _maybe({"anyOf": [COUNT, {"enum": ["auto"]}]}),
        "prevent_unoptimized": _maybe(FLAG),
    }
)
VECTOR_PARAMS = _object(
    {
        "size": {"type": "integer", "minimum": 1},
        "distance": {"enum": ["Cosine", "Euclid", "Dot", "Manhattan"]},
        "hnsw_config": _maybe(HNSW_CONFIG_DIFF),
        "quantization_config": _maybe(ANY),
        "on_disk": _maybe(FLAG),
        "datatype": _maybe({"enum": ["float32", "uint8", "float16"]}),
        "multivector_config": _maybe(ANY),
    },
    ("distance", "size"),
)
CREATE_COLLECTION = _object(
    {
        "vectors": VECTOR_PARAMS,
        "shard_number": _maybe({"type": "integer", "minimum": 1}),
        "sharding_method": _maybe({"enum": ["auto", "custom"]}),
        "replication_factor": _maybe({"type": "integer", "minimum": 1}),
        "write_consistency_factor": _maybe({"type": "integer", "minimum": 1}),
        "on_disk_payload": _maybe(FLAG),
        "hnsw_config": _maybe(HNSW_CONFIG_DIFF),
        "wal_config": _maybe(ANY),
        "optimizers_config": _maybe(OPTIMIZERS_CONFIG_DIFF),
        "quantization_config": _maybe(ANY),
        "sparse_vectors": _maybe(ANY),
        "strict_mode_config": _maybe(ANY),
        "metadata": _maybe(ANY),
    }
)
CREATE_FIELD_INDEX = _object(
    {
        "field_name": {"type": "string"},
        "field_schema": {"enum": ["keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid", None]},
    },
    ("field_name",),
)
POINTS_BATCH = _object(
    {
        "batch": _object(
            {
                "ids": {"type": "array", "items": POINT_ID},
                "vectors": {"type": "array", "items": VECTOR},
                "payloads": _maybe({"type": "array", "items": _maybe(ANY)}),
            },
            ("ids", "vectors"),
        ),
        "shard_key": {},
        "update_filter": {},
    },
    ("batch",),
)
FIELD_CONDITION = _object(
    {"key": {"type": "string"}, "match": _object({"value": {"type": ["boolean", "integer", "string"]}}, ("value",))},
    ("key",),
)
CONDITIONS = {"anyOf": [{"type": "array", "items": FIELD_CONDITION}, FIELD_CONDITION]}
SEARCH_PARAMS = _object(
    {
        "hnsw_ef": _maybe(COUNT),
        "exact": FLAG,
        "quantization": _maybe(_object({"ignore": FLAG, "rescore": _maybe(FLAG), "oversampling": _maybe(NUMBER)})),
        "indexed_only": FLAG,
        "acorn": _maybe(ANY),
    }
)
QUERY_REQUEST = _object(
    {
        "query": VECTOR,
        "using": _maybe({"type": "string"}),
        "filter": _maybe(_object({"must": CONDITIONS, "should": CONDITIONS, "must_not": CONDITIONS})),
        "params": _maybe(SEARCH_PARAMS),
        "score_threshold": _maybe(NUMBER),
        "limit": _maybe({"type": "integer", "minimum": 1}),
        "offset": _maybe(COUNT),
        "with_vector": FLAG,
        "with_payload": FLAG,
    }
)
COUNT_REQUEST = _object({"filter": {}, "exact": FLAG, "shard_key": {}})

HNSW_CONFIG = _object(
    {"m": COUNT, "ef_construct": {"type": "integer", "minimum": 4}, "full_scan_threshold": COUNT},
    ("ef_construct", "full_scan_threshold", "m"),
    extra=True,
)
COLLECTION_INFO = _object(
    {
        "status": {"enum": ["green", "yellow", "grey", "red"]},
        "optimizer_status": {"anyOf": [{"enum": ["ok"]}, _object({"error": {"type": "string"}}, ("error",))]},
        "indexed_vectors_count": _maybe(COUNT),
        "points_count": _maybe(COUNT),
        "segments_count": COUNT,
        "config": _object(
            {"params": ANY, "hnsw_config": HNSW_CONFIG, "optimizer_config": ANY},
            ("hnsw_config", "optimizer_config", "params"),
            extra=True,
        ),
        "payload_schema": ANY,
        "warnings": {"type": "array"},
        "update_queue": {},
    },
    ("config", "optimizer_status", "payload_schema", "segments_count", "status"),
)
SCORED_POINT = _object(
    {
        "id": POINT_ID,
        "version": COUNT,
        "score": NUMBER,
        "payload": {},
        "vector": {},
        "shard_key": {},
        "order_value": {},
    },
    ("id", "score", "version"),
)
UPDATE_RESULT = _object(
    {"operation_id": _maybe(COUNT), "status": {"enum": ["acknowledged", "completed", "wait_timeout"]}}, ("status",)
)


def answered(result: Shape) -> Shape:
    """The envelope of every answer."""
    return _object({"result": result, "status": {"enum": ["ok"]}, "time": NUMBER, "usage": {}}, ("result",))


ERROR = _object(
    {"status": _object({"error": {"type": "string"}}, ("error",)), "time": NUMBER, "result": {}}, ("status",)
)

# Method and path (the collection's name cut out) → what goes in, what comes out.
ENDPOINTS: dict[tuple[str, str], tuple[Shape | None, Shape]] = {
    ("GET", "/"): (None, _object({"title": {"type": "string"}, "version": {"type": "string"}, "commit": {}},
                                 ("title", "version"))),
    ("PUT", "/collections/*"): (CREATE_COLLECTION, answered(FLAG)),
    ("GET", "/collections/*"): (None, answered(COLLECTION_INFO)),
    ("DELETE", "/collections/*"): (None, answered(FLAG)),
    ("PUT", "/collections/*/index"): (CREATE_FIELD_INDEX, answered(UPDATE_RESULT)),
    ("PUT", "/collections/*/points"): (POINTS_BATCH, answered(UPDATE_RESULT)),
    ("POST", "/collections/*/points/count"): (COUNT_REQUEST, answered(_object({"count": COUNT}, ("count",)))),
    ("POST", "/collections/*/points/query"): (
        QUERY_REQUEST, answered(_object({"points": {"type": "array", "items": SCORED_POINT}}, ("points",)))),
}  # fmt: skip
