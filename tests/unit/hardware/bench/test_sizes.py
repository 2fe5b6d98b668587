"""Which sizes are measured, from caches and free memory."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from assay.hardware.bench.outcome import TIMES_CACHE
from assay.hardware.bench.sizes import (
    SHARE,
    cores_in_order,
    cpu_caches,
    fitting_shapes,
    free_memory,
    memory_sizes,
    usable_cpus,
)

MIB, GIB = 2**20, 2**30


def test_sizes_reach_several_times_the_cache_and_show_it_too():
    sizes = memory_sizes(32 * MIB, 64 * GIB, 3)
    assert min(sizes) < 32 * MIB < max(sizes)
    assert sum(size >= TIMES_CACHE * 32 * MIB for size in sizes) >= 3


def test_little_memory_bounds_the_sizes_and_is_used_to_its_end():
    sizes = memory_sizes(32 * MIB, 1 * GIB, 3)
    assert max(sizes) * 3 <= SHARE * GIB
    assert max(sizes) > 160 * MIB  # between four and eight times the cache


@given(st.one_of(st.none(), st.integers(1, 2**32)), st.one_of(st.none(), st.integers(0, 2**42)), st.integers(1, 3))
def test_sizes_never_take_more_than_their_share(cache, free, arrays):
    sizes = memory_sizes(cache, free, arrays)
    assert list(sizes) == sorted(set(sizes))
    assert all(size % 8 == 0 and size > 0 for size in sizes)
    if free is not None:
        assert all(size * arrays <= SHARE * free for size in sizes)


def test_shapes_beyond_memory_say_so():
    fits, left_out = fitting_shapes((512, 16384), 4 * GIB, 48)
    assert fits == (512,)
    assert "12,884,901,888 bytes are needed" in left_out["16384"]
    assert fitting_shapes((512, 16384), None, 48) == ((512, 16384), {})


def write(root, cpu, files):
    for name, text in files.items():
        path = root / f"sys/devices/system/cpu/cpu{cpu}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_all_last_level_caches_count_and_a_second_level_one_alone(tmp_path):
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-3\n")
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        for index, (kind, level, size, shared) in enumerate(
            [
                ("Data", 1, "32K", str(cpu)),
                ("Instruction", 1, "64K", str(cpu)),
                ("Unified", 2, "1024K", str(cpu)),
                ("Unified", 3, "16384K", pair),
            ]
        ):
            of = f"cache/index{index}"
            write(
                tmp_path,
                cpu,
                {f"{of}/type": kind, f"{of}/level": level, f"{of}/size": size, f"{of}/shared_cpu_list": shared},
            )
    assert cpu_caches(tmp_path) == (32 * MIB, MIB)


def test_a_machine_that_tells_no_caches_has_none(tmp_path):
    assert cpu_caches(tmp_path) == (None, None)


def test_one_thread_of_each_core_comes_first(tmp_path):
    for cpu in range(4):
        write(tmp_path, cpu, {"topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}"})
    assert cores_in_order((0, 1, 2, 3), tmp_path) == (0, 1, 2, 3)
    for cpu in range(4):
        write(tmp_path, cpu, {"topology/thread_siblings_list": "0-1" if cpu < 2 else "2-3"})
    assert cores_in_order((0, 1, 2, 3), tmp_path) == (0, 2, 1, 3)


def test_a_container_bounds_memory(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\n")
    assert free_memory(tmp_path) == 60_000_000 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("2147483648\n")
    (group / "memory.current").write_text("1073741824\n")
    assert free_memory(tmp_path) == GIB


def test_this_machine_tells_its_own():
    assert set(usable_cpus()) <= os.sched_getaffinity(0)
    assert 0 < free_memory() < 2**50
