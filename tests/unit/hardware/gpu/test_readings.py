"""Readings through NVML: units, what is left out, GPUs that are lost on the way."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hardware.gpu.recorded import Nvml, board, failing_init, not_installed

from assay.hardware.gpu.nvml import READINGS, GpuLostError, GpuReader, reasons_of_bits, reasons_of_names

LOST = {"error": "GPU is lost"}


def test_an_h200_as_it_was_recorded():
    reader = GpuReader(Nvml("h200").load)
    assert (reader.absent, reader.count) == ("", 1)
    assert reader.facts == [
        {
            "index": 0,
            "name": "NVIDIA H200",
            "uuid": "GPU-11111111-2222-3333-4444-555555555555",
            "driver": "580.159.04",
            "memory_bytes": 150_754_820_096,
        }
    ]
    assert reader.read(0) == {
        "gpu_util_pct": 0.0,
        "gpu_mem_bytes": 644_939_776.0,
        "power_w": 81.911,
        "sm_mhz": 345.0,
        "mem_mhz": 3201.0,
        "temperature_c": 35.0,
        "energy_j": 2394.029,
        "throttle_bits": 1.0,
    }
    assert reader.throttle_reasons(1.0) == ()
    assert reader.limits(0) == {
        "power_limit_w": 700.0,
        "slowdown_c": 89.0,
        "max_sm_mhz": 1980.0,
        "margin_c": 52.0,
    }
    assert reader.processes(0) == ()


def test_the_energy_counter_counts_on():
    told = board("h200")
    reader = GpuReader(Nvml(told).load)
    before = reader.read(0)["energy_j"]
    told["nvmlDeviceGetTotalEnergyConsumption"] += 12_500
    assert reader.read(0)["energy_j"] - before == pytest.approx(12.5)


def test_a_gpu_under_mig_has_no_utilisation_and_is_not_requested_it_again():
    nvml = Nvml("a100-mig")
    reader = GpuReader(nvml.load)
    assert set(reader.read(0)) == set(READINGS) - {"gpu_util_pct"}
    reader.read(0)
    assert nvml.asked.count("nvmlDeviceGetUtilizationRates") == 1
    assert nvml.asked.count("nvmlDeviceGetPowerUsage") == 2


def test_an_old_driver_is_asked_by_the_old_names():
    nvml = Nvml("gtx1080")
    reader = GpuReader(nvml.load)
    told = reader.read(0)
    reader.read(0)
    assert told["throttle_bits"] == 1.0
    assert "energy_j" not in told
    assert nvml.asked.count("nvmlDeviceGetCurrentClocksEventReasons") == 1
    assert nvml.asked.count("nvmlDeviceGetCurrentClocksThrottleReasons") == 2
    assert reader.processes(0) == ((77, 1000),)


def test_a_hot_gpu_says_why_it_is_slow():
    reader = GpuReader(Nvml("v100").load)
    assert reader.throttle_reasons(reader.read(0)["throttle_bits"]) == (
        "power cap",
        "hardware slowdown",
        "thermal, by hardware",
    )


def test_a_board_that_reports_nothing_is_not_lost():
    reader = GpuReader(Nvml("orin").load)
    assert [reader.read(0) for _ in range(5)] == [{}] * 5
    assert reader.lost == {}
    assert reader.facts == [{"index": 0, "name": "Orin (nvgpu)", "driver": "540.4.0"}]
    assert reader.limits(0) == {}


def test_processes_are_reported_once_each_and_without_memory_where_it_is_not_reported():
    assert GpuReader(Nvml("rtx3090").load).processes(0) == ((12, 90_000_000), (900, 17_000_000_001), (901, None))


def test_only_what_was_requested_is_read():
    nvml = Nvml("h200")
    reader = GpuReader(nvml.load, ("power_w",))
    nvml.asked.clear()
    assert reader.read(0) == {"power_w": 81.911}
    assert nvml.asked == ["nvmlDeviceGetPowerUsage"]


def test_a_gpu_lost_in_the_middle_is_reported_once_and_the_others_go_on():
    boards = [board("h200"), board("t4")]
    reader = GpuReader(Nvml(*boards).load)
    assert reader.read(0)
    assert reader.read(1)
    for name, told in boards[0].items():
        boards[0][name] = LOST if name.startswith("nvmlDevice") else told
    with pytest.raises(GpuLostError) as lost:
        reader.read(0)
    assert lost.value.index == 0
    assert "fallen off the bus" in lost.value.reason
    assert reader.read(0) == {}
    assert reader.lost == {0: lost.value.reason}
    assert (reader.processes(0), reader.limits(0)) == ((), {})
    assert reader.read(1)["power_w"] == 10.41


def test_one_reading_that_fails_is_left_out_and_asked_again():
    told = board("h200")
    reader = GpuReader(Nvml(told).load)
    kept = told["nvmlDeviceGetPowerUsage"]
    told["nvmlDeviceGetPowerUsage"] = {"error": "Unknown Error"}
    for _ in range(10):
        assert set(reader.read(0)) == set(READINGS) - {"power_w"}
    told["nvmlDeviceGetPowerUsage"] = kept
    assert set(reader.read(0)) == set(READINGS)


def all_failing(told: dict) -> None:
    for name in list(told):
        told[name] = {"error": "Unknown Error"}


def test_a_gpu_that_answers_nothing_three_times_is_lost():
    told = board("h200")
    reader = GpuReader(Nvml(told).load)
    reader.read(0)
    all_failing(told)
    assert reader.read(0) == {}
    assert reader.read(0) == {}
    with pytest.raises(GpuLostError, match="NVML does not answer: Unknown Error"):
        reader.read(0)
    assert reader.read(0) == {}


def test_a_gpu_that_comes_back_in_time_is_not_lost():
    told = board("h200")
    kept = dict(told)
    reader = GpuReader(Nvml(told).load)
    for _ in range(3):
        all_failing(told)
        assert reader.read(0) == {}
        assert reader.read(0) == {}
        told.update(kept)
        assert reader.read(0)


def test_a_gpu_that_is_lost_from_the_beginning_keeps_its_number_free():
    reader = GpuReader(Nvml({"lost": True}, "t4").load)
    assert (reader.absent, reader.count) == ("", 2)
    assert reader.facts[0] == {"index": 0}
    assert "lost" in reader.lost[0]
    assert reader.read(0) == {}
    assert reader.read(1)["power_w"] == 10.41


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (not_installed, "pynvml is not installed (pip install nvidia-ml-py)"),
        (failing_init("Insufficient Permissions"), "NVML may not be asked: no permission"),
        (failing_init("NVML Shared Library Not Found"), "libnvidia-ml.so.1 is not here"),
        (failing_init("RM has detected an NVML/RM version mismatch."), "of different versions"),
        (Nvml().load, "NVML sees no GPU"),
    ],
)
def test_without_nvml_there_is_a_reason_and_nothing_else(load, reason):
    reader = GpuReader(load)
    assert reason in reader.absent
    assert (reader.count, reader.facts, reader.lost) == (0, [], {})
    reader.close()


def test_the_driver_is_let_go():
    nvml = Nvml("h200")
    GpuReader(nvml.load).close()
    assert nvml.open == 0


@pytest.mark.live
def test_this_machine_has_readings_or_a_reason():
    reader = GpuReader(import_module)
    if reader.absent:
        assert reader.count == 0
        assert len(reader.absent) > 10
    else:
        told = reader.read(0)
        assert set(told) <= set(READINGS)
        assert told.get("gpu_mem_bytes", 0.0) <= float(reader.facts[0].get("memory_bytes", 0.0))
    reader.close()


BITS = {"sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal_slowdown": 0x20,
        "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80}  # fmt: skip


@pytest.mark.parametrize("bits", [0, 0x1, 0x2, 0x100, 0x103])
def test_idle_and_clocks_set_by_a_user_are_no_throttling(bits):
    assert reasons_of_bits(bits) == ()


@given(st.sets(st.sampled_from(sorted(BITS))), st.sets(st.sampled_from([0x1, 0x2, 0x100])))
def test_bits_and_names_say_the_same(active, harmless):
    names = {name: "Active" if name in active else "Not Active" for name in BITS} | {"gpu_idle": "Active"}
    told = reasons_of_bits(sum(BITS[name] for name in active) + sum(harmless))
    assert told == reasons_of_names(names)
    assert len(told) == len(active)


def test_a_bit_without_a_known_meaning_is_reported_by_its_number():
    assert reasons_of_bits(0x804) == ("power cap", "unknown reason 0x800")


def test_names_of_which_none_is_reported():
    assert reasons_of_names({"hw_slowdown": "N/A", "gpu_idle": "N/A"}) is None
    assert reasons_of_names({}) is None
