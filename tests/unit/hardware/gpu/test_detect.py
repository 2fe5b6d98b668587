"""Detection in layers, PyTorch among them: the first that answers is taken, the others are compared or say why not."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.unit.hardware.gpu.recorded import (
    FIXTURES,
    Nvml,
    board,
    failing_init,
    not_installed,
    nvidia_smi,
    programs,
    xml,
)
from tests.unit.hardware.gpu.test_sysfs import on_bus, put

from assay.hardware.apple import by_system_profiler
from assay.hardware.gpu.detect import by_begun_torch, by_torch, gpus, local_gpus
from assay.hardware.gpu.record import LayerUnavailableError, output

H200 = SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    total_memory=143155 * 2**20,
    multi_processor_count=132,
    uuid="11111111-2222-3333-4444-555555555555",
    pci_domain_id=0,
    pci_bus_id=0,
    pci_device_id=6,
)
MI300X = SimpleNamespace(
    name="AMD Instinct MI300X",
    major=9,
    minor=4,
    total_memory=205_822_885_888,
    multi_processor_count=304,
    gcnArchName="gfx942:sramecc+:xnack-",
)


def torch(*boards: SimpleNamespace, hip: str | None = None, mps: bool = False, begun: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        version=SimpleNamespace(hip=hip, cuda=None if hip else "13.0"),
        cuda=SimpleNamespace(
            is_available=lambda: bool(boards),
            is_initialized=lambda: begun,
            device_count=lambda: len(boards),
            get_device_properties=lambda index: boards[index],
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
    )


def test_an_h200_by_cuda():
    (gpu,) = by_torch(lambda name: torch(H200)).gpus
    assert (gpu.vendor, gpu.layer, gpu.capability, gpu.multiprocessors) == ("nvidia", "torch", "9.0", 132)
    assert (gpu.uuid, gpu.pci) == ("GPU-11111111-2222-3333-4444-555555555555", "0000:00:06.0")
    assert (gpu.architecture, gpu.tensor_cores) == ("Hopper", 4)
    assert "without what the driver keeps" in gpu.note
    assert gpu.driver is None


def test_a_capability_of_rocm_is_not_one_of_nvidia():
    (gpu,) = by_torch(lambda name: torch(MI300X, hip="6.2")).gpus
    assert (gpu.vendor, gpu.architecture, gpu.capability) == ("amd", "gfx942", None)
    assert (gpu.tensor_cores, gpu.precisions, gpu.pci, gpu.uuid) == (None, (), None, None)


def test_mps_reports_that_it_works():
    (gpu,) = by_torch(lambda name: torch(mps=True), machine="arm64").gpus
    assert (gpu.vendor, gpu.memory_bytes) == ("apple", None)
    with pytest.raises(LayerUnavailableError, match="sees no GPU"):  # behind MPS of an Intel Mac may be anyone's
        by_torch(lambda name: torch(mps=True), machine="x86_64")


def broken(name: str) -> None:
    raise OSError("libcudart.so.13: cannot open shared object file")


def too_old(index: int) -> None:
    raise RuntimeError("The NVIDIA driver on your system is too old")


def test_each_way_to_fail_has_its_own_reason():
    with pytest.raises(LayerUnavailableError, match="PyTorch is not installed"):
        by_torch(not_installed)
    with pytest.raises(LayerUnavailableError, match="cannot be imported: libcudart"):
        by_torch(broken)
    with pytest.raises(LayerUnavailableError, match="sees no GPU"):
        by_torch(lambda name: torch())
    failing = torch(H200)
    failing.cuda.get_device_properties = too_old
    with pytest.raises(LayerUnavailableError, match="cannot use its GPUs: The NVIDIA driver"):
        by_torch(lambda name: failing)


def test_torch_is_not_woken_for_a_look(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(LayerUnavailableError, match="was not asked, as importing it takes seconds"):
        by_begun_torch()
    monkeypatch.setitem(sys.modules, "torch", torch(H200, begun=False))
    with pytest.raises(LayerUnavailableError, match="has not begun CUDA"):
        by_begun_torch()
    monkeypatch.setitem(sys.modules, "torch", torch(H200))
    assert by_begun_torch().gpus[0].name == "NVIDIA H200"


def test_an_apple_chip_by_macos():
    (gpu,) = by_system_profiler(programs({("system_profiler",): (FIXTURES / "system_profiler.json").read_text()})).gpus
    assert gpu.record() == {
        "index": 0,
        "name": "Apple M3 Max",
        "vendor": "apple",
        "layer": "system_profiler",
        "multiprocessors": 40,
        "note": "it shares the machine's memory",
    }


def test_an_intel_mac_with_a_card_of_its_own():
    text = """{"SPDisplaysDataType": [
        {"_name": "Intel UHD Graphics 630", "spdisplays_vendor": "Intel", "spdisplays_vram_shared": "1536 MB"},
        {"_name": "x", "sppci_model": "AMD Radeon Pro 5500M", "spdisplays_vendor": "sppci_vendor_amd",
         "spdisplays_vram": "8 GB"}]}"""
    first, second = by_system_profiler(programs({("system_profiler",): text})).gpus
    assert (first.vendor, first.memory_bytes) == ("intel", None)
    assert (second.vendor, second.memory_bytes, second.name) == ("amd", 8 * 2**30, "AMD Radeon Pro 5500M")


@pytest.mark.parametrize("text", ['{"SPDisplaysDataType": []}', "{}", "[]", "nothing"])
def test_a_mac_that_lists_none(text):
    with pytest.raises(LayerUnavailableError):
        by_system_profiler(programs({("system_profiler",): text}))


NOTHING = programs({})


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (not_installed, "no GPU found"),
        (failing_init("NVML Shared Library Not Found"), "no GPU found"),
        (failing_init("Driver Not Loaded"), "no GPU found; nvml: the NVIDIA driver is not loaded"),
    ],
)
def test_why_there_is_no_gpu_names_only_layers_that_are_broken(tmp_path, load, why):
    detection = gpus(load=load, run=NOTHING, root=tmp_path, platform="linux")
    assert detection.why_none().startswith(why)
    assert ("nvml" in detection.why_none()) == ("nvml" in why)
    assert {"nvml", "nvidia-smi", "sysfs"} <= detection.tried.keys()


def with_torch_and(nvml: Nvml, boards=(H200,)):
    return lambda name: nvml if name == "pynvml" else torch(*boards)


@pytest.fixture
def h200_tree(tmp_path):
    on_bus(tmp_path, "0000:00:06.0", driver_name="nvidia", vendor="0x10de", device="0x2335", **{"class": "0x030200"})
    put(
        tmp_path,
        "proc/driver/nvidia/gpus/0000:00:06.0",
        information="Model: NVIDIA H200\nGPU UUID: GPU-11111111-2222-3333-4444-555555555555",
    )
    return tmp_path


def test_all_layers_agree_on_an_h200(h200_tree):
    found = gpus(
        load=with_torch_and(Nvml("h200")),
        run=nvidia_smi("h200", "9.0"),
        root=h200_tree,
        platform="linux",
        with_torch=True,
        compare=True,
    )
    (gpu,) = found.gpus
    assert found.layer == gpu.layer == "nvml"
    assert gpu.agreed_by == ("nvidia-smi", "torch", "sysfs")
    assert gpu.differs == {}
    assert gpu.memory_bytes == 150_754_820_096
    assert found.tried["nvml"] == found.tried["nvidia-smi"] == found.tried["torch"] == found.tried["sysfs"] == "1 GPU"


def test_what_differs_is_reported(h200_tree):
    text = (
        xml("h200")
        .replace("<driver_version>580.159.04", "<driver_version>575.57.08")
        .replace("143771 MiB", "143770 MiB")
    )
    run = programs({("nvidia-smi", "-q"): text, ("nvidia-smi", "--query-gpu=index,compute_cap"): "0, 9.0\n"})
    one_less = H200.__class__(**{**vars(H200), "multi_processor_count": 131})
    found = gpus(
        load=with_torch_and(Nvml("h200"), (one_less,)),
        run=run,
        root=h200_tree,
        platform="linux",
        with_torch=True,
        compare=True,
    )
    (gpu,) = found.gpus
    assert gpu.agreed_by == ("sysfs",)
    assert gpu.differs == {"driver": "nvidia-smi: 575.57.08", "multiprocessors": "torch: 131"}
    assert gpu.driver == "580.159.04"


def test_a_layer_with_nothing_in_common_does_not_agree(tmp_path):
    on_bus(tmp_path, "0000:00:06.0", driver_name="nvidia", vendor="0x10de", device="0x2335", **{"class": "0x030200"})
    found = gpus(load=Nvml("h200").load, run=NOTHING, root=tmp_path, platform="linux")
    assert (found.gpus[0].agreed_by, found.gpus[0].differs) == ((), {})
    assert found.tried["sysfs"] == "1 GPU"


def test_nvidia_smi_is_not_asked_where_nvml_answers(tmp_path):
    def run(command):
        raise AssertionError(f"{command} was run")

    found = gpus(load=Nvml("t4").load, run=run, root=tmp_path, platform="linux")
    assert found.layer == "nvml"
    assert "nvidia-smi" not in found.tried


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (not_installed, "pynvml is not installed"),
        (failing_init("Insufficient Permissions"), "no permission"),
        (failing_init("RM has detected an NVML/RM version mismatch."), "different versions"),
    ],
)
def test_without_nvml_nvidia_smi_is_taken(tmp_path, load, why):
    found = gpus(load=load, run=nvidia_smi("rtx3090", "8.6"), root=tmp_path, platform="linux")
    assert (found.layer, found.gpus[0].name) == ("nvidia-smi", "NVIDIA GeForce RTX 3090")
    assert why in found.tried["nvml"]


def test_without_both_torch_is_taken_where_it_was_requested(tmp_path):
    def load(name):
        return torch(H200) if name == "torch" else not_installed(name)

    found = gpus(load=load, run=NOTHING, root=tmp_path, platform="linux", with_torch=True)
    assert (found.layer, found.gpus[0].multiprocessors) == ("torch", 132)
    assert gpus(load=load, run=NOTHING, root=tmp_path, platform="linux").gpus == ()


def test_the_kernel_is_taken_where_nothing_else_answers(h200_tree):
    found = gpus(load=not_installed, run=NOTHING, root=h200_tree, platform="linux")
    assert (found.layer, found.gpus[0].name) == ("sysfs", "NVIDIA H200")
    assert found.tried["nvidia-smi"] == "nvidia-smi is not installed"


def test_amd_by_amd_smi_and_agreed_by_the_kernel(tmp_path):
    put(tmp_path, "sys/module/amdgpu", version="6.10.5")
    on_bus(
        tmp_path,
        "0000:05:00.0",
        "card0",
        driver_name="amdgpu",
        vendor="0x1002",
        device="0x74a1",
        unique_id="aaaa111122223333",
        mem_info_vram_total=str(196592 * 2**20),
        **{"class": "0x120000"},
    )
    rows = json.loads((FIXTURES / "amd-smi-static.json").read_text())[:1]
    run = programs({("amd-smi", "static"): json.dumps(rows)})
    found = gpus(load=not_installed, run=run, root=tmp_path, platform="linux")
    assert (found.layer, found.gpus[0].agreed_by) == ("amd-smi", ("sysfs",))
    assert found.tried["amd-smi"] == "1 GPU; no readings: amd-smi is not installed"
    assert "rocm-smi" not in found.tried


def test_rocm_smi_where_there_is_no_amd_smi(tmp_path):
    put(tmp_path, "sys/module/amdgpu")
    run = programs({("rocm-smi",): (FIXTURES / "rocm-smi.json").read_text()})
    found = gpus(load=not_installed, run=run, root=tmp_path, platform="linux")
    assert (found.layer, len(found.gpus)) == ("rocm-smi", 2)
    assert found.tried["amd-smi"] == "amd-smi is not installed"


def test_a_laptop_with_gpus_of_two_makers_has_both(h200_tree):
    on_bus(
        h200_tree,
        "0000:00:02.0",
        "card0",
        driver_name="i915",
        vendor="0x8086",
        device="0x9a60",
        **{"class": "0x030000"},
    )
    found = gpus(load=Nvml("h200").load, run=NOTHING, root=h200_tree, platform="linux")
    assert [(gpu.index, gpu.vendor, gpu.layer) for gpu in found.gpus] == [(0, "nvidia", "nvml"), (1, "intel", "sysfs")]
    assert found.gpus[0].agreed_by == ("sysfs",)
    assert found.gpus[1].agreed_by == ()
    assert found.layer == "nvml"


def test_numbers_of_nvml_are_kept_where_one_gpu_is_lost(tmp_path):
    found = gpus(load=Nvml({"lost": True}, "t4").load, run=NOTHING, root=tmp_path, platform="linux")
    assert [gpu.index for gpu in found.gpus] == [1]
    assert found.tried["nvml"].startswith("1 GPU; GPU 0: a GPU is lost")


def test_each_of_two_boards_meets_its_own_twin(tmp_path):
    two = [
        board("h200"),
        board("h200") | {"nvmlDeviceGetUUID": "GPU-2", "nvmlDeviceGetPciInfo": {"busId": "00000000:00:07.0"}},
    ]
    for address, uuid in (("0000:00:07.0", "GPU-2"), ("0000:00:06.0", "GPU-9")):
        on_bus(tmp_path, address, driver_name="nvidia", vendor="0x10de", device="0x2335", **{"class": "0x030200"})
        put(tmp_path, f"proc/driver/nvidia/gpus/{address}", information=f"Model: NVIDIA H200\nGPU UUID: {uuid}")
    first, second = gpus(load=Nvml(*two).load, run=NOTHING, root=tmp_path, platform="linux").gpus
    assert (first.agreed_by, first.differs) == ((), {"uuid": "sysfs: GPU-9"})
    assert (second.agreed_by, second.differs) == (("sysfs",), {})


def test_a_mac(tmp_path):
    run = programs({("system_profiler",): (FIXTURES / "system_profiler.json").read_text()})
    found = gpus(load=not_installed, run=run, root=tmp_path, platform="darwin")
    assert (found.layer, found.gpus[0].name) == ("system_profiler", "Apple M3 Max")
    assert "sysfs" not in found.tried


def test_a_machine_without_any_gpu_says_why_of_each_layer(tmp_path):
    found = gpus(load=not_installed, run=NOTHING, root=tmp_path, platform="linux")
    assert (found.gpus, found.layer) == ((), None)
    assert list(found.tried) == ["nvml", "nvidia-smi", "torch", "amd-smi", "rocm-smi", "sysfs"]
    assert all(found.tried.values())
    assert "layer" not in found.record()


def test_the_record_is_json(h200_tree):
    found = gpus(load=Nvml("a100-mig").load, run=NOTHING, root=h200_tree, platform="linux")
    assert json.loads(json.dumps(found.record())) == found.record()
    assert found.record()["gpus"][0]["throttle"] == []


def test_a_program_that_is_not_installed_or_fails():
    with pytest.raises(LayerUnavailableError, match="no-such-program is not installed"):
        output(("no-such-program", "-q"))
    with pytest.raises(LayerUnavailableError, match="ended with code 6: No devices were found"):
        output(("sh", "-c", "echo No devices were found; echo more; exit 6"))
    assert output(("sh", "-c", "echo yes")) == "yes\n"


@pytest.mark.live
def test_this_machine_is_checked_without_importing_torch():
    script = (
        "import json, sys\nfrom assay.hardware.gpu.detect import local_gpus\nfound = local_gpus()\n"
        "assert local_gpus() is found\nprint(json.dumps(found.record()))\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    record, modules = map(json.loads, done.stdout.splitlines())
    assert not {"torch", "numpy", "pydantic"} & set(modules)
    assert record["tried"]["nvml"]
    assert len(record["gpus"]) == len(local_gpus().gpus)
