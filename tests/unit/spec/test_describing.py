"""The meaning of keys, read from the source when it is asked for."""

from __future__ import annotations

from assay.spec.benchmark import Measure
from assay.spec.load import load
from assay.spec.schema import benchmark_schema
from assay.spec.target import ServiceTarget


def test_every_key_of_the_schema_says_what_it_means_also_after_models_were_used():
    before = load({"benchmark": "one", "target": {"command": "true"}}).benchmark
    schema = benchmark_schema()
    runs = schema["$defs"]["Measure"]["properties"]["runs"]
    assert runs["description"] == Measure.model_fields["runs"].description
    assert runs["description"]
    described = [
        ("description" in key) for part in schema["$defs"].values() for key in part.get("properties", {}).values()
    ]
    assert sum(described) > 0.9 * len(described) > 50
    assert load({"benchmark": "one", "target": {"command": "true"}}).benchmark == before


def test_a_key_that_a_kind_of_target_shares_is_described_once_for_all():
    benchmark_schema()
    assert ServiceTarget.model_fields["api"].description
