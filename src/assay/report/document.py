"""The machine form of a result: one JSON document, and the schema that describes it."""

from __future__ import annotations

from typing import Any

from assay.analyse.records import RESULT_SCHEMA, CampaignRecord
from assay.documents import adapter, to_json

_DESCRIPTION = (
    "One submission of a benchmark with all its jobs: statistics with intervals from the spread between "
    "runs, checks, verdicts, runs, environment and failures. What could not be measured is null or absent."
)


def result_json(record: CampaignRecord) -> str:
    """Write a campaign as one JSON document of the schema `assay.result/1`."""
    return to_json(record, indent=2)


def result_schema() -> dict[str, Any]:
    """The JSON Schema of the documents that `result_json` writes."""
    schema = adapter(CampaignRecord).json_schema(mode="serialization")
    named = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{RESULT_SCHEMA.replace('.', ':').replace('/', ':')}",
        "title": RESULT_SCHEMA,
        "description": _DESCRIPTION,
    }
    return {**schema, **named}
