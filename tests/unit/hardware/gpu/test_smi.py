"""GPUs by nvidia-smi: XML of several driver generations, read with what it has and without what it lacks."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hardware.gpu.recorded import Nvml, nvidia_smi, programs, xml

from assay.hardware.gpu.nvidia import by_nvml, by_smi, from_xml
from assay.hardware.gpu.record import Gpu, LayerUnavailableError, MigDevice, pci_address


def only(name: str, capability: str | None) -> Gpu:
    (gpu,) = by_smi(nvidia_smi(name, capability)).gpus
    return gpu


def test_an_h200_as_it_was_recorded():
    gpu = only("h200", "9.0")
    assert gpu.layer == "nvidia-smi"
    by_library = by_nvml(Nvml("h200").load).gpus[0]
    # What the XML does not have, and what changed in the second between the two recordings.
    told = {"layer", "multiprocessors", "slowdown_c", "temperature_c"}
    assert {
        field.name for field in dataclasses.fields(Gpu) if getattr(gpu, field.name) != getattr(by_library, field.name)
    } == told
    assert (gpu.multiprocessors, gpu.slowdown_c, gpu.temperature_c) == (None, None, 36.0)


@pytest.mark.parametrize(
    ("name", "capability"),
    [("gtx1080", "6.1"), ("v100", "7.0"), ("t4", "7.5"), ("a100-mig", "8.0"), ("rtx3090", "8.6"), ("l4", "8.9"),
     ("h100", "9.0"), ("b200", "10.0"), ("unknown", "99.0")],
)  # fmt: skip
def test_generations_as_nvml_reports_them(name, capability):
    gpu, other = only(name, capability), by_nvml(Nvml(name).load).gpus[0]
    same = (
        "name",
        "uuid",
        "memory_bytes",
        "driver",
        "cuda",
        "capability",
        "pci",
        "pcie",
        "power_limit_w",
        "clocks_mhz",
        "max_clocks_mhz",
        "temperature_c",
        "ecc",
        "mig",
        "architecture",
        "tensor_cores",
        "precisions",
        "note",
    )
    for field in same:
        assert getattr(gpu, field) == getattr(other, field), field


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("v100", ("power cap", "hardware slowdown", "thermal, by hardware")),  # <clocks_throttle_reasons>
        ("gtx1080", ()),
        ("rtx3090", ("power cap",)),  # <clocks_event_reasons>
        ("h200", ()),
        ("orin", None),
    ],
)
def test_throttle_reasons_under_both_names(name, reasons):
    assert only(name, "8.0").throttle == reasons


def test_slowdown_is_reported_by_boards_that_have_it_as_a_temperature():
    assert only("v100", "7.0").slowdown_c == 87.0
    assert only("l4", "8.9").slowdown_c is None


def test_slices_of_a_gpu_under_mig():
    gpu = only("a100-mig", "8.0")
    assert gpu.mig is True
    assert gpu.mig_devices == (
        MigDevice(0, None, 1, 0, 42, 19968 * 2**20),
        MigDevice(1, None, 5, 0, 28, None),
    )
    assert only("h100", "9.0").mig_devices == ()


def test_a_driver_without_the_field_for_the_capability():
    answer = by_smi(nvidia_smi("gtx1080", None))
    (gpu,) = answer.gpus
    assert (gpu.capability, gpu.architecture, gpu.tensor_cores, gpu.precisions) == (None, None, None, ())
    assert answer.remark == "this nvidia-smi does not report the compute capability"
    assert only("v100", None).architecture == "Volta"  # the driver's own word


def test_an_orin_that_says_nothing_of_itself():
    assert only("orin", "8.7").record() == {
        "index": 0,
        "name": "Orin (nvgpu)",
        "vendor": "nvidia",
        "layer": "nvidia-smi",
        "driver": "540.4.0",
        "cuda": "12.6",
        "capability": "8.7",
        "architecture": "Ampere",
        "tensor_cores": 3,
        "precisions": ["fp64", "fp32", "tf32", "fp16", "bf16", "int8"],
    }


def test_the_name_of_an_unknown_card_reports_nothing():
    gpu = only("unknown", "99.0")
    assert (gpu.architecture, gpu.tensor_cores, gpu.precisions) == (None, None, ())
    assert "99.0 is not a known one" in gpu.note


def test_two_gpus_have_their_own_capabilities():
    one = re.search(r"<gpu .*</gpu>", xml("t4"), re.DOTALL)[0]
    text = xml("h200").replace("</nvidia_smi_log>", f"{one}</nvidia_smi_log>")
    gpus = from_xml(text, {0: "9.0", 1: "7.5"})
    assert [(gpu.index, gpu.name, gpu.architecture) for gpu in gpus] == [
        (0, "NVIDIA H200", "Hopper"),
        (1, "Tesla T4", "Turing"),
    ]


@given(
    st.sampled_from(
        [
            "N/A",
            "[N/A]",
            "Not Supported",
            "[Not Supported]",
            "Unknown Error",
            "[Unknown Error]",
            "ERR!",
            "GPU is lost",
            "Requested functionality has been deprecated",
            "",
            "  ",
            "MiB",
            "12 bananas",
        ]
    )
)
def test_every_way_of_saying_no_is_left_out(word):
    text = re.sub(r">[^<>\n]+</", f">{word}</", xml("h200"))
    (gpu,) = from_xml(text, {})
    assert gpu.memory_bytes is None
    assert gpu.power_limit_w is None
    assert gpu.throttle is None
    assert gpu.ecc is None
    assert gpu.mig is None
    assert gpu.pci is None
    assert gpu.pcie == {}
    assert gpu.clocks_mhz == {}
    assert gpu.temperature_c is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("No devices were found\n", "does not answer in XML"),
        (xml("h200")[:900], "does not answer in XML"),
        ("<nvidia_smi_log></nvidia_smi_log>", "sees no GPU"),
    ],
)
def test_an_answer_without_gpus(text, reason):
    with pytest.raises(LayerUnavailableError, match=reason):
        by_smi(programs({("nvidia-smi", "-q"): text}))


def test_a_machine_without_nvidia_smi():
    with pytest.raises(LayerUnavailableError, match="nvidia-smi is not installed"):
        by_smi(programs({}))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:00:06.0", "0000:00:06.0"),
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("00010000:0B:00.1", "10000:0b:00.1"),
        ("01:00.0", "0000:01:00.0"),
        ("N/A", None),
        ("", None),
    ],
)
def test_addresses_on_the_bus(text, address):
    assert pci_address(text) == address
