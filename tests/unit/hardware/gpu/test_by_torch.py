"""GPUs by PyTorch, as its functions answered on an H200 and as they answer on ROCm and on a Mac; and by macOS."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from tests.unit.hardware.gpu.recorded import FIXTURES, not_installed, programs

from assay.hardware.apple import by_system_profiler
from assay.hardware.gpu.pytorch import by_begun_torch, by_torch
from assay.hardware.gpu.record import LayerUnavailableError

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


def test_mps_tells_that_it_works():
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
