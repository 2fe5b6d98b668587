"""Definitions with a workload, as a user would write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.run.tokens.trained import trained

from assay.errors import MeasureError
from assay.run.tokens.sources import _Local
from assay.run.workloads import make_workset
from assay.spec.benchmark import Definition

HERE = Path()


def definition(load=None, **workload) -> Definition:
    target = {"endpoint": "http://127.0.0.1:1/v1", "api": "openai-chat", "model": "m"}
    return Definition.model_validate({"target": target, "workload": workload, "load": load or {}})


def tokenizer(kind="byte-level"):
    return _Local(f"trained {kind}", trained(kind))


def workset(base=HERE, tokens=None, load=None, **workload):
    return make_workset(definition(load, **workload), base, tokens)


def refusal(base=HERE, tokens=None, **workload):
    with pytest.raises(MeasureError) as caught:
        workset(base, tokens, **workload)
    assert caught.value.problem.try_, "an error says what to do"
    return caught.value.problem


def jsonl(folder: Path, *rows, name="own.jsonl") -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return name
