"""Free memory and swap, read from recorded machines and containers."""

from __future__ import annotations

from pathlib import Path

import psutil

from assay.hardware.fitness.sensors import memory

GIB = 2**30
PI = {
    "proc/meminfo": "MemTotal:        8245000 kB\nMemFree:  500000 kB\nMemAvailable:    6184000 kB\n"
    "SwapTotal:       2097152 kB\nSwapFree:        1048576 kB\n",
    "proc/vmstat": "nr_free_pages 100\npswpin 120\npswpout 400\n",
}


def test_swap_in_use(tree):
    facts, absent = memory(tree(PI))
    assert facts["total_bytes"] == 8245000 * 1024
    assert facts["available_bytes"] == 6184000 * 1024
    assert facts["swap_used_bytes"] == GIB
    assert facts["swapped_pages"] == 520
    assert not absent


def test_a_container_has_the_memory_of_its_group(tree):
    group = {
        "sys/fs/cgroup/memory.max": str(2 * GIB),
        "sys/fs/cgroup/memory.current": str(2 * GIB - 100_000_000),
        "sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 40000000\n",
    }
    facts, _ = memory(tree(PI | group))
    assert facts["limit_bytes"] == 2 * GIB
    assert facts["available_bytes"] == 140_000_000


def test_a_group_of_the_first_version(tree):
    group = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": str(GIB),
        "sys/fs/cgroup/memory/memory.usage_in_bytes": str(GIB // 2),
    }
    assert memory(tree(PI | group))[0]["available_bytes"] == GIB // 2


def test_a_group_without_a_limit_is_the_whole_machine(tree):
    group = {"sys/fs/cgroup/memory.max": "max", "sys/fs/cgroup/memory.current": "1"}
    facts, _ = memory(tree(PI | group))
    assert "limit_bytes" not in facts
    huge = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}
    assert "limit_bytes" not in memory(tree(PI | huge))[0]


def test_another_system_is_asked_by_its_library(tree):
    facts, _ = memory(tree({}), lambda: (16 * GIB, 4 * GIB, 0, 0))
    assert (facts["total_bytes"], facts["available_bytes"], facts["swap_used_bytes"]) == (16 * GIB, 4 * GIB, 0)
    assert "swapped_pages" not in facts


def test_nothing_is_made_up_where_nothing_is_shown(tree):
    facts, absent = memory(tree({}))
    assert facts == {}
    assert absent["memory"]


def test_this_machine():
    facts, _ = memory(Path("/"))
    assert facts["total_bytes"] == psutil.virtual_memory().total
    assert 0 < facts["available_bytes"] <= facts["total_bytes"]
