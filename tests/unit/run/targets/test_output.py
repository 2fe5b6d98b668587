"""A program's output: bounded, with its beginning and its end, and the numbers that it emits."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

import pytest

from assay.run.targets import output
from assay.run.targets.output import EmitPipe, Emitted, OutputCapture, take_line


def kept(tmp_path: Path, *pieces: bytes) -> OutputCapture:
    """What is kept of some pieces of output, once all of them were read."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        found = OutputCapture(pipe, tmp_path / "command.log")
        writer = threading.Thread(target=_write, args=(write, pieces))
        writer.start()
        writer.join()
        found.finish(timeout_s=120)
    return found


def _write(fd: int, pieces: tuple[bytes, ...]) -> None:
    with os.fdopen(fd, "wb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)


def lines(count: int, word: str = "line") -> bytes:
    return b"".join(f"{word} {number:06}\n".encode() for number in range(count))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "HEAD_BYTES", 1000)
    monkeypatch.setattr(output, "TAIL_BYTES", 500)


def test_output_that_fits_is_kept_as_it_came(tmp_path: Path) -> None:
    found = kept(tmp_path, b"speed: 1\n", b"speed: 2")
    assert found.text == "speed: 1\nspeed: 2"
    assert found.dropped == 0
    assert (tmp_path / "command.log").read_bytes() == b"speed: 1\nspeed: 2"


@pytest.mark.usefixtures("small")
def test_of_longer_output_the_beginning_and_the_end_are_kept_and_what_is_missing_is_said(tmp_path: Path) -> None:
    whole = b"first: 1\n" + lines(10_000) + b"last: 2\n"
    found = kept(tmp_path, whole)
    assert found.text.startswith("first: 1\n")
    assert found.text.endswith("last: 2\n")
    assert found.dropped > 0
    said = f"[{found.dropped:,} bytes of output are left out here]\n"
    assert len(found.text.replace(said, "").encode()) + found.dropped == len(whole)
    assert (tmp_path / "command.log").read_text() == found.text
    assert not list(tmp_path.glob("command.log?*"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("extra", range(12))
def test_no_line_is_cut_where_something_is_left_out(tmp_path: Path, extra: int) -> None:
    # A number of which half is missing would be another number.
    found = kept(tmp_path, b"x" * extra + b"\n" + lines(10_000))
    good = {f"line {number:06}" for number in range(10_000)}
    said = [line for line in found.text.splitlines()[1:] if line not in good]
    assert said == [f"[{found.dropped:,} bytes of output are left out here]"]


@pytest.mark.usefixtures("small")
def test_one_line_without_end_is_no_line_of_which_a_number_could_be_read(tmp_path: Path) -> None:
    found = kept(tmp_path, b"7" * 100_000)
    assert found.dropped == 100_000
    assert "7" not in found.text.replace(f"{found.dropped:,}", "")


@pytest.mark.usefixtures("small")
def test_the_end_has_the_time_at_which_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(1)
    monkeypatch.setattr(output, "perf_counter_ns", lambda: next(ticks))
    found = kept(tmp_path, lines(20_000), b"last: 2\n")  # more than one look takes
    pieces = next(ticks) - 1
    assert pieces > 2
    assert found.time_ns(0) == 1
    assert found.time_ns(len(found.text.encode()) - len(b"last: 2\n")) == pieces


# -- emitted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [b'{"a":' * 100_000, b'{"a": [' + b"[" * 100_000, b'{"a": 1' + b"0" * 400 + b"}", b'{"a": 1' + b"0" * 5000 + b"}"],
    ids=["deep", "deep-list", "beyond-float", "beyond-int"],
)  # fmt: skip
@pytest.mark.parametrize("strict", [True, False])
def test_a_line_that_nobody_can_read_is_ordinary_output(line: bytes, strict: bool) -> None:
    found = Emitted()
    take_line(line, 0, found, strict=strict)
    assert found.values == []
    assert len(found.bad_lines) == strict


def test_no_more_lines_than_anybody_reads_are_kept_of_what_cannot_be_read() -> None:
    found = Emitted()
    for _ in range(5000):
        take_line(b"{not json", 0, found)
    assert len(found.bad_lines) == 100


def test_more_values_than_may_be_are_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_VALUES", 10)
    found = Emitted()
    for _ in range(50):
        take_line(b'{"loss": 1, "speed": 2}', 0, found)
    assert 10 < len(found.values) < 13  # so that it can be told


def test_a_line_of_the_pipe_that_never_ends_is_given_up_and_the_next_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_LINE_BYTES", 100_000)
    pipe = EmitPipe(tmp_path)
    with pipe.path.open("wb", buffering=0) as file:
        file.write(b'{"long": 1' + b" " * 300_000 + b"}\n")
        file.write(b'{"loss": 0.5}\n')
    found = pipe.finish()
    assert [(name, value) for name, value, _ in found.values] == [("loss", 0.5)]
    assert len(found.bad_lines) == 1
    assert "100,000 bytes" in found.bad_lines[0]
