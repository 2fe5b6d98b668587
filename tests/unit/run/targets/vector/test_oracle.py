"""The truth against a plain search in double precision, and recall against cases that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run.targets.vector import oracle
from assay.run.targets.vector.oracle import find_neighbours, judge, known_neighbours
from assay.run.workloads import corpus as corpora
from assay.run.workloads.corpus import VectorSet
from assay.spec.workload import Corpus

METRICS = ("cosine", "euclid", "dot")


def vectors(share=None, seed=0, queries=12, **section) -> VectorSet:
    return VectorSet(Corpus(**{"vectors": 300, "dims": 8, "clusters": 10, **section}), seed, queries, share)


def plainly(one: VectorSet) -> np.ndarray:
    """All distances, written down as the textbook has them."""
    rows = np.concatenate([block.vectors for block in one.blocks()]).astype(np.float64)
    asked = one.queries.astype(np.float64)
    if one.corpus.metric == "euclid":
        found = ((asked[:, None] - rows[None]) ** 2).sum(axis=2)
    elif one.corpus.metric == "dot":
        found = -(asked[:, None] * rows[None]).sum(axis=2)
    else:
        lengths = np.sqrt((asked**2).sum(axis=1))[:, None] * np.sqrt((rows**2).sum(axis=1))[None]
        found = 1 - (asked[:, None] * rows[None]).sum(axis=2) / lengths
    found[:, ~one.passes(np.arange(len(rows)))] = np.inf
    return found


@settings(max_examples=120)
@given(
    count=st.integers(1, 400),
    dims=st.integers(1, 40),
    metric=st.sampled_from(METRICS),
    clusters=st.integers(1, 30),
    spread=st.floats(1e-6, 3),
    share=st.one_of(st.none(), st.floats(0.01, 1)),
    k=st.integers(1, 60),
    seed=st.integers(-5, 5),
)
def test_neighbours_are_those_of_a_plain_search(count, dims, metric, clusters, spread, share, k, seed):
    one = vectors(share, seed, vectors=count, dims=dims, metric=metric, clusters=clusters, spread=spread)
    truth = find_neighbours(one, k)
    plain = plainly(one)
    wanted = min(k, one.left)
    best = np.sort(plain, axis=1)[:, :wanted]
    scale = max(1.0, float(np.abs(plain[np.isfinite(plain)]).max()))
    assert np.allclose(truth.distances[:, :wanted], best, rtol=1e-9, atol=1e-12 * scale)
    for row in range(len(plain)):
        ids = truth.ids[row, :wanted]
        assert len(set(ids.tolist())) == wanted
        assert np.allclose(plain[row, ids], truth.distances[row, :wanted], rtol=1e-9, atol=1e-12 * scale)


def test_blocks_do_not_change_the_truth(monkeypatch):
    one = vectors(vectors=900, queries=40)
    whole = find_neighbours(one, 10)
    monkeypatch.setattr(oracle, "QUERIES_AT_ONCE", 7)
    monkeypatch.setattr(oracle, "PAIR_VALUES", 64)
    assert np.array_equal(find_neighbours(one, 10).ids, whole.ids)
    monkeypatch.setattr(corpora, "BLOCK_VALUES", 8 * 100)
    other = find_neighbours(one, 10)  # other blocks are other vectors, but the truth is still theirs
    assert np.allclose(other.distances[:, :10], np.sort(plainly(one), axis=1)[:, :10])


def test_what_single_precision_cannot_decide_is_settled_in_double():
    # Vectors so close together that their distances differ only beyond the seventh digit.
    close = vectors(vectors=400, dims=16, clusters=1, spread=1e-5, metric="euclid")
    truth = find_neighbours(close, 5)
    assert truth.settled > 0
    assert np.allclose(truth.distances[:, :5], np.sort(plainly(close), axis=1)[:, :5], rtol=1e-6)


def test_a_wrong_truth_is_found_out(monkeypatch):
    honest = oracle._settle

    def shifted(held, queries, ids):
        return honest(held, queries, ids) + 0.01

    monkeypatch.setattr(oracle, "_settle", shifted)
    with pytest.raises(MeasureError, match="disagree"):
        find_neighbours(vectors(), 3)


def test_the_truth_is_kept_and_found_again(tmp_path, monkeypatch):
    one = vectors()
    first = known_neighbours(one, 5, tmp_path, lambda _: None)
    monkeypatch.setattr(oracle, "find_neighbours", None)
    again = known_neighbours(one, 5, tmp_path, lambda _: None)
    assert np.array_equal(first.ids, again.ids)
    assert again.digest == first.digest
    assert again.k == 5


@pytest.mark.parametrize("damage", ["cut", "other vectors", "nonsense"])
def test_a_damaged_cache_is_computed_anew(tmp_path, damage, monkeypatch):
    one = vectors()
    first = known_neighbours(one, 5, tmp_path, lambda _: None)
    (path,) = (tmp_path / "neighbours").glob("*.npz")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "nonsense":
        path.write_text("no array")
    else:
        monkeypatch.setattr(oracle, "digest", lambda _: "of other vectors")
    again = known_neighbours(one, 5, tmp_path, lambda _: None)
    assert np.array_equal(first.ids, again.ids)


def test_an_unwritable_cache_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("")
    assert known_neighbours(vectors(), 5, tmp_path / "file", lambda _: None).checked == 8


# -- recall ------------------------------------------------------------------------------------------------------------


def judged(one, truth, answers, queries=None):
    rows = np.arange(len(answers)) if queries is None else np.asarray(queries)
    return judge(one, truth, rows, np.asarray(answers, dtype=np.int64))


@pytest.mark.parametrize("metric", METRICS)
def test_the_truth_itself_has_a_recall_of_one(metric):
    one = vectors(metric=metric, share=0.3)
    truth = find_neighbours(one, 10)
    found = judged(one, truth, truth.ids[:, :10])
    assert found.recall.tolist() == [1.0] * 12
    assert (found.ties, found.outside, found.repeated, found.short) == (0, 0, 0, 0)


def test_each_wrong_neighbour_costs_its_share():
    one = vectors()
    truth = find_neighbours(one, 10)
    answers = truth.ids[:, :10].copy()
    far = np.argmax(plainly(one), axis=1)
    for row in range(12):
        answers[row, : row % 11] = far[row]
    right = [1 - (row % 11) / 10 for row in range(12)]
    found = judged(one, truth, answers)
    assert np.allclose(found.recall, right)
    assert found.repeated == sum(max(0, row % 11 - 1) for row in range(12))


def test_the_order_does_not_matter_and_short_answers_cost():
    one = vectors()
    truth = find_neighbours(one, 10)
    backwards = truth.ids[:, :10][:, ::-1].copy()
    assert judged(one, truth, backwards).recall.min() == 1.0
    backwards[:, 6:] = -1
    found = judged(one, truth, backwards)
    assert np.allclose(found.recall, 0.6)
    assert found.short == 12


def test_numbers_that_do_not_exist_and_forbidden_ones_are_wrong():
    one = vectors(share=0.5)
    truth = find_neighbours(one, 4)
    answers = truth.ids[:, :4].copy()
    answers[:, 0] = 10**6
    answers[:, 1] = np.flatnonzero(~one.passes(np.arange(300)))[:12]
    found = judged(one, truth, answers)
    assert np.allclose(found.recall, 0.5)
    assert found.outside == 24


def test_fewer_vectors_than_k():
    one = vectors(vectors=5)
    truth = find_neighbours(one, 10)
    answers = np.full((12, 10), -1)
    answers[:, :5] = np.arange(5)
    found = judged(one, truth, answers)
    assert found.recall.tolist() == [1.0] * 12
    assert found.short == 0


def test_ties_count_as_right():
    # One dimension and the cosine: every vector on the query's side is equally near.
    one = vectors(vectors=400, dims=1, clusters=200, spread=1.0)
    truth = find_neighbours(one, 3)
    rows = np.concatenate([block.vectors for block in one.blocks()])[:, 0]
    assert truth.is_open.all()
    for query in range(12):
        same = np.flatnonzero(np.sign(rows) == np.sign(one.queries[query, 0]))
        answer = same[-3:]  # none of our own candidates
        found = judge(one, truth, np.array([query]), answer[None])
        assert found.recall[0] == 1.0
        assert found.ties == 3 - len(set(answer) & set(truth.ids[query, :3].tolist()))
        other = np.flatnonzero(np.sign(rows) != np.sign(one.queries[query, 0]))[:3]
        assert judge(one, truth, np.array([query]), other[None]).recall[0] == 0.0


def test_equal_answers_are_judged_once_and_counted_each():
    one = vectors()
    truth = find_neighbours(one, 10)
    answers = np.repeat(truth.ids[:2, :10], 500, axis=0)
    answers[500:, 0] = 10**7
    found = judged(one, truth, answers, np.repeat([0, 1], 500))
    assert np.allclose(found.recall, [1.0] * 500 + [0.9] * 500)
    assert found.outside == 500


def test_no_answers():
    one = vectors()
    assert judged(one, find_neighbours(one, 3), np.zeros((0, 3))).recall.size == 0


def test_the_tolerance_is_small():
    one = vectors(vectors=2000, dims=128)
    truth = find_neighbours(one, 10)
    assert (truth.tolerance < 1e-5).all()
    strict = replace(truth, tolerance=np.zeros(12))
    assert judge(one, strict, np.arange(12), truth.ids[:, :10]).recall.min() == 1.0
