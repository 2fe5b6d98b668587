"""The page about Kubernetes says what is there: every code of a failure, every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.engines.kubernetes import phases
from assay.spec.kubernetes import Distributed, Kubernetes, Pod
from assay.spec.target import Together

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "how-to" / "use-kubernetes.md").read_text(encoding="utf-8")
ENGINE = Path(phases.__file__).parent
# What runs inside of a pod reports through its result.
SOURCES = [path for path in ENGINE.rglob("*.py") if ENGINE / "pod" not in path.parents]
_CODE = r'"(kubernetes-[a-z-]+)"'
# Said of a file or of a command, with the key or the command itself, and not of a job that was submitted.
_ELSEWHERE = {"kubernetes-option", "kubernetes-files", "kubernetes-document", "kubernetes-waiting", "kubernetes-exec",
              "kubernetes-not-found", "kubernetes-gone"}  # fmt: skip


def test_every_reason_why_a_job_failed_is_explained_and_exists() -> None:
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `kubernetes-")]
    named = {code for row in rows for code in re.findall(r"kubernetes-[a-z-]+", row)}
    made = {code for path in SOURCES for code in re.findall(_CODE, path.read_text(encoding="utf-8"))}
    assert made - _ELSEWHERE == named
    assert f"`{phases.LATE}`" in TEXT


@pytest.mark.parametrize("key", sorted({*Pod.model_fields, *Kubernetes.model_fields}))
def test_every_key_is_on_the_page(key: str) -> None:
    cells = [re.split(r"(?<!\\)\|", line)[1] for line in TEXT.splitlines() if line.startswith("| `")]
    assert any(re.search(rf"`{key}[`:]", cell) for cell in cells)


@pytest.mark.parametrize("key", sorted({*Distributed.model_fields, *Together.model_fields} - {"port"}))
def test_every_key_of_pods_that_go_together_is_on_the_page(key: str) -> None:
    assert re.search(rf"[`{{ .]{key}[`:]", TEXT)
