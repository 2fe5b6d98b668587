"""Which sizes are measured, from caches and free memory; and which of them speaks for a curve."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.hardware.bench.outcome import (
    SHARE,
    TIMES_CACHE,
    WITHIN,
    cores_in_order,
    cpu_caches,
    fitting_shapes,
    free_memory,
    level_of,
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


def test_a_machine_that_reports_no_caches_has_none(tmp_path):
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


def test_this_machine_reports_its_own():
    assert set(usable_cpus()) <= os.sched_getaffinity(0)
    assert 0 < free_memory() < 2**50


CACHE = 32 * MIB


def curve(*values: float, start: int = 4 * CACHE):
    return [(start * 2**place, value) for place, value in enumerate(values)]


def test_a_level_curve_has_a_plateau_and_its_middle_is_reported():
    level = level_of([(MIB, 300.0), *curve(99.0, 100.0, 98.0)], CACHE)
    assert level.sizes == (4 * CACHE, 8 * CACHE, 16 * CACHE)
    assert level.size == 4 * CACHE  # 99, between 98 and 100
    assert level.because == ""


def test_sizes_inside_the_cache_never_count():
    level = level_of([(MIB, 900.0), (CACHE, 500.0), (2 * CACHE, 300.0), *curve(100.0, 100.0)], CACHE)
    assert level.sizes == (4 * CACHE, 8 * CACHE)


def test_of_an_even_number_the_smaller_middle_is_reported():
    level = level_of(curve(100.0, 98.0, 99.0, 97.0), CACHE)
    assert dict(curve(100.0, 98.0, 99.0, 97.0))[level.size] == 98.0


@pytest.mark.parametrize(
    ("values", "word"),
    [((50.0, 80.0, 100.0), "rising"), ((100.0, 99.0, 60.0), "falling"), ((100.0, 60.0, 55.0), "falling")],
)
def test_a_curve_that_still_moves_says_so_and_is_reported_at_its_end(values, word):
    level = level_of(curve(*values), CACHE)
    assert level.size == 16 * CACHE
    assert level.sizes == ()
    assert word in level.because
    assert level.facts(None) == {"absent": level.because}


def test_one_large_size_shows_no_level():
    level = level_of([(MIB, 300.0), *curve(100.0)], CACHE)
    assert level.size == 4 * CACHE
    assert "only one size" in level.because


def test_sizes_that_all_fit_the_cache_say_nothing_about_memory():
    level = level_of([(MIB, 300.0), (CACHE, 250.0)], CACHE)
    assert level.size is None
    assert f"{TIMES_CACHE * CACHE:,}" in level.because
    assert f"{CACHE:,}" in level.because


def test_where_the_cache_is_unknown_the_level_end_counts():
    points = [(MIB, 900.0), (8 * MIB, 400.0), (64 * MIB, 101.0), (128 * MIB, 100.0), (256 * MIB, 99.0)]
    level = level_of(points, None)
    assert level.sizes == (64 * MIB, 128 * MIB, 256 * MIB)
    assert level.size == 128 * MIB
    moving = level_of([(MIB, 900.0), (8 * MIB, 400.0)], None)
    assert (moving.size, moving.sizes) == (8 * MIB, ())
    assert "falling" in moving.because


def test_nothing_measured_is_nothing_reported():
    assert level_of([], CACHE).size is None


@given(
    st.lists(st.tuples(st.integers(1, 2**40), st.floats(0.1, 1e4)), min_size=1, max_size=12, unique_by=lambda p: p[0]),
    st.one_of(st.none(), st.integers(1, 2**30)),
)
def test_whatever_the_curve(points, cache):
    level = level_of(points, cache)
    values = dict(points)
    large = [size for size in values if cache is None or size >= TIMES_CACHE * cache]
    assert (level.size is None) == (not large)
    assert bool(level.because) == (not level.sizes)
    if level.size is None:
        return
    assert level.size in large
    if level.sizes:
        assert level.size in level.sizes
        assert set(level.sizes) <= set(large)
        assert len(level.sizes) >= 2
        assert max(large) in level.sizes
        around = [values[size] for size in level.sizes]
        assert min(around) <= values[level.size] <= max(around)
        # The two ends of a plateau without a known cache lie on both sides of its last size.
        apart = WITHIN if cache is not None else 2 * WITHIN / (1 + WITHIN)
        assert min(around) >= (1 - apart) * max(around) * (1 - 1e-12)
    else:
        assert level.size == max(large)


@given(st.lists(st.floats(95.5, 100.0), min_size=2, max_size=8), st.permutations(range(8)))
def test_level_noise_always_has_a_plateau(values, order):
    points = curve(*values)
    shuffled = [points[place] for place in order if place < len(points)]
    level = level_of(shuffled, CACHE)
    assert len(level.sizes) == len(values)
