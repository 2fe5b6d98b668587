"""GPUs through NVML: a library that answers as NVML does, and one that fails in its ways."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from assay.run.probes.service_sampler import GpuSeries


class NvmlError(Exception):
    pass


def nvml(*, gpus: int = 1, power: bool = True) -> SimpleNamespace:
    def power_mw(device: int) -> int:
        if not power:
            raise NvmlError("Not Supported")
        return 250_000

    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: gpus,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetName=lambda device: b"NVIDIA H200",
        nvmlDeviceGetUUID=lambda device: f"GPU-{device}",
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetMemoryInfo=lambda device: SimpleNamespace(used=2**30, total=2**37),
        nvmlDeviceGetUtilizationRates=lambda device: SimpleNamespace(gpu=97),
        nvmlDeviceGetPowerUsage=power_mw,
        nvmlDeviceGetComputeRunningProcesses=lambda device: [SimpleNamespace(pid=41 + device)],
    )


def test_each_gpu_is_read():
    gpus = GpuSeries(lambda name: nvml(gpus=2))
    gpus.read()
    gpus.read()
    assert gpus.absent == ""
    assert [facts["uuid"] for facts in gpus.facts] == ["GPU-0", "GPU-1"]
    assert gpus.facts[0]["name"] == "NVIDIA H200"
    for columns in gpus.columns:
        assert {name: list(one.value) for name, one in columns.items()} == {
            "gpu_util_pct": [97.0, 97.0],
            "gpu_mem_bytes": [2.0**30] * 2,
            "power_w": [250.0, 250.0],
        }
    assert gpus.used_by({42, 7}) == [1]


def test_what_a_board_does_not_report_is_left_out():
    gpus = GpuSeries(lambda name: nvml(power=False))
    gpus.read()
    assert list(gpus.columns[0]["power_w"].value) == []
    assert list(gpus.columns[0]["gpu_util_pct"].value) == [97.0]


def no_driver() -> None:
    raise NvmlError("Driver Not Loaded")


@pytest.mark.parametrize(
    ("library", "says"),
    [
        (SimpleNamespace(nvmlInit=no_driver), "NVML does not answer: Driver Not Loaded"),
        (nvml(gpus=0), "NVML sees no GPU"),
    ],
)
def test_a_machine_without_a_gpu_says_why(library, says):
    gpus = GpuSeries(lambda name: library)
    gpus.read()
    assert gpus.absent == says
    assert gpus.columns == []
