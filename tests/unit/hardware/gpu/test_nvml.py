"""GPUs by NVML: a recording of an H200 played back, boards of other generations, and each way to fail."""

from __future__ import annotations

import pytest
from tests.unit.hardware.gpu.recorded import Nvml, board, failing_init, not_installed

from assay.hardware.gpu.nvidia import by_nvml
from assay.hardware.gpu.record import Gpu, LayerUnavailableError, MigDevice


def only(name: str) -> Gpu:
    (gpu,) = by_nvml(Nvml(name).load).gpus
    return gpu


def test_an_h200_as_it_was_recorded():
    assert only("h200") == Gpu(
        index=0,
        name="NVIDIA H200",
        vendor="nvidia",
        layer="nvml",
        uuid="GPU-11111111-2222-3333-4444-555555555555",
        memory_bytes=150_754_820_096,
        driver="580.159.04",
        cuda="13.0",
        capability="9.0",
        multiprocessors=132,
        pci="0000:00:06.0",
        pcie={"generation": 5, "width": 16, "max_generation": 5, "max_width": 16},
        nvlinks=None,
        power_limit_w=700.0,
        clocks_mhz={"sm": 345.0, "memory": 3201.0},
        max_clocks_mhz={"sm": 1980.0, "memory": 3201.0},
        temperature_c=35,
        slowdown_c=89,
        throttle=(),
        ecc=True,
        mig=False,
        architecture="Hopper",
        tensor_cores=4,
        precisions=("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "fp8"),
    )


@pytest.mark.parametrize(
    ("name", "capability", "architecture", "tensor_cores", "multiprocessors"),
    [
        ("gtx1080", "6.1", "Pascal", 0, None),  # its driver does not tell the cores
        ("v100", "7.0", "Volta", 1, 80),
        ("t4", "7.5", "Turing", None, 40),
        ("a100-mig", "8.0", "Ampere", 3, 108),
        ("rtx3090", "8.6", "Ampere", 3, 82),
        ("orin", "8.7", "Ampere", 3, None),
        ("l4", "8.9", "Ada", 4, 58),
        ("h100", "9.0", "Hopper", 4, 132),
        ("b200", "10.0", "Blackwell", 5, 148),
        ("unknown", "99.0", None, None, None),
    ],
)
def test_generations(name, capability, architecture, tensor_cores, multiprocessors):
    gpu = only(name)
    assert (gpu.capability, gpu.architecture) == (capability, architecture)
    assert (gpu.tensor_cores, gpu.multiprocessors) == (tensor_cores, multiprocessors)


def test_a_card_with_an_unknown_capability_is_reported_without_guesses():
    gpu = only("unknown")
    assert gpu.name == "NVIDIA RTX 9990 Ti Tensor"
    assert gpu.memory_bytes == 2**38
    assert gpu.precisions == ()
    assert "99.0 is not a known one" in gpu.note
    assert gpu.throttle == ("unknown reason 0x800",)


def test_a_board_that_reports_little_has_little_in_its_record():
    assert only("orin").record() == {
        "index": 0,
        "name": "Orin (nvgpu)",
        "vendor": "nvidia",
        "layer": "nvml",
        "driver": "540.4.0",
        "cuda": "12.6",
        "capability": "8.7",
        "architecture": "Ampere",
        "tensor_cores": 3,
        "precisions": ["fp64", "fp32", "tf32", "fp16", "bf16", "int8"],
    }


def test_slices_of_a_gpu_under_mig():
    gpu = only("a100-mig")
    assert gpu.mig is True
    assert gpu.mig_devices == (
        MigDevice(0, "MIG-a0000000-0000-0000-0000-000000000001", 1, 0, 42, 19968 * 2**20),
        MigDevice(2, "MIG-a0000000-0000-0000-0000-000000000002", 5, 0, 28, 9856 * 2**20),
    )
    assert gpu.record()["mig_devices"][1] == {
        "index": 2,
        "uuid": "MIG-a0000000-0000-0000-0000-000000000002",
        "gpu_instance": 5,
        "compute_instance": 0,
        "multiprocessors": 28,
        "memory_bytes": 9856 * 2**20,
    }


@pytest.mark.parametrize(("name", "links"), [("v100", 5), ("h100", 18), ("rtx3090", 0), ("t4", None)])
def test_active_nvlinks_are_counted_and_a_board_without_any_says_nothing(name, links):
    assert only(name).nvlinks == links


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("v100", ("power cap", "hardware slowdown", "thermal, by hardware")),  # by the function's old name
        ("gtx1080", ()),
        ("rtx3090", ("power cap",)),
        ("orin", None),
    ],
)
def test_throttle_reasons(name, reasons):
    gpu = only(name)
    assert gpu.throttle == reasons
    assert gpu.record().get("throttle") == (None if reasons is None else list(reasons))


def test_names_in_bytes_of_an_older_pynvml():
    told = board("t4") | {"nvmlDeviceGetName": b"Tesla T4", "nvmlDeviceGetPciInfo": {"busId": b"00000000:00:1E.0"}}
    (gpu,) = by_nvml(Nvml(told).load).gpus
    assert (gpu.name, gpu.pci) == ("Tesla T4", "0000:00:1e.0")


def test_one_gpu_that_is_lost_does_not_hide_the_others():
    nvml = Nvml("h200", {"lost": True}, "t4")
    answer = by_nvml(nvml.load)
    assert [(gpu.index, gpu.name) for gpu in answer.gpus] == [(0, "NVIDIA H200"), (2, "Tesla T4")]
    assert answer.remark.startswith("GPU 1: a GPU is lost")
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("load", "reason", "help_"),
    [
        (not_installed, "pynvml is not installed", "pip install nvidia-ml-py"),
        (failing_init("Insufficient Permissions"), "no permission", "/dev/nvidiactl"),
        (failing_init("NVML Shared Library Not Found"), "libnvidia-ml.so.1 is not here", "--gpus all"),
        (failing_init("RM has detected an NVML/RM version mismatch."), "different versions", "restart the machine"),
        (failing_init("Driver Not Loaded"), "driver is not loaded", "modprobe nvidia"),
        (failing_init("Unknown Error"), "NVML does not answer: Unknown Error", ""),
        (Nvml().load, "NVML sees no GPU", ""),
        (Nvml({"lost": True}).load, "a GPU is lost", "restart the machine"),
    ],
)
def test_each_way_to_fail_has_its_own_reason(load, reason, help_):
    with pytest.raises(LayerUnavailableError) as refused:
        by_nvml(load)
    assert reason in str(refused.value)
    assert help_ in str(refused.value)


def test_the_library_is_let_go():
    nvml = Nvml("h200")
    by_nvml(nvml.load)
    assert nvml.open == 0
