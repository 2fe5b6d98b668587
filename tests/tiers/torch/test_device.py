"""The tests of a device of PyTorch, on tensors of the host: the same code that measures a GPU."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from tests.tiers.torch.conftest import FakeStage

from assay.errors import AssayError
from assay.hardware.bench import gpu_kernels, gpu_suite
from assay.hardware.bench import sweep as sweeping
from assay.hardware.bench.accelerator import Accelerator, OperandRotation
from assay.hardware.bench.outcome import TRANSFERS
from assay.hardware.bench.records import GB, TERA, BenchOptions
from assay.hardware.bench.sweep import sweep
from assay.plan.job import Job
from assay.run.contract import Order
from assay.run.targets.device import _Loaded, _proof
from assay.run.targets.device import measure as device_measure
from assay.run.torch_devices import TorchPlacement
from assay.spec.benchmark import Definition

MIB = 2**20
CACHE = 64 * 1024


class KnownTimer:
    """A clock on which every call takes a known time; the work itself is done once."""

    def __init__(self, call_s):
        self.call_s = call_s
        self.calls = 0

    def __call__(self, call):
        def run(calls):
            call()
            self.calls += calls
            return calls * self.call_s

        return run


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(sweeping, "BLOCK_S", 0.001)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def host(timer=None, cache=CACHE):
    return Accelerator(torch, "cpu", timer, cache)


def measured(wish, device):
    found = gpu_suite.measure(wish, lambda *_: None, device)
    return found, {one.name: one for one in found.tests}


@pytest.mark.parametrize(("kernel", "arrays"), [("copy", 2), ("read", 1), ("write", 1), ("triad", 3)])
def test_bytes_are_counted_as_stream_counts_them(kernel, arrays):
    found = sweep((MIB,), gpu_kernels.passes(host(KnownTimer(1e-3)), kernel), each_s=0.1, unit=GB)
    assert found.points[0].value == pytest.approx(arrays * MIB / 1e-3 / GB)
    assert found.points[0].check.wrong == ""


@pytest.mark.parametrize("precision", ["fp64", "fp32", "fp16", "bf16", "int8", "fp8"])
def test_a_known_time_gives_the_known_speed_and_the_product_is_right(precision):
    found = sweep((64, 128), gpu_kernels.products(host(KnownTimer(2e-3)), precision), each_s=0.1, unit=TERA)
    assert found.left_out == {}
    assert [point.value for point in found.points] == pytest.approx([2 * n**3 / 2e-3 / TERA for n in (64, 128)])
    assert [point.check.wrong for point in found.points] == ["", ""]
    assert found.points[0].check.error <= found.points[0].check.tolerance / 2


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8", "fp8"])
def test_a_wrong_product_is_caught(precision, monkeypatch):
    real = gpu_kernels.operands

    def spoilt(device, kind, n):
        one = real(device, kind, n)

        def call():
            one.multiply()
            one.product[::2] = 0

        return gpu_kernels.Operands(one.left, one.right, one.product, call, one.scale)

    monkeypatch.setattr(gpu_kernels, "operands", spoilt)
    device = host(KnownTimer(1e-3))
    _, by_name = measured(BenchOptions((precision,), shapes=(64,), each_s=0.01), device)
    assert by_name[precision].reported is None
    assert "the result is wrong" in by_name[precision].absent
    assert by_name[precision].facts()["curve"][0]["n"] == 64


def test_tf32_that_full_precision_did_is_no_tf32():
    found = sweep((128,), gpu_kernels.products(host(KnownTimer(1e-3)), "tf32"), each_s=0.01, unit=TERA)
    if found.points[0].check.error < 3e-5:  # a processor without such a mode does it in full
        assert "higher precision" in found.points[0].check.wrong


def test_single_precision_is_set_and_set_back():
    before = torch.get_float32_matmul_precision()
    with gpu_kernels.single_precision(torch, tf32=True):
        assert torch.get_float32_matmul_precision() == "high"
        with gpu_kernels.single_precision(torch, tf32=False):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_small_shapes_have_as_many_sets_as_leave_the_cache():
    assert gpu_kernels.sets_for("bf16", 16384, 50 * MIB, None) == 2
    many = gpu_kernels.sets_for("bf16", 1024, 50 * MIB, None)
    assert many * 6 * MIB >= 2 * 50 * MIB
    assert gpu_kernels.sets_for("bf16", 64, 50 * MIB, None) == 64
    assert gpu_kernels.sets_for("fp64", 4096, 50 * MIB, 3 * 8 * 4096**2) == 1  # memory for one alone


def test_all_tests_run_on_the_host(brief):
    device = host()
    found, by_name = measured(BenchOptions((), sizes=(32 * 1024, MIB, 2 * MIB), shapes=(64, 128), each_s=0.005), device)
    for name in ("copy", "read", "write", "triad", "to_device", "from_device"):
        one = by_name[name]
        assert one.reported is not None, one.absent
        assert one.reported.size >= MIB
        assert [row["bytes"] for row in one.facts()["curve"]] == [32 * 1024, MIB, 2 * MIB]
    for name in ("fp64", "fp32", "fp16", "bf16", "int8", "fp8"):
        assert by_name[name].reported is not None, by_name[name].absent
        assert by_name[name].facts()["check"]["sizes"] == 2
    assert "NVIDIA" in by_name["tf32"].absent
    if not torch.cuda.is_available():  # pinned memory needs a GPU to be pinned for
        assert by_name["to_device_pinned"].reported is None
        assert by_name["to_device_pinned"].absent
    assert set(found.used) == {"cpu"}
    assert found.facts["device"] == "cpu"


def test_tests_of_the_processor_alone_say_so():
    _, by_name = measured(BenchOptions(("scaling", "storage"), each_s=0.01), host(KnownTimer(1e-3)))
    assert "target.device: cpu" in by_name["scaling"].absent
    assert "target.device: cpu" in by_name["storage"].absent


def test_memory_that_runs_out_leaves_that_size_out_and_gives_the_rest_back():
    device = host(KnownTimer(1e-3))
    _, by_name = measured(BenchOptions(("copy",), sizes=(MIB, 2**50, 2 * MIB), each_s=0.01), device)
    one = by_name["copy"]
    assert [point.size for point in one.points] == [MIB, 2 * MIB]
    assert one.left_out[str(2**50)].startswith("out of memory")
    assert one.reported is not None


class Lost(Accelerator):
    """A device that is gone after some calls, as a GPU is after an error of a kernel."""

    def __init__(self):
        super().__init__(torch, "cpu", KnownTimer(1e-3), CACHE)
        self.left = 10**9
        self.gone = False

    def timed(self, call):
        def counted():
            self.left -= 1
            if self.left < 0:
                self.gone = True
                raise RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be …")
            call()

        return super().timed(counted)

    def give_back(self):
        if self.gone:
            raise RuntimeError("CUDA error: unspecified launch failure")


def test_a_lost_device_keeps_what_was_measured_and_names_the_rest():
    device = Lost()

    def tell(_share, name):
        if name == "fp32":
            device.left = 2

    wish = BenchOptions(("copy", "fp32", "bf16"), sizes=(MIB, 2 * MIB), shapes=(64,), each_s=0.01, compare=True)
    found = gpu_suite.measure(wish, tell, device)
    by_name = {one.name: one for one in found.tests}
    assert by_name["copy"].reported is not None
    for name in ("fp32", "bf16"):
        assert by_name[name].reported is None
        assert "no longer answers" in by_name[name].absent
    assert "unspecified launch failure" in found.facts["lost"]


def test_a_device_without_an_operation_makes_that_precision_absent(monkeypatch):
    def no(*_a, **_k):
        raise NotImplementedError("Could not run 'aten::_scaled_mm' with arguments from this backend")

    monkeypatch.setattr(torch, "_scaled_mm", no)
    _, by_name = measured(BenchOptions(("fp8", "fp32"), shapes=(64,), each_s=0.01), host(KnownTimer(1e-3)))
    assert "aten::_scaled_mm" in by_name["fp8"].absent
    assert by_name["fp32"].reported is not None


def test_arrays_are_let_go_after_each_size():
    device = host(KnownTimer(1e-3))
    with gpu_kernels.products(device, "fp32")(64) as ready:
        ready.timed(1)
        tensors = [weakref.ref(one) for one in gc.get_objects() if type(one) is torch.Tensor and one.shape == (64, 64)]
        assert tensors
    gc.collect()
    assert all(one() is None for one in tensors)  # although the timer is still held
    with pytest.raises(RuntimeError, match="let go"):
        ready.timed(1)


def test_calls_take_turns():
    seen = []
    turns = OperandRotation([lambda: seen.append(1), lambda: seen.append(2)])
    for _ in range(3):
        turns()
    assert seen == [1, 2, 1]


def test_a_bare_loop_is_timed_beside(brief):
    wish = BenchOptions(("copy", "bf16", "transfer"), sizes=(MIB, 2 * MIB), shapes=(64,), each_s=0.005, compare=True)
    found, _ = measured(wish, host())
    assert {"copy", "bf16", "to_device", "from_device"} <= found.bare.keys()
    for one in found.bare.values():
        assert 0 < one["low"] <= one["ratio"] <= one["high"]
        assert one["pairs"] >= 9


@pytest.mark.parametrize(
    ("capability", "lacks"),
    [("7.0", {"tf32", "bf16", "fp8"}), ("8.0", {"fp8"}), ("9.0", set()), ("99.9", set())],
)
def test_what_a_capability_lacks_is_said_before_it_is_tried(capability, lacks, monkeypatch):
    device = host(KnownTimer(1e-3))
    monkeypatch.setattr(device, "capability", lambda: capability)
    refused = {precision for precision in gpu_kernels.PRECISIONS if gpu_suite.unsupported(device, precision)}
    assert refused == lacks


@pytest.fixture
def order(tmp_path):
    def make(**target):
        definition = Definition.model_validate({"target": target, "measure": {"runs": 1}}, strict=False)
        return Order(Job("test", "digest", 0, definition, base=str(tmp_path)), 0, str(tmp_path))

    return make


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize(
    ("device", "code"), [("cuda", "device"), ("cuda:3", "device"), ("directml", "device"), ("mps", "device")]
)
def test_a_device_that_is_not_there_is_refused(order, device, code):
    with pytest.raises(AssayError) as caught:
        device_measure(order(device=device), FakeStage(), None)
    assert caught.value.problem.code == code


def test_the_proof_names_where_results_were_found():
    device = host(KnownTimer(1e-3))
    found, _ = measured(BenchOptions(("copy", "fp32"), sizes=(MIB, 2 * MIB), shapes=(64,), each_s=0.01), device)
    proof = _proof("cpu", found, _Loaded(TorchPlacement("cpu", "cpu"), device))
    assert (proof.used, proof.honoured) == ("cpu", True)
    assert proof.nodes == {"cpu": 3}
    # Asked for a GPU, and found on the host: that is not honoured.
    elsewhere = _proof("cuda", found, _Loaded(TorchPlacement("cuda", "cuda:0"), device))
    assert (elsewhere.used, elsewhere.honoured) == ("cpu", False)


def test_transfers_have_four_results():
    _, by_name = measured(BenchOptions(("transfer",), sizes=(MIB, 2 * MIB), each_s=0.01), host(KnownTimer(1e-3)))
    assert set(by_name) == set(TRANSFERS)
    # Bytes once, and the smaller of two equal speeds' sizes is as good as the larger.
    assert by_name["to_device"].points[0].value == pytest.approx(MIB / 1e-3 / GB)
