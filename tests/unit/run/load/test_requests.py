"""Every request of a load as columns: kept, read back, and the same counts again."""

import numpy as np
import pytest
from tests.unit.run.targets.served.building import Book, ns

from assay.errors import MeasureError
from assay.run.load.http.recording import WARMUP
from assay.run.load.requests import NEVER, read_requests, requests_of, write_requests


def columns(book, window=(0.0, 100.0), **more):
    recording = book.recording(window)
    known = np.arange(len(recording), dtype=np.int32)
    return requests_of(recording, recording.outcome, input_tokens=known, output_tokens=known - 1, **more)


def book():
    found = Book().add([(5.0, b"a"), (20.4, b"bb")], due=10.0).add(due=30.0, outcome="skipped")
    return found.add([(5.0, b"c")], due=-50.0, phase=WARMUP).add([(90.0, b"late")], due=60.0)


def test_times_count_from_the_window_and_what_never_was_is_told_apart():
    found = columns(book())
    assert (found.due_ns / 1e6).tolist() == [10.0, 30.0, -50.0, 60.0]
    assert found.sent_ns.tolist() == [10_000_000, NEVER, -50_000_000, 60_000_000]
    assert found.end_ns.tolist() == [30_400_000, NEVER, -45_000_000, 150_000_000]
    assert found.good.size == found.arrived.size == 0


def test_tokens_are_counted_by_the_millisecond_in_which_they_arrived():
    pieces = book().recording((0.0, 100.0))
    assert pieces.piece_ns[0] == ns(15.0)
    found = columns(book(), piece_tokens=np.array([1, 2, 4, 8], dtype=np.int32))
    assert len(found.arrived) == 100
    assert {int(at): int(found.arrived[at]) for at in np.flatnonzero(found.arrived)} == {15: 1, 30: 2}


def test_columns_survive_their_file(tmp_path):
    good = np.array([True, False, True, False])
    before = columns(book(), good=good, piece_tokens=np.ones(4, dtype=np.int32))
    write_requests(tmp_path / "requests.npz", before)
    after = read_requests((tmp_path / "requests.npz").read_bytes())
    for name in before.__slots__:
        assert np.array_equal(getattr(after, name), getattr(before, name)), name


@pytest.mark.parametrize("content", [b"", b"not a file", b"PK\x03\x04 broken"])
def test_what_is_no_such_file_is_refused(content):
    with pytest.raises(MeasureError, match=r"requests\.npz cannot be read"):
        read_requests(content)
