"""GPUs as the kernel shows them: trees of /sys and /proc as machines have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.hardware.gpu.record import Gpu, LayerUnavailableError
from assay.hardware.gpu.sysfs import by_sysfs

PCI_IDS = """#
# A part of the list of PCI numbers
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]
\t\t1002 0e3b  a board of it
8086  Intel Corporation
\t744c  not of AMD
# a word in between
\t56a0  DG2 [Arc A770]
C 03  Display controller
"""


def put(root: Path, folder: str, **files: str) -> Path:
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = place / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return place


def on_bus(root: Path, address: str, card: str = "", **files: str) -> Path:
    """A device on the PCI bus, with a card where it has one."""
    driver = files.pop("driver_name", "")
    event = f"DRIVER={driver}\nPCI_SLOT_NAME={address}" if driver else f"PCI_SLOT_NAME={address}"
    device = put(root, f"sys/devices/pci0000:00/{address}", uevent=event, **files)
    (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
    (root / "sys/bus/pci/devices" / address).symlink_to(device)
    if card:
        folder = put(root, f"sys/class/drm/{card}")
        (folder / "device").symlink_to(device)
    return device


def test_a_radeon_by_amdgpu(tmp_path):
    put(tmp_path, "usr/share/misc", **{"pci.ids": PCI_IDS})
    put(tmp_path, "sys/module/amdgpu", version="6.10.5")
    on_bus(
        tmp_path,
        "0000:03:00.0",
        "card1",
        driver_name="amdgpu",
        vendor="0x1002",
        device="0x744c",
        **{"class": "0x030000"},
        mem_info_vram_total="25753026560",
        unique_id="ce5d239fe548af74",
        current_link_speed="16.0 GT/s PCIe",
        current_link_width="8",
        max_link_speed="32.0 GT/s PCIe",
        max_link_width="16",
        pp_dpm_sclk="0: 500Mhz\n1: 1200Mhz *\n2: 2482Mhz",
        pp_dpm_mclk="0: 96Mhz *\n1: 1249Mhz",
        hwmon__hwmon3__temp1_input="41000",
        hwmon__hwmon3__temp1_crit="100000",
        hwmon__hwmon3__power1_cap="303000000",
    )
    put(tmp_path, "sys/class/drm/card1-HDMI-A-1", status="connected")
    assert by_sysfs(tmp_path).gpus == (
        Gpu(
            index=0,
            name="Navi 31 [Radeon RX 7900 XT/7900 XTX]",
            vendor="amd",
            layer="sysfs",
            uuid="ce5d239fe548af74",
            memory_bytes=25_753_026_560,
            driver="6.10.5",
            pci="0000:03:00.0",
            pcie={"generation": 4, "width": 8, "max_generation": 5, "max_width": 16},
            power_limit_w=303.0,
            clocks_mhz={"graphics": 1200.0, "memory": 96.0},
            max_clocks_mhz={"graphics": 2482.0, "memory": 1249.0},
            temperature_c=41.0,
            slowdown_c=100.0,
        ),
    )


def test_an_nvidia_board_without_a_card_by_its_drivers_own_words(tmp_path):
    put(tmp_path, "sys/module/nvidia", version="580.159.04")
    on_bus(tmp_path, "0000:00:06.0", driver_name="nvidia", vendor="0x10de", device="0x2335", **{"class": "0x030200"})
    put(
        tmp_path,
        "proc/driver/nvidia/gpus/0000:00:06.0",
        information="Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t GPU-1\nVideo BIOS: \t ??.??.??\n"
        "Bus Location: \t 0000:00:06.0",
    )
    (gpu,) = by_sysfs(tmp_path).gpus
    assert gpu.record() == {
        "index": 0,
        "name": "NVIDIA H200",
        "vendor": "nvidia",
        "layer": "sysfs",
        "uuid": "GPU-1",
        "driver": "580.159.04",
        "pci": "0000:00:06.0",
    }


@pytest.mark.parametrize("driver", ["i915", "xe"])
def test_intel_by_i915_and_xe(tmp_path, driver):
    device = on_bus(
        tmp_path,
        "0000:00:02.0",
        "card0",
        driver_name=driver,
        vendor="0x8086",
        device="0x9a60",
        **{"class": "0x030000"},
        current_link_width="255",
    )
    if driver == "i915":
        put(tmp_path, "sys/class/drm/card0", gt_act_freq_mhz="0", gt_max_freq_mhz="1450")
    else:
        put(device, "tile0/gt0/freq0", act_freq="0", max_freq="1450")
    (gpu,) = by_sysfs(tmp_path).gpus
    assert (gpu.vendor, gpu.driver, gpu.name) == ("intel", driver, "PCI device 8086:9a60")
    assert (gpu.clocks_mhz, gpu.max_clocks_mhz, gpu.pcie) == ({}, {"graphics": 1450.0}, {})
    assert gpu.memory_bytes is None


def test_names_come_from_the_list_of_pci_numbers(tmp_path):
    put(tmp_path, "usr/share/hwdata", **{"pci.ids": PCI_IDS})
    for number, (vendor, device) in enumerate([("0x8086", "0x56a0"), ("0x8086", "0x744c"), ("0x1002", "0x56a0")]):
        on_bus(tmp_path, f"0000:0{number}:00.0", vendor=vendor, device=device, **{"class": "0x030000"})
    names = [gpu.name for gpu in by_sysfs(tmp_path).gpus]
    assert names == ["DG2 [Arc A770]", "not of AMD", "PCI device 1002:56a0"]


def test_a_raspberry_pi_4_has_one_gpu_and_a_part_that_drives_the_screen(tmp_path):
    gpu = put(
        tmp_path,
        "sys/devices/platform/fec00000.v3d",
        drm__renderD128__dev="226:128",
        uevent="DRIVER=v3d\nOF_NAME=v3d\nOF_COMPATIBLE_0=brcm,2711-v3d\nOF_COMPATIBLE_N=1",
    )
    screen = put(
        tmp_path,
        "sys/devices/platform/gpu",
        drm__card1__dev="226:1",
        uevent="DRIVER=vc4-drm\nOF_NAME=gpu\nOF_COMPATIBLE_0=brcm,bcm2711-vc5",
    )
    for card, device in (("card0", gpu), ("card1", screen)):
        (put(tmp_path, f"sys/class/drm/{card}") / "device").symlink_to(device)
    (found,) = by_sysfs(tmp_path).gpus
    assert found.record() == {
        "index": 0,
        "name": "brcm,2711-v3d",
        "vendor": "broadcom",
        "layer": "sysfs",
        "driver": "v3d",
    }


def test_an_accelerator_of_amd_counts_and_one_of_another_maker_does_not(tmp_path):
    on_bus(tmp_path, "0000:05:00.0", vendor="0x1002", device="0x74a1", **{"class": "0x120000"})
    on_bus(tmp_path, "0000:06:00.0", vendor="0x1da3", device="0x1020", **{"class": "0x120000"})
    on_bus(tmp_path, "0000:07:00.0", vendor="0x8086", device="0x1533", **{"class": "0x020000"})
    (gpu,) = by_sysfs(tmp_path).gpus
    assert (gpu.vendor, gpu.pci) == ("amd", "0000:05:00.0")
    assert gpu.note == "no driver of the kernel is bound to it"


def test_what_only_shows_a_picture_is_left_out_and_named(tmp_path):
    on_bus(tmp_path, "0000:02:00.0", "card0", vendor="0x1a03", device="0x2000", **{"class": "0x030000"})
    with pytest.raises(LayerUnavailableError, match="no GPU; left out, as they only show a picture: ASPEED"):
        by_sysfs(tmp_path)


def test_a_maker_that_is_not_known_is_reported_by_its_number(tmp_path):
    on_bus(
        tmp_path, "0000:02:00.0", "card0", driver_name="mgpu", vendor="0x1ed5", device="0x0222", **{"class": "0x030000"}
    )
    (gpu,) = by_sysfs(tmp_path).gpus
    assert (gpu.vendor, gpu.name, gpu.driver) == ("0x1ed5", "PCI device 1ed5:0222", "mgpu")


def test_a_container_without_sys(tmp_path):
    with pytest.raises(LayerUnavailableError, match="neither /sys/class/drm nor /sys/bus/pci can be read here"):
        by_sysfs(tmp_path)


def test_gpus_come_in_the_order_of_the_bus(tmp_path):
    on_bus(tmp_path, "0000:41:00.0", "card0", vendor="0x1002", device="0x1", **{"class": "0x030000"})
    on_bus(tmp_path, "0000:01:00.0", "card1", vendor="0x1002", device="0x1", **{"class": "0x030000"})
    assert [(gpu.index, gpu.pci) for gpu in by_sysfs(tmp_path).gpus] == [(0, "0000:01:00.0"), (1, "0000:41:00.0")]


@pytest.mark.live
def test_this_machine_has_gpus_or_a_reason():
    cards = [*Path("/sys/class/drm").glob("card*")]
    try:
        answer = by_sysfs()
    except LayerUnavailableError:
        answer = None
    if answer is None:
        assert not any((card / "device/drm").glob("renderD*") for card in cards)
    else:
        assert all(gpu.pci or gpu.driver for gpu in answer.gpus)
