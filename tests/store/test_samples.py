import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.run.records import SampleSet
from assay.store.samples import SampleFiles, decode, encode, write_whole


def sample_set(metric, phase, values):
    return SampleSet(metric, phase, np.arange(len(values), dtype=np.int64) * 7, np.array(values, dtype=np.float64))


sets = st.lists(
    st.builds(
        sample_set,
        st.sampled_from(["latency_ms", "speed{batch=8}", "ünï"]),
        st.sampled_from(["warmup", "measure"]),
        st.lists(st.floats(), min_size=1, max_size=20),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: (one.metric, one.phase),
)


@settings(max_examples=50, deadline=None)
@given(sets)
def test_what_is_written_is_read_back(given_sets):
    back = decode(encode(tuple(given_sets)))
    assert [(one.metric, one.phase) for one in back] == [(one.metric, one.phase) for one in given_sets]
    for one, other in zip(back, given_sets, strict=True):
        np.testing.assert_array_equal(one.value, other.value)
        np.testing.assert_array_equal(one.at_ns, other.at_ns)


def test_equal_samples_share_one_file(tmp_path):
    files = SampleFiles(tmp_path)
    first = files.write([sample_set("a", "measure", [1.0, 2.0])])
    assert files.write([sample_set("a", "measure", [1.0, 2.0])]) == first
    assert files.write([sample_set("a", "measure", [1.0, 3.0])]) != first
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


def test_no_samples_no_file(tmp_path):
    assert SampleFiles(tmp_path).write([]) is None


def test_a_damaged_file_is_noticed(tmp_path):
    files = SampleFiles(tmp_path)
    digest = files.write([sample_set("a", "measure", [1.0])])
    path = files.path(digest)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match="damaged"):
        files.read(digest)
    path.unlink()
    with pytest.raises(StoreError, match="cannot read"):
        files.read(digest)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    import os

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_whole(tmp_path / "x", b"content")
    assert list(tmp_path.iterdir()) == []
