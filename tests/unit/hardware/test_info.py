"""The whole record, and where parts of it go: every result, and the placement of jobs."""

from __future__ import annotations

import json

import pytest

from assay.hardware import environment as module
from assay.hardware import machine
from assay.hardware.environment import environment, hardware, info
from assay.hardware.limits import Bound, ProcessLimits
from assay.run import capabilities as profile


@pytest.mark.live
def test_every_result_carries_the_hardware(tmp_path):
    found = environment(tmp_path)
    assert found["hardware"] == hardware()
    assert found["machine"]["usable_cores"] == found["hardware"]["limits"]["usable_cores"]
    assert not {"frameworks", "models", "probes", "now"} & found["hardware"].keys()


@pytest.mark.live
def test_info_holds_everything(tmp_path):
    found = info((), False, places={"results": tmp_path}, cache_folder=tmp_path)
    json.dumps(found, allow_nan=False)
    assert {
        "machine",
        "os",
        "cpu",
        "memory",
        "limits",
        "gpu",
        "file_systems",
        "now",
        "probes",
        "frameworks",
        "models",
        "absent",
    } <= found.keys()
    assert found["file_systems"].keys() == {"results", "temporary"}
    assert found["now"]["memory"]["available_bytes"] > 0
    assert found["frameworks"]["onnxruntime"]["works"] is None
    assert hardware().get("now") is None


@pytest.fixture
def limited(monkeypatch):
    """A machine of 64 cores and much memory, of which a container leaves two cores and 4 GiB."""
    found = ProcessLimits("v2", 64, None, Bound(2.0, "cpu.max"), Bound(4 * 2**30, "memory.max"))
    monkeypatch.setattr(machine, "limits", lambda _: found)
    monkeypatch.setattr(machine.psutil, "cpu_count", lambda logical: 64)
    for cached in (machine.machine, machine.own_limits):
        cached.cache_clear()
    yield
    for cached in (machine.machine, machine.own_limits):
        cached.cache_clear()


def test_jobs_are_placed_by_what_the_container_leaves(limited):
    found = profile.profile_for([])
    assert found.cpus == 2
    assert found.memory_bytes == 4 * 2**30
    assert machine.machine()["usable_cores"] == 2
    assert machine.machine()["cores"] == 64
    assert machine.machine()["memory_bytes"] > found.memory_bytes


def test_where_there_is_a_gpu_every_layer_is_asked(monkeypatch):
    from assay.hardware.gpu import detect
    from assay.hardware.gpu.record import Gpu

    asked = []

    def gpus(**words):
        asked.append(words)
        return detect.Detection((one,), "nvml", {"nvml": "1 GPU", "nvidia-smi": "1 GPU"})

    one = Gpu(0, "NVIDIA H200", "nvidia", "nvml", temperature_c=31.0)
    monkeypatch.setattr(detect, "local_gpus", lambda: detect.Detection((one,), "nvml", {"nvml": "1 GPU"}))
    monkeypatch.setattr(detect, "gpus", gpus)
    machine.machine.cache_clear()
    module._here.cache_clear()
    try:
        found = info((), False)
        assert asked == [{"compare": True}]
        assert found["gpu"]["tried"]["nvidia-smi"] == "1 GPU"
        assert found["gpu"]["gpus"][0]["temperature_c"] == 31.0
        assert "temperature_c" not in hardware()["gpu"]["gpus"][0]
        assert found["probes"]["gpu"] == {"works": True, "by": "nvml, 1 GPU"}
    finally:
        machine.machine.cache_clear()
        module._here.cache_clear()
