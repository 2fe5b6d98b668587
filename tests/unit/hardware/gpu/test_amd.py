"""GPUs of AMD by amd-smi and rocm-smi."""

from __future__ import annotations

import json

import pytest
from tests.unit.hardware.gpu.recorded import FIXTURES, programs

from assay.hardware.gpu.amd import by_amd_smi, by_rocm_smi
from assay.hardware.gpu.record import Gpu, LayerUnavailableError

STATIC, METRIC = ("amd-smi", "static"), ("amd-smi", "metric")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    return tmp_path


def told(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_an_mi300x_by_amd_smi(root):
    answer = by_amd_smi(programs({STATIC: told("amd-smi-static.json"), METRIC: told("amd-smi-metric.json")}), root)
    assert answer.remark == ""
    assert answer.gpus[0] == Gpu(
        index=0,
        name="AMD Instinct MI300X",
        vendor="amd",
        layer="amd-smi",
        uuid="aaaa111122223333",
        memory_bytes=196_592 * 2**20,
        driver="6.10.5",
        multiprocessors=304,
        pci="0000:05:00.0",
        pcie={"generation": 4, "width": 16, "max_generation": 5, "max_width": 16},
        power_limit_w=650.0,
        clocks_mhz={"graphics": 132.0, "memory": 900.0},
        max_clocks_mhz={"graphics": 2100.0, "memory": 1300.0},
        temperature_c=41.0,
        slowdown_c=100.0,
        throttle=(),
        architecture="gfx942",
    )


def test_a_board_of_which_little_is_reported(root):
    answer = by_amd_smi(programs({STATIC: told("amd-smi-static.json"), METRIC: told("amd-smi-metric.json")}), root)
    assert answer.gpus[1].record() == {"index": 1, "name": "Radeon Pro board", "vendor": "amd", "layer": "amd-smi"}


def test_the_shape_of_rocm_7(root):
    answer = by_amd_smi(programs({STATIC: told("amd-smi-static-rocm7.json")}), root)
    (gpu,) = answer.gpus
    assert (gpu.name, gpu.architecture, gpu.multiprocessors) == ("AMD Instinct MI350X", "gfx950", 256)
    assert (gpu.power_limit_w, gpu.memory_bytes, gpu.driver) == (900.0, 288 * 2**30, "6.12.12")
    assert answer.remark == "no readings: amd-smi is not installed"
    assert (gpu.temperature_c, gpu.throttle, gpu.clocks_mhz) == (None, None, {})


def test_a_throttled_board_says_so(root):
    rows = json.loads(told("amd-smi-metric.json"))
    rows[0]["power"]["throttle_status"] = "THROTTLED"
    answer = by_amd_smi(programs({STATIC: told("amd-smi-static.json"), METRIC: json.dumps(rows)}), root)
    assert answer.gpus[0].throttle == ("throttled, no reason reported",)


def test_an_mi250_by_rocm_smi(root):
    first, second = by_rocm_smi(programs({("rocm-smi",): told("rocm-smi.json")}), root).gpus
    assert first == Gpu(
        index=0,
        name="AMD INSTINCT MI250 (MCM) OAM AC MBA",
        vendor="amd",
        layer="rocm-smi",
        uuid="719d230578348e8c",
        memory_bytes=68_702_699_520,
        driver="6.3.6",
        pci="0000:c1:00.0",
        power_limit_w=560.0,
        temperature_c=32.0,
        architecture="gfx90a",
    )
    assert (second.name, second.uuid, second.memory_bytes) == ("Navi 23", None, 8_573_157_376)


@pytest.mark.parametrize("ask", [by_amd_smi, by_rocm_smi])
def test_without_the_driver_no_program_is_started(tmp_path, ask):
    def run(command):
        raise AssertionError(f"{command} was run")

    with pytest.raises(LayerUnavailableError, match="amdgpu driver is not loaded"):
        ask(run, tmp_path)


@pytest.mark.parametrize("text", ["", "no devices", "[]", "{}", '{"gpu_data": "N/A"}', "{broken", "null"])
@pytest.mark.parametrize("ask", [by_amd_smi, by_rocm_smi])
def test_an_answer_without_gpus(root, ask, text):
    with pytest.raises(LayerUnavailableError):
        ask(programs({("amd-smi",): text, ("rocm-smi",): text}), root)
