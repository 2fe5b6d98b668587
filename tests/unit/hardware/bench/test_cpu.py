"""The processor: its kernels, its crew of processes, and whole tests with small sizes."""

from __future__ import annotations

import io
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from assay.hardware.bench import cpu_workers, sweep
from assay.hardware.bench.cpu_suite import Processor, core_counts, measure, processor, scaling_result
from assay.hardware.bench.cpu_workers import GemmWork, MemoryWork, Worker, WorkerPool, serve
from assay.hardware.bench.records import ARRAYS, Accuracy, BenchOptions, SizePoint

MIB = 2**20
CPU = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


@pytest.mark.parametrize("kernel", ARRAYS)
@pytest.mark.parametrize("size", [8, 8_000, 3 * MIB + 8])
def test_each_pass_does_what_it_says(kernel, size):
    work = MemoryWork(kernel, size, 4096, 1)
    for _ in range(3):
        work.call()
    assert work.check().wrong == ""


@pytest.mark.parametrize("kernel", ARRAYS)
def test_a_pass_that_did_not_happen_is_caught(kernel):
    work = MemoryWork(kernel, MIB, 4096, 1)
    work.call()
    if kernel == "read":
        work._total *= 1.001
    else:
        work._a[77] *= 1.01
    assert work.check().wrong


@pytest.mark.parametrize("kernel", ["copy", "triad", "write"])
def test_arrays_before_any_pass_do_not_pass_for_its_result(kernel):
    assert MemoryWork(kernel, MIB, 4096, 1).check().wrong


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_products_are_right_and_a_wrong_one_is_caught(precision):
    work = GemmWork(precision, 128, 2, 1)
    for _ in range(3):
        work.call()
    assert work.check().wrong == ""
    for one in work._sets:
        one[2][:] = one[2].T.copy()
    assert work.check().wrong


def test_sets_take_turns():
    work = GemmWork("fp32", 32, 3, 1)
    before = [one[2].copy() for one in work._sets]
    work.call()
    work.call()
    changed = [not np.array_equal(one[2], old) for one, old in zip(work._sets, before, strict=True)]
    assert changed == [True, True, False]


def told(*commands):
    answers = io.StringIO()
    serve(io.StringIO("".join(json.dumps(one) + "\n" for one in commands)), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_a_worker_does_what_it_is_reported_and_says_what_it_cannot():
    block = {"do": "block", "calls": 2, "start_ns": 0, "bare": False}
    gemm = {"do": "gemm", "precision": "fp32", "n": 32, "sets": 1, "seed": 1}
    ready, done, check, bare, dropped, nothing = told(
        gemm, block, {"do": "check"}, {**block, "bare": True}, {"do": "drop"}, block
    )
    assert ready == dropped == {}
    assert done["end_ns"] > done["begin_ns"]
    assert bare["end_ns"] > bare["begin_ns"]
    assert check["error"] <= check["tolerance"]
    assert nothing == {"failed": "this worker holds no work", "memory": False}


def test_memory_that_a_worker_does_not_get_is_reported_as_such():
    (answer,) = told({"do": "memory", "kernel": "copy", "size": 2**60, "block": 4096, "seed": 1})
    assert answer["memory"] is True
    assert answer["failed"].startswith("out of memory")


def test_a_worker_begins_no_earlier_than_reported():
    import time

    station = Worker()
    station.answer({"do": "memory", "kernel": "write", "size": 8000, "block": 4096, "seed": 1})
    start = time.perf_counter_ns() + 3_000_000
    answer = station.answer({"do": "block", "calls": 1, "start_ns": start, "bare": False})
    assert answer["begin_ns"] >= start


@pytest.mark.live
def test_a_crew_works_together_and_leaves_nothing():
    with WorkerPool([(CPU,), (CPU,)]) as crew:
        workers = list(crew._workers)
        crew.call_all(do="memory", kernel="triad", size=64_000, block=4096, seed=1)
        assert crew.timed(3) > 0
        assert crew.check().wrong == ""
        with pytest.raises(MemoryError):
            crew.call_all(do="memory", kernel="copy", size=2**60, block=4096, seed=1)
        with pytest.raises(RuntimeError, match="holds no work"):
            crew.timed(1)
        assert crew.death() == ""
    assert all(worker.returncode == 0 for worker in workers)


@pytest.mark.live
def test_a_worker_that_dies_is_reported_with_its_signal():
    with WorkerPool([()]) as crew:
        os.kill(crew._workers[0].pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="ended with -9"):
            crew.call_all(do="drop")
        assert "-9" in crew.death()


def small(**more) -> Processor:
    return replace(processor(None), cache=64 * 1024, **more)


@pytest.mark.live
def test_all_tests_of_this_processor_with_small_sizes(monkeypatch):
    monkeypatch.setattr(sweep, "BLOCK_S", 0.001)
    notes = []
    options = BenchOptions(
        ("copy", "read", "write", "triad", "fp32", "fp64", "int8", "bf16", "transfer", "scaling"),
        sizes=(32 * 1024, MIB, 2 * MIB),
        shapes=(64, 96),
        each_s=0.01,
        compare=True,
    )
    found = measure(options, lambda share, note: notes.append((share, note)), small())
    by_name = {one.name: one for one in found.tests}
    for name in ("copy", "copy_one", "read", "write", "triad", "triad_one"):
        one = by_name[name]
        assert one.reported is not None, one.absent
        assert one.reported.size >= MIB  # beyond the cache that it was told of
        assert 0.01 < one.reported.value < 5000
        assert [row["bytes"] for row in one.facts()["curve"]] == [32 * 1024, MIB, 2 * MIB]
        assert one.facts()["check"]["largest_error"] <= 1e-9
        assert one.begin_ns < min(one.reported.at_ns) < one.end_ns
    for name in ("fp32", "fp64"):
        assert 1e-5 < by_name[name].reported.value < 100
    scaling = by_name["scaling"]
    assert 0 < scaling.reported.value < 5
    assert len(scaling.also["fp32_one_tflops"][0]) >= 3
    assert "floating-point numbers alone" in by_name["int8"].absent
    assert "no product of this precision" in by_name["bf16"].absent
    assert "nothing to transfer" in by_name["to_device"].absent
    assert {"copy", "copy_one", "fp32", "fp64"} == found.bare.keys()
    assert all(0.01 < one["low"] <= one["ratio"] <= one["high"] for one in found.bare.values())
    assert found.facts["blas"]["numpy"] == np.__version__
    assert notes[0] == (0.0, "copy")


@pytest.mark.live
def test_a_size_without_memory_leaves_the_others(monkeypatch):
    monkeypatch.setattr(sweep, "BLOCK_S", 0.001)
    options = BenchOptions(("copy",), sizes=(MIB, 2**60, 2 * MIB), each_s=0.01)
    found = measure(options, lambda *_: None, small(cpus=(CPU,)))
    one = found.tests[0]
    assert [point.size for point in one.points] == [MIB, 2 * MIB]
    assert one.left_out[str(2**60)].startswith("out of memory")
    assert one.reported is not None


def test_a_crew_that_cannot_start_makes_its_tests_absent(monkeypatch):
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    found = measure(BenchOptions(("copy", "fp32", "scaling"), each_s=0.01), lambda *_: None, small())
    assert [one.name for one in found.tests] == ["copy", "copy_one", "fp32", "scaling"]
    assert all(one.reported is None and "No such file" in one.absent for one in found.tests)


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (8, (1, 2, 4, 8)), (12, (1, 2, 4, 8, 12))]
)
def test_cores_are_doubled_up_to_all(cores, counts):
    assert core_counts(cores) == counts


def test_scaling_is_all_cores_over_the_sum_of_single_ones():
    right = Accuracy(0.0, 1.0)
    points = [SizePoint(1, (0.5, 0.5), (1, 2), 1.0, right), SizePoint(4, (1.5, 1.7, 1.6), (3, 4, 5), 1.0, right)]
    found = scaling_result(points, 0, 1024)
    assert found.reported.value == pytest.approx(0.8)
    assert found.also == {"fp32_one_tflops": ((0.5, 0.5), (1, 2))}
    assert [row["cores"] for row in found.facts()["curve"]] == [1, 4]
    wrong = scaling_result([points[0], replace(points[1], check=Accuracy(2.0, 1.0))], 0, 1024)
    assert wrong.reported is None
    assert "the result is wrong" in wrong.absent
    assert wrong.also == {}


def test_pieces_of_the_triad_cover_the_whole_array():
    work = MemoryWork("triad", 80_000, 4096, 1)
    assert sum(piece[0].size for piece in work._blocks) == 10_000
    assert max(piece[0].nbytes for piece in work._blocks) == 4096
    assert cpu_workers.SCALAR != 0
