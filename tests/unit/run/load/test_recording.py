"""Answers lie in a file that is mapped: what was read takes no memory any more, and can be read again."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.run.targets.served.building import Book, ns

from assay.errors import MeasureError
from assay.run.load.http.recording import NEVER, WARMUP, mapped, read_requests, requests_of, write_requests

ANSWERS, LENGTH = 64, 1 << 18


@pytest.fixture
def recording(tmp_path):
    made = Book()
    for number in range(ANSWERS):
        made.add([(1.0, bytes([number]) * LENGTH)], due=float(number))
    found = made.recording()
    path = tmp_path / "bodies"
    path.write_bytes(found.content)
    file = os.open(path, os.O_RDONLY)
    try:
        yield replace(found, content=mapped(file))
    finally:
        os.close(file)


def mapped_kb(name: str) -> int:
    """Pages of a file that this process has in memory."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.endswith(name):
            inside = True
        elif inside and line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError(f"{name} is not mapped")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages are in memory")
def test_what_was_read_takes_no_memory_any_more(recording):
    assert all(bytes(recording.body_of(row)) == bytes([row]) * LENGTH for row in range(ANSWERS))
    whole = mapped_kb("/bodies")
    assert whole >= ANSWERS * LENGTH // 1024
    recording.let_go(ANSWERS // 2)
    assert mapped_kb("/bodies") <= whole // 2 + 64
    recording.let_go(ANSWERS)
    assert mapped_kb("/bodies") <= 64


def test_it_can_be_read_again(recording):
    recording.let_go(ANSWERS)
    assert all(bytes(recording.body_of(row)) == bytes([row]) * LENGTH for row in range(ANSWERS))


def test_answers_in_memory_of_our_own_stay():
    made = Book().add([(1.0, b"x" * LENGTH)]).add([(1.0, b"y" * LENGTH)], due=5.0).recording()
    made.let_go(2)
    assert bytes(made.body_of(1)) == b"y" * LENGTH


def columns(book, window=(0.0, 100.0), **more):
    recording = book.recording(window)
    known = np.arange(len(recording), dtype=np.int32)
    return requests_of(recording, recording.outcome, input_tokens=known, output_tokens=known - 1, **more)


def book():
    found = Book().add([(5.0, b"a"), (20.4, b"bb")], due=10.0).add(due=30.0, outcome="skipped")
    return found.add([(5.0, b"c")], due=-50.0, phase=WARMUP).add([(90.0, b"late")], due=60.0)


def test_times_count_from_the_window_and_what_never_was_is_distinguished():
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
