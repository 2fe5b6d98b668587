import hashlib
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError, UsageError
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


@settings(max_examples=50)
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

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_whole(tmp_path / "x", b"content")
    assert list(tmp_path.iterdir()) == []


PARQUET = bytes(encode((sample_set("latency_ms", "measure", [1.0, 2.0]),)))
DIGEST = hashlib.sha256(PARQUET).hexdigest()


def test_samples_from_elsewhere_are_kept_as_our_own(tmp_path):
    files = SampleFiles(tmp_path / "samples")
    assert files.accept(PARQUET, DIGEST) == files.accept(PARQUET, DIGEST) == files.path(DIGEST)
    assert files.read(DIGEST)[0].value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("verified", [False, True])
def test_an_uploaded_file_becomes_samples_without_a_second_copy(tmp_path, verified):
    upload = tmp_path / "upload"
    upload.write_bytes(PARQUET)
    kept = SampleFiles(tmp_path / "samples").accept(upload, DIGEST, verified=verified)
    assert kept.samefile(upload)
    upload.unlink()
    assert kept.read_bytes() == PARQUET


@pytest.mark.parametrize(
    ("content", "digest", "code"),
    [
        (PARQUET[:-1], DIGEST, "mismatch"),
        (b"PAR1 and no end", hashlib.sha256(b"PAR1 and no end").hexdigest(), "samples"),
        (b"", hashlib.sha256(b"").hexdigest(), "samples"),
        (PARQUET, "../" * 21 + "x", "digest"),
    ],
)
@pytest.mark.parametrize("by_file", [False, True])
def test_samples_that_are_none_are_refused_and_leave_nothing(tmp_path, content, digest, code, by_file):
    files = SampleFiles(tmp_path / "samples")
    source = tmp_path / "upload"
    source.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        files.accept(source if by_file else content, digest)
    assert caught.value.problem.code == code
    assert not files.folder.exists()
