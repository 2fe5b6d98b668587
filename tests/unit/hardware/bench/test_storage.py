"""A large file, read from the disk itself; nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.hardware.bench import storage as module
from assay.hardware.bench.records import BenchOptions
from assay.hardware.bench.storage import forget, resident_share, storage

MIB = 2**20


@pytest.fixture
def small(monkeypatch):
    """Files of a few megabytes: enough to see how it is done."""
    monkeypatch.setattr(module, "LEAST_BYTES", 4 * MIB)
    monkeypatch.setattr(module, "MOST_BYTES", 8 * MIB)
    monkeypatch.setattr(module, "_PIECE", MIB)


def wish(folder, each_s=0.01):
    return BenchOptions(("storage",), each_s=each_s, folder=str(folder))


def on_a_disk(folder) -> bool:
    return not module._place(folder, None)[1]


@pytest.mark.live
def test_a_file_is_read_from_the_disk_and_is_gone_afterwards(tmp_path, small):
    if not on_a_disk(tmp_path):
        pytest.skip("the folder for tests lies in memory")
    found = storage(wish(tmp_path))
    assert list(tmp_path.iterdir()) == []
    if found.reported is None:
        assert "in memory" in found.absent
        return
    assert found.metric == "storage_read_gb_per_s"
    assert 4 * MIB <= found.reported.size <= 8 * MIB
    assert 0.001 < found.reported.value < 1000
    assert len(found.reported.values) >= 3
    assert "ordinary reads" in found.how["read"] or "O_DIRECT" in found.how["read"]


def test_a_folder_in_memory_is_refused(small):
    shm = Path("/dev/shm")
    if not shm.is_dir() or on_a_disk(shm):
        pytest.skip("no folder in memory here")
    found = storage(wish(shm))
    assert found.reported is None
    assert "lies in memory (tmpfs)" in found.absent


def test_a_folder_that_is_not_there_is_named(tmp_path, small):
    assert "is no folder" in storage(wish(tmp_path / "none")).absent


def test_a_nearly_full_disk_is_left_alone(tmp_path, small):
    if not on_a_disk(tmp_path):
        pytest.skip("the folder for tests lies in memory")
    found = storage(wish(tmp_path), usage=lambda _path: (10**12, 39 * MIB))
    assert found.reported is None
    assert "39.0 MiB free" in found.absent


def test_a_tenth_of_what_is_free_bounds_the_file(tmp_path, small):
    if not on_a_disk(tmp_path):
        pytest.skip("the folder for tests lies in memory")
    found = storage(wish(tmp_path), usage=lambda _path: (10**12, 50 * MIB), resident=lambda _fd, _size: 0.0)
    assert found.reported.size == 5 * MIB


def test_a_file_that_stays_in_memory_is_read_past_the_cache_or_not_at_all(tmp_path, small, monkeypatch):
    if not on_a_disk(tmp_path):
        pytest.skip("the folder for tests lies in memory")
    found = storage(wish(tmp_path), resident=lambda _fd, _size: 0.9)
    assert found.reported is None or "O_DIRECT" in found.how["read"]
    monkeypatch.setattr(module, "_goes_direct", lambda _fd: False)
    found = storage(wish(tmp_path), resident=lambda _fd, _size: 0.9)
    assert found.reported is None
    assert "90% of it stay in memory" in found.absent


@pytest.mark.live
def test_the_kernel_reports_what_is_in_memory(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(4 * MIB))
    fd = os.open(path, os.O_RDWR)
    try:
        path.read_bytes()
        warm = resident_share(fd, 4 * MIB)
        if warm is None:
            pytest.skip("this kernel does not tell")
        assert warm > 0.9
        cold = forget(fd, 4 * MIB, resident_share)
        assert cold is not None
        if on_a_disk(tmp_path):
            assert cold < 0.5
    finally:
        os.close(fd)
