"""Which probes work on which machine: yes with what they read, or the reason."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from tests.unit.hardware import recorded

from assay.hardware.components import counted_gpus, gpu_facts
from assay.hardware.gpu.detect import Detection
from assay.hardware.gpu.record import Gpu
from assay.hardware.probes import abilities
from assay.hardware.source import FactSource


def absent_program(words):
    raise FileNotFoundError(words[0])


def look(root, detection=None, run=absent_program, system="linux"):
    return abilities(FactSource(root, system, run=run), detection)


def test_a_server_has_energy_sensors_and_throttle_counters(tmp_path):
    found = look(recorded.dual_xeon(tmp_path))
    assert found["energy_rapl"] == {"works": True, "by": "package-0, package-1"}
    assert found["temperature"] == {"works": True, "by": "coretemp"}
    assert found["throttle"] == {"works": True, "by": "core_throttle_count of 16 CPUs"}
    assert found["network"] == {"works": False, "why": "/proc/net/dev is not there"}


def test_a_pi_without_its_tool_says_that_it_lacks_it(tmp_path):
    found = look(recorded.raspberry_pi_5(tmp_path))
    assert found["temperature"]["by"] == "cpu-thermal"
    assert found["throttle"] == {"works": False, "why": "the command vcgencmd is not there"}
    assert found["cpu"]["works"]
    assert found["network"]["works"]
    assert not found["energy_rapl"]["works"]


def test_a_pi_with_its_tool_reports_of_throttling(tmp_path):
    found = look(recorded.raspberry_pi_5(tmp_path), run=lambda _: "throttled=0x50000")
    assert found["throttle"] == {"works": True, "by": "vcgencmd get_throttled"}


def test_a_virtual_machine_has_none_of_these(tmp_path):
    found = look(recorded.h200_vm(tmp_path))
    assert [name for name, one in found.items() if one["works"]] == ["cpu", "memory"]
    assert all(one["why"] for one in found.values() if not one["works"])


def test_energy_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    root = recorded.dual_xeon(tmp_path)
    read = FactSource.bytes

    def refuse(self, path, *rest):
        if path.endswith("energy_uj"):
            raise PermissionError(13, "Permission denied")
        return read(self, path, *rest)

    monkeypatch.setattr(FactSource, "bytes", refuse)
    assert look(root)["energy_rapl"]["why"] == "/sys/class/powercap/intel-rapl:0/energy_uj may not be read by this user"


def test_an_energy_counter_with_garbage_is_a_reason(tmp_path):
    root = recorded.dual_xeon(tmp_path)
    (root / "sys/class/powercap/intel-rapl:1/energy_uj").write_text("soon\n")
    assert "holds no number" in look(root)["energy_rapl"]["why"]


def test_a_mac_is_asked_whether_it_may_sample_its_power(tmp_path):
    def refused(words):
        raise subprocess.CalledProcessError(1, words)

    assert not look(tmp_path, run=refused, system="darwin")["energy_powermetrics"]["works"]
    assert look(tmp_path, run=lambda _: "CPU Power: 10 mW", system="darwin")["energy_powermetrics"]["works"]


GPU = Gpu(
    0,
    "NVIDIA H200",
    "nvidia",
    "nvml",
    memory_bytes=150 * 10**9,
    driver="580.1",
    temperature_c=30.0,
    clocks_mhz={"sm": 345.0},
    throttle=(),
    pcie={"generation": 1, "max_generation": 5},
)
DISPLAY = Gpu(1, "a display adapter", "aspeed", "sysfs")


def test_the_layer_of_the_gpu_is_named_or_why_there_is_none(tmp_path):
    assert look(tmp_path, Detection((GPU,), "nvml", {"nvml": "1 GPU"}))["gpu"] == {"works": True, "by": "nvml, 1 GPU"}
    tried = {"nvml": "not installed", "sysfs": "no GPU"}
    assert look(tmp_path, Detection((), None, tried))["gpu"] == {
        "works": False,
        "why": "no GPU found",
        "sources": tried,
    }
    broken = Detection((), None, {"nvml": "the driver is not loaded", "sysfs": "no GPU"}, ("nvml",))
    assert look(tmp_path, broken)["gpu"]["why"] == "no GPU found; nvml: the driver is not loaded"


def test_a_result_keeps_of_a_gpu_what_does_not_change():
    detection = Detection((GPU,), "nvml", {"nvml": "1 GPU"})
    lasting = gpu_facts(detection, now=False)["gpus"][0]
    assert not {"temperature_c", "clocks_mhz", "throttle"} & lasting.keys()
    assert lasting["pcie"] == {"max_generation": 5}
    assert gpu_facts(detection, now=True)["gpus"][0]["temperature_c"] == 30.0


def test_a_display_adapter_is_no_gpu_to_place_work_on():
    assert counted_gpus(Detection((GPU, DISPLAY), "nvml", {})) == (GPU,)


@pytest.mark.parametrize(("gpus", "expected"), [((), {}), ((DISPLAY,), {}), ((GPU, GPU), {"gpus": 2})])
def test_the_machine_counts_its_gpus(monkeypatch, gpus, expected):
    from assay.hardware import machine
    from assay.hardware.gpu import detect

    monkeypatch.setattr(detect, "local_gpus", lambda: SimpleNamespace(gpus=gpus))
    found = machine._gpu()
    assert found == (
        {} if not expected else {"gpu": "NVIDIA H200", "gpus": 2, "gpu_memory_bytes": 150 * 10**9, "driver": "580.1"}
    )
