"""The machine in made-up trees with known numbers, and this one as it is."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from assay.run.probes.readers.machine import SECTOR, LinuxMachine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
TICK = os.sysconf("SC_CLK_TCK")

STAT = "cpu  {} 20 30 4000 50 6 7 {} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 5\n"
DISKS = """   7       0 loop0 9 0 999 0 9 0 999 0 0 0 0 0 0 0 0 0 0
 254       0 vda 10 0 {} 5 20 0 {} 7 0 8 9 1 2 3 4 5 6
 254       1 vda1 10 0 100 5 20 0 100 7 0 8 9 1 2 3 4 5 6
"""
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs …
    lo: 5000000 1 0 0 0 0 0 0 5000000 1 0 0 0 0 0 0
  eth0:{} 1 0 0 0 0 0 0 {} 1 0 0 0 0 0 0
  br-1: 77 1 0 0 0 0 0 0 77 1 0 0 0 0 0 0
"""


def put(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def tree(tmp_path) -> Path:
    put(tmp_path, "proc/stat", STAT.format(1000, 40))
    put(tmp_path, "proc/meminfo", "MemTotal:       8000 kB\nMemFree:        1000 kB\nMemAvailable:   3000 kB\n")
    put(tmp_path, "proc/diskstats", DISKS.format(2000, 4000))
    put(tmp_path, "proc/net/dev", NET.format(111, 222))
    put(tmp_path, "proc/vmstat", "nr_free_pages 5\npswpin 3\npswpout 11\npgfault 9\n")
    for name, place in (("vda", "pci0/block/vda"), ("loop0", "virtual/block/loop0")):
        (tmp_path / "sys/devices" / place).mkdir(parents=True)
        (tmp_path / "sys/block").mkdir(exist_ok=True)
        (tmp_path / "sys/block" / name).symlink_to(tmp_path / "sys/devices" / place)
    (tmp_path / "sys/class/net/eth0/device").mkdir(parents=True)
    (tmp_path / "sys/class/net/br-1/bridge").mkdir(parents=True)
    for core, khz in ((0, 2_000_000), (1, 3_000_000)):
        put(tmp_path, f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", f"{khz}\n")
        put(tmp_path, f"sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count", "7\n")
    for zone, kind, milli in ((0, "acpitz", 90_000), (1, "x86_pkg_temp", 61_000)):
        put(tmp_path, f"sys/class/thermal/thermal_zone{zone}/type", f"{kind}\n")
        put(tmp_path, f"sys/class/thermal/thermal_zone{zone}/temp", f"{milli}\n")
    return tmp_path


def test_all_parts_are_read(tree):
    machine = LinuxMachine(tree)
    told = machine.read(slow=True)
    assert machine.absent == {}
    page = os.sysconf("SC_PAGE_SIZE")
    assert told.totals == {
        "busy_s": pytest.approx((1000 + 20 + 30 + 6 + 7) / TICK),
        "steal_s": pytest.approx(40 / TICK),
        "disk_read_bytes": 2000 * SECTOR,
        "disk_write_bytes": 4000 * SECTOR,
        "net_in_bytes": 111,
        "net_out_bytes": 222,
        "swap_in_bytes": 3 * page,
        "swap_out_bytes": 11 * page,
    }
    assert told.states == {"memory_available_bytes": 3000 * 1024, "cpu_mhz": 2500, "temperature_c": 61}


def test_files_are_read_anew_each_time(tree):
    machine = LinuxMachine(tree)
    put(tree, "proc/net/dev", NET.format(10**12, 5))
    put(tree, "proc/stat", STAT.format(1500, 40))
    told = machine.read(slow=False)
    assert told.totals["net_in_bytes"] == 10**12
    assert told.totals["busy_s"] == pytest.approx(1563 / TICK)
    assert "cpu_mhz" not in told.states


def test_a_container_without_sys_still_reports_the_rest(tree):
    bare = tree / "bare"
    bare.mkdir()
    (tree / "proc").rename(bare / "proc")
    machine = LinuxMachine(bare)
    told = machine.read(slow=True)
    assert {"busy_s", "net_in_bytes", "swap_in_bytes"} <= told.totals.keys()
    assert told.states.keys() == {"memory_available_bytes"}
    assert machine.absent.keys() == {"machine.disk", "machine.cpu_mhz", "machine.temperature_c", "cpu throttling"}
    assert "/sys/block" in machine.absent["machine.disk"]
    assert machine.throttled((0, 1)) is None


def test_a_machine_that_reports_nothing_says_why_of_each_part(tmp_path):
    machine = LinuxMachine(tmp_path)
    assert machine.read(slow=True).totals == {}
    assert len(machine.absent) == 8
    assert "no such file" in machine.absent["machine.cpu_pct"]


def test_a_part_that_is_lost_in_the_middle_is_reported_once(tree):
    machine = LinuxMachine(tree)
    put(tree, "proc/meminfo", "nothing\n")
    assert "memory_available_bytes" not in machine.read(slow=False).states
    assert machine.absent["machine.memory_available_bytes"].startswith("lost in the middle")
    assert "busy_s" in machine.read(slow=False).totals


def test_a_core_that_throttles_is_seen_in_the_window_in_which_its_count_grew(tree):
    machine = LinuxMachine(tree)
    machine.read(slow=True)
    before = time.perf_counter_ns()
    put(tree, "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "9\n")
    machine.read(slow=True)
    after = time.perf_counter_ns()
    machine.read(slow=True)
    assert machine.throttled((before, after)) == ("core too hot",)
    assert machine.throttled((after, after + 10**12)) == ()


def test_a_raspberry_pi_reports_by_bits(tree):
    put(tree, "sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n")
    machine = LinuxMachine(tree)
    machine.read(slow=True)
    assert machine.throttled((0, 2**62)) == ("under-voltage", "throttled")


def test_sensors_of_a_chip_are_taken_where_no_zone_is(tree):
    (tree / "sys/class/thermal/thermal_zone1/type").write_text("iwlwifi_1\n")
    for number, milli in ((1, 45_000), (2, 48_500)):
        put(tree, f"sys/class/hwmon/hwmon0/temp{number}_input", f"{milli}\n")
    put(tree, "sys/class/hwmon/hwmon0/name", "k10temp\n")
    put(tree, "sys/class/hwmon/hwmon1/name", "nvme\n")
    put(tree, "sys/class/hwmon/hwmon1/temp1_input", "80000\n")
    assert LinuxMachine(tree).read(slow=True).states["temperature_c"] == 48.5


@pytest.mark.live
def test_this_machine_agrees_with_psutil():
    machine = LinuxMachine()
    told, times = machine.read(slow=True), psutil.cpu_times()
    busy = sum(times) - times.idle - times.iowait - times.steal - times.guest - times.guest_nice
    assert told.totals["busy_s"] == pytest.approx(busy, abs=2)
    assert told.states["memory_available_bytes"] == pytest.approx(psutil.virtual_memory().available, rel=0.2)
