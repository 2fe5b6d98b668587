"""`assay info` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from rich.cells import cell_len
from tests.unit.hardware import recorded

from assay.cli.info import render
from assay.hardware.components import gpu_facts
from assay.hardware.environment import read_hardware
from assay.hardware.gpu.detect import Detection
from assay.hardware.gpu.record import Gpu
from assay.hardware.probes import abilities
from assay.hardware.source import FactSource


def assay(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "assay", *map(str, arguments)], capture_output=True, text=True, **options
    )


def facts_of(root, system="linux", architecture="x86_64", run=None):
    def absent(words):
        raise FileNotFoundError(words[0])

    source = FactSource(root, system, architecture, run=run or absent, environ={})
    found = read_hardware(source)
    return {"machine": {"name": "box", "id": "0123"}, **found, "probes": abilities(source, None)}


@pytest.mark.live
def test_the_whole_record_is_json():
    done = assay("info", "--format", "json", "--no-proofs")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["limits"]["usable_cores"] >= 1
    assert found["frameworks"]["onnxruntime"] == {
        **found["frameworks"]["onnxruntime"],
        "works": None,
        "why": "not tried",
    }
    assert found["file_systems"].keys() == {"results", "cache", "temporary"}


@pytest.mark.live
def test_frameworks_are_proven_once_and_again_when_asked(tmp_path, monkeypatch, tiny_model):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    first = assay("info", "--models", tiny_model.parent)
    assert first.returncode == 0, first.stderr
    assert "CPUExecutionProvider    works" in first.stdout
    assert "tiny.onnx" in first.stdout
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache" / "proofs").iterdir()}
    assert kept
    again = json.loads(assay("info", "--format", "json").stdout)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    fresh = json.loads(assay("info", "--format", "json", "--fresh").stdout)
    assert fresh["frameworks"]["onnxruntime"]["tried_at"] > again["frameworks"]["onnxruntime"]["tried_at"]


def test_a_folder_that_is_none_is_reported_before_anything_is_tried(tmp_path):
    done = assay("info", "--models", tmp_path / "none")
    assert done.returncode == 2
    assert "error[no-folder]" in done.stderr


@pytest.mark.parametrize("width", [60, 80, 110, 200])
@pytest.mark.parametrize(
    "machine", [recorded.raspberry_pi_5, recorded.dual_xeon, recorded.epyc_vm, recorded.h200_vm, lambda root: root]
)
def test_no_line_is_wider_than_the_terminal(tmp_path, machine, width):
    text = render(facts_of(machine(tmp_path)), width)
    assert all(cell_len(line) <= width or len(line[13:].split()) == 1 for line in text.splitlines())


def test_a_server_in_words(tmp_path):
    text = render(facts_of(recorded.dual_xeon(tmp_path)), 200)
    assert "board        Dell Inc. PowerEdge R760 · 0VRV9X · firmware 2.1.5" in text
    assert "8 cores · 16 threads · 2 sockets" in text
    assert "L3 2 × 105.0 MiB for 8 CPUs" in text
    assert "node 1: CPUs 4-7,12-15 32.0 GiB" in text
    assert "800 to 3800 MHz · governor performance · by intel_pstate · turbo on" in text
    assert "2 modules of 32.0 GiB DDR5 at 4400 MT/s" in text
    assert "nvme0n1 3577.0 GiB · Dell Ent NVMe CM6 RI 3.84TB · nvme over pcie · solid state" in text
    assert "virtual      no, by the processor's flags" in text
    assert "frameworks   none is installed" in text


def test_a_container_says_its_two_cores_and_who_set_them(tmp_path):
    text = render(facts_of(recorded.container_v2(tmp_path)), 300)
    assert "limits       2 usable cores (affinity 64, cpuset 64 by " in text
    assert "quota 2 by /sys/fs/cgroup/kubepods/burstable/pod1/cpu.max)" in text
    assert "4.0 GiB memory by " in text
    assert "container    kubernetes (/var/run/secrets/kubernetes.io/serviceaccount)" in text


def test_a_machine_without_anything_gives_reasons(tmp_path):
    text = render(facts_of(tmp_path), 300)
    assert "processor    unknown: /proc/cpuinfo is not there" in text
    assert "disks        unknown: /sys/block is not there" in text
    assert "None" not in text


def test_a_gpu_in_words(tmp_path):
    one = Gpu(
        0,
        "NVIDIA H200",
        "nvidia",
        "nvml",
        memory_bytes=150754820096,
        driver="580.1",
        cuda="13.0",
        capability="9.0",
        architecture="Hopper",
        multiprocessors=132,
        tensor_cores=4,
        precisions=("fp64", "fp8"),
        nvlinks=18,
        pcie={"generation": 1, "width": 16, "max_generation": 5, "max_width": 16},
        clocks_mhz={"sm": 345.0},
        max_clocks_mhz={"sm": 1980.0},
        power_limit_w=700.0,
        temperature_c=36.0,
        slowdown_c=92.0,
        ecc=True,
        mig=False,
        throttle=("power cap",),
        agreed_by=("nvidia-smi",),
        differs={"cuda": "torch: 12.8"},
    )
    found = facts_of(tmp_path) | {"gpu": gpu_facts(Detection((one,), "nvml", {"nvml": "1 GPU"}), now=True)}
    line = next(line for line in render(found, 1000).splitlines() if line.startswith("gpus"))
    assert line == (
        "gpus         0 NVIDIA H200 · 140.4 GiB · driver 580.1 · CUDA 13.0 · capability 9.0 · Hopper · "
        "132 multiprocessors · tensor cores of generation 4 · fp64 fp8 · PCIe 5 × 16, now 1 × 16 · 18 NVLinks · "
        "sm 345 of 1980 MHz · at most 700 W · 36 °C, slows down at 92 °C · held down by power cap · ECC on · MIG off · "
        "from nvml, nvidia-smi agree · cuda differs, torch: 12.8"
    )
    bare = Gpu(1, "a card that nobody knows", "0x1234", "sysfs")
    found = facts_of(tmp_path) | {"gpu": gpu_facts(Detection((bare,), "sysfs", {}), now=True)}
    assert "gpus         1 a card that nobody knows · from sysfs\n" in render(found, 200)


def test_frameworks_that_failed_say_why_in_full(tmp_path):
    long = "RuntimeError: " + "the driver is too old; " * 12
    found = facts_of(tmp_path) | {
        "frameworks": {
            "torch": {
                "version": "2.6",
                "works": True,
                "tried_at": "2026-01-02T03:04:05",
                "devices": {
                    "cpu": {"works": True, "proof": "a matrix product", "seconds": 0.01},
                    "cuda:0": {"works": False, "why": long, "seconds": 1.5},
                },
            },
            "vllm": {"version": "0.9", "works": None, "proof": "imports", "tried_at": "2026-01-02T03:04:05"},
        }
    }
    lines = render(found, 90).splitlines()
    assert next(line for line in lines if line.startswith("failed")) == f"failed   torch cuda:0: {long.strip()}"
    assert any(line.split()[:4] == ["torch", "2.6", "cpu", "works"] for line in lines)
    assert any(line.split() == ["vllm", "0.9", "imports", "imports"] for line in lines)
    assert not any("vllm" in line and "works" in line for line in lines)
    assert "tried on 2026-01-02; --fresh tries again" in lines


def test_a_model_says_what_is_not_known_of_it_and_cannot_steer_the_terminal(tmp_path):
    found = facts_of(tmp_path) | {
        "models": [
            {
                "path": "/m/\x1b[31mred.gguf",
                "format": "gguf",
                "size_bytes": 2048,
                "architecture": "llama",
                "parameters": 1234567,
                "dtype": "Q4_K",
                "quantisation": "Q4_K_M",
            },
            {
                "path": "/m/x.pt",
                "format": "torch",
                "size_bytes": 10,
                "absent": {"dtype": "not told", "parameters": "not told"},
            },
        ]
    }
    text = render(found, 160)
    assert "\x1b" not in text
    assert "1,234,567" in text
    assert "unknown  /m/x.pt: dtype, parameters: not told" in text
