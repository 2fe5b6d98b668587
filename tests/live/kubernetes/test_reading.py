"""Logs that are read again and again: each line once, whatever the API gives out twice, late or in pieces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.engines.kubernetes.pod_logs import PodLog, stamp_ns

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


class Log:
    """A node that keeps lines with moments, and gives them out to the second, in pieces that break anywhere."""

    def __init__(self, piece: int) -> None:
        self.lines: list[bytes] = []
        self.piece = piece

    def write(self, at_us: int, text: str) -> None:
        stamp = (BEGIN + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "")
        self.lines.append(f"{stamp}000Z {text}\n".encode())

    def logs(self, *_pod, **_asked):
        content = b"".join(self.lines)
        return iter([content[begin : begin + self.piece] for begin in range(0, len(content), self.piece)])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.text("ab é", max_size=5)), max_size=6), max_size=5),
    st.integers(1, 40),
)
@settings(max_examples=80)
def test_every_line_comes_once(tmp_path_factory, batches, piece):
    log, at_us = Log(piece), 0
    path = tmp_path_factory.mktemp("log") / "words"
    reader = PodLog(log, "pod", "job", path)
    expected = []
    for batch in batches:
        for step, text in batch:
            at_us += step  # several lines may carry the same moment
            log.write(at_us, text)
            expected.append(text)
        assert reader.read() == bool(batch)
        reader.read(whole=True)
    assert (path.read_text().splitlines() if path.exists() else []) == expected


def test_a_reader_that_begins_again_does_not_keep_twice(tmp_path):
    log = Log(7)
    for number in range(3):
        log.write(number, f"line {number}")
    for _ in range(2):
        PodLog(log, "pod", "job", tmp_path / "words").read()
    assert (tmp_path / "words").read_text() == "line 0\nline 1\nline 2\n"


def test_a_line_that_is_not_ended_is_left_for_the_next_time(tmp_path):
    log = Log(100)
    log.write(1, "whole")
    log.lines.append(b"2026-03-01T00:00:00.000002000Z par")
    reader = PodLog(log, "pod", "job", tmp_path / "words")
    reader.read()
    assert (tmp_path / "words").read_text() == "whole\n"
    log.lines[-1] += b"tial\n"
    reader.read()
    assert (tmp_path / "words").read_text() == "whole\npartial\n"


def test_moments_as_nodes_write_them():
    assert stamp_ns("1970-01-01T00:00:01Z") == 10**9
    assert stamp_ns("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert stamp_ns("1970-01-01T01:00:01.000000001+01:00") == 1_000_000_001
    assert stamp_ns("unable") is None
