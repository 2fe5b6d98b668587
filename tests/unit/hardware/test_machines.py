"""Recorded machines, from a Raspberry Pi to a server: each must come out as what it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.unit.hardware import recorded

from assay.hardware.components import memory_now
from assay.hardware.cpu import clocks_now
from assay.hardware.environment import hardware, read_hardware
from assay.hardware.source import FactSource

GIB = 2**30


def source(root: Path, architecture="x86_64", **words) -> FactSource:
    def nothing_installed(command):
        raise FileNotFoundError(command[0])

    return FactSource(root, "linux", architecture, **{"run": nothing_installed, "environ": {}, **words})


def cache(level, kind, size, shared_by, instances):
    return {"level": level, "type": kind, "size_bytes": size, "shared_by": shared_by, "instances": instances}


def test_a_raspberry_pi_says_its_board_its_cores_and_its_clocks(tmp_path):
    pi = source(recorded.raspberry_pi_5(tmp_path), "aarch64")
    found = read_hardware(pi)
    assert found["board"]["product"] == "Raspberry Pi 5 Model B Rev 1.0"
    assert "brcm,bcm2712" in found["board"]["compatible"]
    assert found["os"] == {
        "name": "Linux",
        "architecture": "aarch64",
        "version": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.6.31+rpt-rpi-2712",
    }
    cpu = found["cpu"]
    assert cpu["parts"] == {"Cortex-A76": 4}
    assert (cpu["cores"], cpu["threads"], cpu["sockets"]) == (4, 4, 1)
    assert cpu["isa"] == ["asimd", "asimddp", "asimdhp", "fphp"]
    assert cache(3, "unified", 2 * 2**20, 4, 1) in cpu["caches"]
    assert cache(2, "unified", 512 * 2**10, 1, 4) in cpu["caches"]
    assert (cpu["governor"], cpu["driver"], cpu["turbo"]) == ("ondemand", "cpufreq-dt", False)
    assert cpu["frequency_mhz"] == {"min": 1500.0, "max": 2400.0}
    assert found["disks"] == [
        {"name": "mmcblk0", "size_bytes": 124735488 * 512, "attached": "mmc", "nvme": False, "rotational": False}
    ]
    assert found["limits"]["usable_cores"] == 4
    assert "virtualisation" not in found
    assert "no flag" in found["absent"]["virtualisation"]
    assert "dmi/entries" in found["absent"]["memory.modules"]
    assert clocks_now(pi) == {"slowest_mhz": 1500.0, "fastest_mhz": 1500.0, "told_by": "cpufreq"}
    assert memory_now(pi)["available_bytes"] == 7000000 * 1024


def test_a_server_with_two_sockets_and_two_memory_nodes(tmp_path):
    server = source(recorded.dual_xeon(tmp_path))
    found = read_hardware(server)
    cpu = found["cpu"]
    assert cpu["model"] == "Intel(R) Xeon(R) Platinum 8480+"
    assert (cpu["sockets"], cpu["cores"], cpu["threads"], cpu["smt"]) == (2, 8, 16, True)
    assert cpu["caches"] == [
        cache(1, "data", 48 * 2**10, 2, 8),
        cache(1, "instruction", 32 * 2**10, 2, 8),
        cache(2, "unified", 2 * 2**20, 2, 8),
        cache(3, "unified", 105 * 2**20, 8, 2),
    ]
    assert cpu["numa"] == [
        {"node": 0, "cpus": "0-3,8-11", "memory_bytes": 32 * GIB, "distances": [10, 21]},
        {"node": 1, "cpus": "4-7,12-15", "memory_bytes": 32 * GIB, "distances": [21, 10]},
    ]
    assert {"amx_bf16", "amx_int8", "amx_tile", "avx512_vnni", "avx_vnni", "f16c", "fma", "sse4_2"} <= {*cpu["isa"]}
    assert cpu["isa"] == sorted(cpu["isa"])
    assert "aes" not in cpu["isa"]
    assert (cpu["governor"], cpu["turbo"]) == ("performance", True)
    assert cpu["frequency_mhz"] == {"min": 800.0, "max": 3800.0, "base": 2000.0}
    assert clocks_now(server) == {"slowest_mhz": 2900.0, "fastest_mhz": 3100.0, "told_by": "cpufreq"}
    assert found["virtualisation"] == {"virtual": False, "told_by": "the processor's flags"}
    assert found["memory"]["modules"] == [
        {
            "count": 2,
            "size_bytes": 32 * GIB,
            "type": "DDR5",
            "speed_mts": 4400,
            "rated_mts": 4800,
            "part": "PART-16",
            "maker": "Maker",
        }
    ]
    assert found["memory"]["huge_pages"] == {"count": 8, "size_bytes": 2 * 2**20}
    nvme = next(one for one in found["disks"] if one["nvme"])
    assert (nvme["model"], nvme["attached"]) == ("Dell Ent NVMe CM6 RI 3.84TB", "nvme over pcie")
    assert [one["rotational"] for one in found["disks"]] == [False, True]
    assert found["board"]["product"] == "PowerEdge R760"


def test_serial_numbers_stay_on_the_machine(tmp_path):
    assert "SECRET" not in json.dumps(read_hardware(source(recorded.dual_xeon(tmp_path))))


def test_a_virtual_machine_of_qemu(tmp_path):
    found = read_hardware(source(recorded.epyc_vm(tmp_path)))
    assert found["virtualisation"] == {"virtual": True, "hypervisor": "QEMU", "told_by": "the firmware (QEMU)"}
    assert (found["cpu"]["cores"], found["cpu"]["threads"]) == (2, 2)
    assert found["memory"]["modules"] == [{"count": 1, "size_bytes": 24 * GIB, "part": "PART-16", "maker": "Maker"}]
    assert "rotational" not in found["disks"][0]
    assert "virtual disk" in found["absent"]["disks.vda.rotational"]
    assert "hypervisor" in found["absent"]["cpu.governor"]
    assert {"cpu.driver", "cpu.frequency_mhz", "cpu.turbo"} <= found["absent"].keys()


def test_a_virtual_machine_whose_hypervisor_answers_the_processor(tmp_path):
    found = read_hardware(source(recorded.h200_vm(tmp_path)))
    assert found["virtualisation"] == {
        "virtual": True,
        "hypervisor": "KVM",
        "told_by": "the processor's identification",
    }
    assert cache(3, "unified", 300 * 2**20, 16, 1) in found["cpu"]["caches"]
    assert "amx_tile" in found["cpu"]["isa"]
    assert found["limits"] == {"usable_cores": 16, "affinity_cores": 16, "cgroups": "v2"}
    assert [one["name"] for one in found["disks"]] == ["vda", "vdb"]
    assert found["disks"][1]["read_only"] is True


def test_a_mac(tmp_path):
    def sysctl(words):
        assert words[0] == "sysctl"
        return recorded.APPLE

    mac = FactSource(tmp_path, "darwin", "arm64", run=sysctl, environ={})
    found = read_hardware(mac)
    assert found["os"] == {"name": "macOS", "architecture": "arm64", "version": "14.5", "kernel": "23.5.0"}
    assert found["board"] == {"vendor": "Apple", "product": "Mac14,2"}
    assert found["memory"] == {"total_bytes": 16 * GIB}
    assert found["cpu"]["kinds"] == [{"name": "Performance", "cores": 4}, {"name": "Efficiency", "cores": 4}]
    assert found["cpu"]["isa"] == ["asimd", "asimddp", "bf16", "i8mm", "neon"]
    assert cache(2, "unified", 16 * 2**20, 4, 1) in found["cpu"]["caches"]
    assert found["virtualisation"]["virtual"] is False
    assert {"cpu.governor", "limits"} <= found["absent"].keys()


def test_a_mac_that_lacks_a_name_is_requested_the_others_one_by_one(tmp_path):
    def sysctl(words):
        if len(words) > 2:
            raise subprocess.CalledProcessError(1, words)
        return "machdep.cpu.brand_string: Apple M1" if words[1] == "machdep.cpu" else ""

    assert read_hardware(FactSource(tmp_path, "darwin", "arm64", run=sysctl))["cpu"]["model"] == "Apple M1"


def test_a_machine_without_anything_names_every_missing_part(tmp_path):
    found = read_hardware(source(tmp_path))
    assert found["cpu"] == {"architecture": "x86_64"}
    assert "memory" not in found
    assert {
        "cpu.model",
        "cpu.cores",
        "cpu.threads",
        "cpu.caches",
        "cpu.numa",
        "cpu.isa",
        "cpu.governor",
        "cpu.turbo",
        "memory.total_bytes",
        "memory.modules",
        "disks",
        "board",
        "virtualisation",
        "limits.cgroups",
        "os.kernel",
        "os.version",
        "limits.affinity_cores",
    } <= found["absent"].keys()
    assert all(found["absent"].values())


def test_a_machine_without_sys_still_counts_its_threads(tmp_path):
    root = recorded.plant(tmp_path, {"proc/cpuinfo": recorded.x86_cpuinfo(3, "Some CPU", "Maker", "sse4_2 avx")})
    found = read_hardware(source(root))
    assert (found["cpu"]["threads"], found["cpu"]["isa"]) == (3, ["avx", "sse4_2"])
    assert "cpu.cores" in found["absent"]


def test_garbage_in_one_file_costs_that_fact_alone(tmp_path):
    root = recorded.dual_xeon(tmp_path)
    for name in (
        "sys/class/powercap/intel-rapl:0/energy_uj",
        "sys/devices/system/node/node0/meminfo",
        "sys/devices/system/cpu/cpu0/cache/index3/size",
        "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
        "sys/devices/system/cpu/intel_pstate/no_turbo",
        "sys/block/sda/size",
        "sys/firmware/dmi/entries/17-0/raw",
        "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq",
    ):
        (root / name).write_bytes(b"\xff\x00garbage\xfe")
    found = read_hardware(source(root))
    assert "sda" not in [one["name"] for one in found["disks"]]
    assert found["memory"]["modules"][0]["count"] == 1
    assert found["cpu"]["frequency_mhz"]["max"] == 3800.0
    assert "no_turbo" in found["absent"]["cpu.turbo"]
    assert found["cpu"]["numa"][1]["memory_bytes"] == 32 * GIB
    assert "memory_bytes" not in found["cpu"]["numa"][0]


@pytest.mark.parametrize("name", ["firmware/dmi/entries/17-0/raw", "devices/system/cpu/online"])
def test_a_folder_where_a_file_should_be_is_a_reason_too(tmp_path, name):
    root = recorded.dual_xeon(tmp_path)
    (root / "sys" / name).unlink()
    (root / "sys" / name).mkdir()
    found = read_hardware(source(root))
    assert found["cpu"]["threads"] == 16
    assert found["memory"]["modules"][0]["count"] in (1, 2)


def test_memory_controllers_report_the_type_where_the_firmware_may_not_be_read(tmp_path):
    folder = "sys/devices/system/edac/mc/mc0/dimm0"
    root = recorded.plant(tmp_path, {f"{folder}/size": "16384\n", f"{folder}/dimm_mem_type": "Registered-DDR4\n"})
    found = read_hardware(source(root))
    assert found["memory"]["modules"] == [{"count": 1, "size_bytes": 16 * GIB, "type": "Registered-DDR4"}]
    assert "sizes and types alone" in found["absent"]["memory.speed"]


def test_other_accelerators_are_named_by_their_drivers(tmp_path):
    root = recorded.plant(
        tmp_path,
        {
            "sys/class/accel/accel0/device/uevent": "DRIVER=intel_vpu\nPCI_ID=8086:7D1D\nPCI_SLOT_NAME=0000:00:0b.0\n",
            "sys/bus/pci/devices/0000:00:0b.0/class": "0x120000\n",  # the same one, seen twice
            "sys/bus/pci/devices/0000:05:00.0/class": "0x120000\n",
            "sys/bus/pci/devices/0000:05:00.0/vendor": "0x1ae0\n",
            "sys/bus/pci/devices/0000:05:00.0/device": "0x0063\n",
            "sys/bus/pci/devices/0000:00:02.0/class": "0x020000\n",  # a network card
            "sys/bus/pci/devices/0000:07:00.0/class": "0x120000\n",  # a GPU, which others tell of
            "sys/bus/usb/devices/1-2/idVendor": "18d1\n",
            "sys/bus/usb/devices/1-2/idProduct": "9302\n",
            "sys/class/apex/apex_0/dev": "120:0\n",
        },
        {"sys/bus/pci/devices/0000:07:00.0/driver": "../../../bus/pci/drivers/amdgpu"},
    )
    found = read_hardware(source(root))["accelerators"]
    assert [one["name"] for one in found] == ["accel0", "apex_0", "0000:05:00.0", "1-2"]
    assert found[0] == {
        "name": "accel0",
        "class": "accel",
        "driver": "intel_vpu",
        "pci": "0000:00:0b.0",
        "pci_id": "8086:7d1d",
    }
    assert found[2]["pci_id"] == "1ae0:0063"


@pytest.mark.live
def test_this_machine_reports_of_itself_and_is_read_once():
    found = hardware()
    assert found is hardware()
    assert found["cpu"]["threads"] >= 1
    assert found["limits"]["usable_cores"] >= 1
    assert found["memory"]["total_bytes"] > 2**28
    json.dumps(found, allow_nan=False)
    assert all(isinstance(why, str) and why for why in found["absent"].values())
