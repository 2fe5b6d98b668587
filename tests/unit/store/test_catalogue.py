from __future__ import annotations

import threading

import pytest

from assay.errors import UsageError
from assay.plan.job import JobFile
from assay.store.catalogue import Catalogue, Draft


@pytest.fixture
def catalogue(fleet, clock):
    return Catalogue(fleet.engine, clock)


FILES = {"m.onnx": (JobFile("m.onnx", "0" * 64, 7), JobFile("m.onnx.data", "1" * 64, 9))}


def code(caught):
    return caught.value.problem.code


def test_a_benchmark_comes_back_with_its_files(catalogue, clock):
    made = catalogue.create("b", Draft({"benchmark": "b", "n": [1, 2]}, FILES, by="anna"))
    assert (made.version, made.newest, made.created_by, made.created_at) == (1, 1, "anna", clock.utc().timestamp())
    assert catalogue.get("b") == made
    assert made.files == FILES
    with pytest.raises(UsageError) as caught:
        catalogue.create("b", Draft({}))
    assert code(caught) == "exists"


def test_every_change_is_a_version_and_none_is_lost(catalogue, clock):
    first = catalogue.create("b", Draft({"n": 1}))
    clock.pass_s(1)
    second = catalogue.change("b", Draft({"n": 2}))
    assert catalogue.change("b", Draft({"n": 2}, by="somebody else")) == second  # says the same
    assert catalogue.change("b", Draft({"n": 2}, FILES)).version == 3
    assert [one.version for one in catalogue.versions("b")] == [3, 2, 1]
    assert catalogue.get("b", 1).document == first.document
    assert catalogue.get("b", 1).newest == 3
    with pytest.raises(UsageError) as caught:
        catalogue.get("b", 4)
    assert code(caught) == "unknown-benchmark"


def test_a_change_of_what_another_else_changed_is_refused(catalogue):
    catalogue.create("b", Draft({"n": 1}))
    catalogue.change("b", Draft({"n": 2}), expected=1)
    with pytest.raises(UsageError) as caught:
        catalogue.change("b", Draft({"n": 3}), expected=1)
    assert code(caught) == "precondition"
    assert catalogue.get("b").document == {"n": 2}


def test_many_changes_at_once_are_all_kept(catalogue):
    catalogue.create("b", Draft({"n": 0}))
    threads = [threading.Thread(target=catalogue.change, args=("b", Draft({"n": n}))) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.document["n"] for one in catalogue.versions("b")) == list(range(9))


def test_a_deleted_one_is_off_the_list_and_its_versions_stay(catalogue):
    catalogue.create("b", Draft({"n": 1}))
    catalogue.delete("b")
    for act in (catalogue.get, catalogue.delete, lambda name: catalogue.change(name, Draft({}))):
        with pytest.raises(UsageError) as caught:
            act("b")
        assert code(caught) == "unknown-benchmark"
    assert catalogue.benchmarks().items == ()
    assert catalogue.get("b", 1).document == {"n": 1}
    assert catalogue.create("b", Draft({"n": 2})).version == 2


def test_pages_and_search(catalogue):
    for name in ("b_1", "bx1", "a", "c"):
        catalogue.create(name, Draft({}))
    first = catalogue.benchmarks(limit=3)
    rest = catalogue.benchmarks(limit=3, cursor=first.next)
    assert [one.name for one in (*first.items, *rest.items)] == sorted(("b_1", "bx1", "a", "c"))
    assert [one.name for one in catalogue.benchmarks(text="B_").items] == ["b_1"]


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_a_name_is_needed_and_has_its_limits(catalogue, name):
    with pytest.raises(UsageError) as caught:
        catalogue.create(name, Draft({}))
    assert code(caught) == "name"
