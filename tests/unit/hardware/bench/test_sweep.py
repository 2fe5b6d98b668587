"""One test over its sizes, on simulated devices whose speed is known."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from assay.hardware.bench.outcome import absent_result, gemm_result, memory_result, too_long
from assay.hardware.bench.records import GB, TERA, Accuracy, SizePoint
from assay.hardware.bench.sweep import PreparedTest, is_memory, reason_of, sweep

pytestmark = pytest.mark.simulated
MIB = 2**20


class Simulated:
    """A device with a latency of each call and a speed; some sizes fail."""

    def __init__(self, per_s, call_s=0.0, work=lambda size: 2.0 * size, fails=None, errors=None):
        self.per_s, self.call_s, self.work = per_s, call_s, work
        self.fails, self.errors = fails or {}, errors or {}
        self.open: list[int] = []
        self.closed: list[int] = []

    @contextmanager
    def __call__(self, size):
        if size in self.fails:
            raise self.fails[size]
        self.open.append(size)
        speed = self.per_s(size) if callable(self.per_s) else self.per_s
        took = self.call_s + self.work(size) / speed
        try:
            check = (lambda: Accuracy(self.errors[size], 1e-3)) if size in self.errors else None
            yield PreparedTest(lambda calls: calls * took, self.work(size), check)
        finally:
            self.closed.append(size)


def test_a_known_speed_is_reported_exactly():
    device = Simulated(250 * GB)
    found = sweep((64 * MIB, 256 * MIB), device, each_s=0.5, unit=GB)
    assert [point.value for point in found.points] == pytest.approx([250.0, 250.0])
    assert all(point.spread < 1e-9 for point in found.points)
    assert found.points[1].call_s == pytest.approx(2 * 256 * MIB / (250 * GB))
    assert device.closed == device.open == [64 * MIB, 256 * MIB]


def test_a_known_speed_of_products_is_reported_exactly_with_the_cost_of_a_launch():
    device = Simulated(900 * TERA, call_s=5e-6, work=lambda n: 2.0 * n**3)
    found = sweep((512, 4096, 16384), device, each_s=0.5, unit=TERA)
    expected = [2 * n**3 / (5e-6 + 2 * n**3 / (900 * TERA)) / TERA for n in (512, 4096, 16384)]
    assert [point.value for point in found.points] == pytest.approx(expected)
    best = gemm_result("bf16", found, 0, {}).reported
    assert best.size == 16384
    assert best.value == pytest.approx(expected[-1])


def test_the_plateau_of_a_known_curve_is_reported():
    cache = 32 * MIB
    device = Simulated(lambda size: (800 if size <= cache else 200) * GB)
    found = sweep((MIB, 16 * MIB, 4 * cache, 8 * cache, 16 * cache), device, each_s=0.1, unit=GB)
    result = memory_result("copy", found, cache, 0, {"counted": "2"})
    assert result.metric == "copy_gb_per_s"
    assert result.reported.value == pytest.approx(200)
    facts = result.facts()
    assert facts["best"] == {"bytes": MIB, "value": pytest.approx(800)}
    assert facts["plateau"]["bytes"] == [4 * cache, 8 * cache, 16 * cache]
    assert [row["bytes"] for row in facts["curve"]] == [MIB, 16 * MIB, 4 * cache, 8 * cache, 16 * cache]
    assert facts["how"] == {"cache_bytes": cache, "counted": "2"}


def test_memory_that_runs_out_at_one_size_leaves_that_size_out_alone():
    freed = []
    device = Simulated(GB, fails={2048: RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore")})
    found = sweep((1024, 2048, 4096), device, each_s=0.1, unit=GB, after_trouble=lambda: freed.append(1) or "")
    assert [point.size for point in found.points] == [1024, 4096]
    assert found.left_out == {"2048": "out of memory: CUDA out of memory. Tried to allocate 2.00 GiB"}
    assert (found.lost, freed) == ("", [1])


def test_a_lost_device_ends_the_sweep_and_keeps_what_was_measured():
    device = Simulated(GB, fails={2048: RuntimeError("CUDA error: unspecified launch failure")})
    found = sweep((1024, 2048, 4096), device, each_s=0.1, unit=GB, after_trouble=lambda: "it does not answer")
    assert [point.size for point in found.points] == [1024]
    assert found.lost == "it does not answer"
    assert device.open == [1024]
    # A product keeps its best shape so far; bandwidth, which has no size beyond the cache then, has none.
    assert gemm_result("fp32", found, 0, {}).reported.size == 1024
    assert memory_result("copy", found, 32 * MIB, 0, {}).reported is None


def test_a_wrong_result_makes_the_metric_absent_with_its_figure():
    device = Simulated(TERA, errors={512: 1e-5, 1024: 0.25})
    result = gemm_result("fp32", sweep((512, 1024), device, each_s=0.1, unit=TERA), 0, {})
    assert result.reported is None
    assert "0.25" in result.absent
    assert "0.001" in result.absent
    assert len(result.facts()["curve"]) == 2
    assert result.facts()["check"] == {"largest_error": 0.25, "tolerance": 1e-3, "sizes": 2}


def test_a_result_that_is_no_number_is_wrong():
    assert Accuracy(float("nan"), 1.0).wrong
    assert Accuracy(float("inf"), 1.0).wrong
    assert not Accuracy(0.0, 0.0).wrong
    assert "higher precision" in Accuracy(1e-7, 1e-2, at_least=3e-5).wrong


def test_shapes_that_would_take_too_long_are_left_out_with_the_estimate():
    device = Simulated(0.05 * TERA, work=lambda n: 2.0 * n**3)
    found = sweep((512, 1024, 2048, 4096), device, each_s=0.5, unit=TERA, skip=too_long(0.5))
    assert [point.size for point in found.points] == [512, 1024, 2048]  # 0.34 s
    assert found.left_out["4096"] == "one product would take about 2.7 s, and a shape is given 500 ms"


def test_an_absent_test_has_its_metric_and_reason():
    one = absent_result("int8", "no such unit")
    assert (one.metric, one.absent, one.facts()["absent"]) == ("int8_tops", "no such unit", "no such unit")
    assert absent_result("to_device_pinned", "x").metric == "to_device_pinned_gb_per_s"
    assert absent_result("scaling", "x").metric == "core_scaling"
    assert absent_result("storage", "x").metric == "storage_read_gb_per_s"


def test_every_metric_of_a_test_is_a_known_one():
    from assay.hardware.bench.outcome import TRANSFERS, metric_of
    from assay.metrics import METRICS

    names = (
        "copy",
        "copy_one",
        "read",
        "write",
        "triad",
        "triad_one",
        "fp64",
        "fp32",
        "tf32",
        "fp16",
        "bf16",
        "int8",
        "fp8",
        "scaling",
        "storage",
        *TRANSFERS,
    )
    assert {metric_of(name) for name in names} <= METRICS.keys()


@pytest.mark.parametrize(
    ("problem", "memory"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED"), False),
        (ValueError("n must be divisible by 8"), False),
    ],
)
def test_memory_that_ran_out_is_known_by_what_libraries_say(problem, memory):
    assert is_memory(problem) is memory
    assert reason_of(problem).startswith("out of memory") is memory


def test_a_point_is_the_median_of_its_blocks():
    point = SizePoint(1, (1.0, 9.0, 2.0, 3.0), (0, 1, 2, 3), 1.0)
    assert point.value == 2.5
    assert point.spread == pytest.approx(8 / 2.5)
    assert point.facts("n") == {"n": 1, "value": 2.5, "blocks": 4, "spread": pytest.approx(3.2)}
