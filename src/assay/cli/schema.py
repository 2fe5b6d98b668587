"""`assay schema`: JSON Schemas of the documents, for editors and programs."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from assay.cli.output import say


class Document(StrEnum):
    """Documents that have a schema."""

    benchmark = "benchmark"
    job = "job"
    result = "result"


def schema(
    document: Annotated[Document, typer.Argument(help="Which document.")] = Document.benchmark,
) -> None:
    """Print the JSON Schema of the benchmark file, the job document or the result document."""
    say(json.dumps(_schema(document), indent=2))


def _schema(document: Document) -> dict[str, object]:
    if document is Document.result:
        from assay.report.export import result_schema

        return result_schema()
    if document is Document.job:
        from assay.documents import adapter
        from assay.plan.job import JOB_SCHEMA, Job

        return {"$id": JOB_SCHEMA, **adapter(Job).json_schema()}
    from assay.spec.schema import benchmark_schema

    return benchmark_schema()
