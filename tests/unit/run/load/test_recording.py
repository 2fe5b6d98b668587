"""Answers lie in a file that is mapped: what was read takes no memory any more, and can be read again."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.run.targets.served.building import Book

from assay.run.load.http.recording import mapped

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
