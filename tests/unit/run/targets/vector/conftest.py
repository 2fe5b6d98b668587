"""What the tests of vector search share: one run of a definition in this process, and the servers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.vector_servers import (  # noqa: F401
    _contract_server,
    _postgresql_with_vectors,
    chroma_server,
    pgvector_server,
    plain_postgresql,
    qdrant_contract,
)

from assay.analyse.steady_state import enough, steady
from assay.plan.job import Job
from assay.run.contract import Measured, Order, Rules
from assay.run.targets.vector.measure import measure
from assay.spec.benchmark import Definition

Run = Callable[..., Measured]
SMALL = {"vectors": 2000, "dims": 32, "clusters": 20}


class Stage:
    """A stage that keeps the phases in order."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.phases.append(name)
        yield

    def progress(self, share: float, note: str = "") -> None:
        return


@pytest.fixture
def run(tmp_path) -> Run:
    """Measure once: target, workload (over a small corpus), load, measure."""

    def _run(
        target: dict[str, Any],
        workload: dict[str, Any] | None = None,
        load: dict[str, Any] | None = None,
        measure_: dict[str, Any] | None = None,
        **more: Any,
    ) -> Measured:
        document = {
            "target": target,
            "workload": {"task": "knn", "corpus": SMALL, "queries": 100, **(workload or {})},
            "load": load or {},
            "measure": measure_ or {"warmup": "none", "until": {"samples": 100}},
            **more,
        }
        definition = Definition.model_validate_json(json.dumps(document))
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        job = Job("b", "0", 0, definition, base=str(tmp_path))
        order = Order(job, 0, str(scratch), cache=os.environ["ASSAY_CACHE"])
        return measure(order, Stage(), Rules(steady, enough))

    return _run
