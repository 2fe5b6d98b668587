"""What a benchmark may ask for here."""

from __future__ import annotations

import pytest

from assay.errors import MeasureError
from assay.plan.plan import refuse_unsupported
from assay.spec.benchmark import Benchmark


def benchmark(**more):
    return Benchmark.model_validate({"benchmark": "b", "target": {"command": "true"}, **more})


def test_an_engine_of_another_place_is_refused():
    with pytest.raises(MeasureError, match="'slurm'"):
        refuse_unsupported(benchmark(place={"engine": "slurm"}))
    refuse_unsupported(benchmark(place={"engine": "slurm"}), ("slurm",))


def test_monitoring_is_refused_where_nobody_starts_it():
    refuse_unsupported(benchmark(monitoring=True))
    with pytest.raises(MeasureError, match="agents of a server"):
        refuse_unsupported(benchmark(monitoring=True), ("fleet", "local"))
    refuse_unsupported(benchmark(monitoring=False), ("fleet", "local"))
