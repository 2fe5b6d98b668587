"""The JSON Schema of the benchmark file, so that editors complete and check it."""

from __future__ import annotations

from typing import Any

from assay.spec.benchmark import Benchmark
from assay.spec.describing import describe_sections


def benchmark_schema() -> dict[str, Any]:
    """The JSON Schema of a benchmark file."""
    describe_sections()
    schema = Benchmark.model_json_schema()
    # The matrix may give any key a value, so nothing but the name is required in the file itself.
    schema["required"] = ["benchmark"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "assay.benchmark/1",
        **schema,
        "title": "assay benchmark file",
    }
