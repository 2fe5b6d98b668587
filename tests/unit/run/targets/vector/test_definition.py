"""The file of a vector search: matrix paths into an engine's own options, sections that mean something."""

from __future__ import annotations

import pytest

from assay.errors import SpecError
from assay.plan.plan import make_plan
from assay.spec.load import load

FILE = {
    "benchmark": "b",
    "target": {"library": "faiss", "index": {"kind": "hnsw"}, "search": {"ef": 1, "other": 2}},
    "workload": {"task": "knn", "corpus": {"vectors": 100}, "filter": "10%"},
}


def jobs(**more):
    return make_plan(load({**FILE, **more}), lambda _: {}).jobs


def test_a_matrix_reaches_into_the_options_of_an_engine():
    matrix = {"target.search.ef": [16, 64], "target.index.m": [8, 16], "load.concurrency": [1, 4]}
    found = jobs(matrix=matrix)
    assert len({job.digest for job in found}) == len(found) == 8
    assert found[0].definition.target.search == {"ef": 16, "other": 2}
    assert found[-1].definition.target.index == {"kind": "hnsw", "m": 16}
    assert found[-1].definition.load.concurrency == 4


def test_a_matrix_over_corpus_and_filter():
    found = jobs(matrix={"workload.corpus.dims": [8, 16], "workload.filter": ["1%", 0.5]})
    assert [(job.definition.workload.corpus.dims, job.definition.workload.filter) for job in found] == [
        (8, 0.01),
        (8, 0.5),
        (16, 0.01),
        (16, 0.5),
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"vectors": 0}, {"dims": 0}, {"metric": "manhattan"}, {"clusters": 0}, {"spread": 0}, {"size": 3}],
)
def test_a_wrong_corpus_is_refused(wrong):
    with pytest.raises(SpecError):
        jobs(workload={"task": "knn", "corpus": wrong})
