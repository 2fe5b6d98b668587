"""Files that leave a pod as lines: they arrive whole or not at all, whatever happens to the lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.engines.kubernetes.pod.log_transport import Contents, Receiver, Sender, is_ours, lines_of, progress_line

NAMES = st.sampled_from(["result.json", "runs/0.json", "samples/ab/abcd.parquet", "files/cd/cdef"])
FILES = st.dictionaries(NAMES, st.binary(max_size=40_000), min_size=1)


def sent(folder: Path, files: dict[str, bytes], budget: float = float("inf")) -> list[str]:
    """The lines that hand out some files."""
    lines: list[str] = []
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    sender = Sender(folder, lines.append, budget)
    sender.send([folder / path for path in files])
    sender.end(60.0)
    return lines


@given(FILES, st.randoms(use_true_random=False), st.integers(0, 3))
@settings(max_examples=60)
def test_lines_in_any_order_and_twice_make_the_same_files(tmp_path_factory, files, rng: random.Random, again: int):
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    lines = sent(here, files)
    assert all(len(line) < 16_384 and "\n" not in line for line in lines)
    mixed = [*lines, *(rng.choice(lines) for _ in range(again)), "words for people", "@assayed is no mark of ours"]
    rng.shuffle(mixed)
    receiver = Receiver(there)
    words = [line for line in mixed if receiver.take(line) == "words"]
    assert sorted(words) == ["@assayed is no mark of ours", "words for people"]
    assert receiver.missing() == ()
    assert {path: (there / path).read_bytes() for path in files} == files
    assert receiver.wrong == []


@given(FILES, st.integers(min_value=0))
@settings(max_examples=60)
def test_a_lost_line_loses_its_file_alone_and_says_so(tmp_path_factory, files, which: int):
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    *lines, end = sent(here, files)
    lost = lines.pop(which % len(lines))
    receiver = Receiver(there)
    for line in (*lines, end):
        receiver.take(line)
    (missing,) = receiver.missing()
    assert not (there / missing.path).exists()
    assert all((there / path).read_bytes() == content for path, content in files.items() if path != missing.path)
    receiver.take(lost)  # read again from the beginning
    assert receiver.missing() == ()


@given(st.text(max_size=200))
def test_no_line_can_break_the_reader(tmp_path_factory, text: str):
    receiver = Receiver(tmp_path_factory.getbasetemp())
    for line in (f"@assay {text}", f"@assay file 0 {text}", f"@assay part 0 0 {text}", f"@assay end {text}"):
        receiver.take(line)
    assert receiver.contents is None or receiver.contents == Contents()


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ".hidden", "a//b", "a/b/c/d/e", "", "a\\b/.."])
def test_no_file_comes_out_of_the_folder(tmp_path, path):
    receiver = Receiver(tmp_path / "out")
    for line in lines_of(b"content", 0, path):
        receiver.take(line)
    assert receiver.wrong
    assert list(tmp_path.rglob("*")) == []


def test_a_changed_part_is_refused(tmp_path):
    announced, part = lines_of(b"content" * 10, 0, "result.json")
    other = next(line for line in lines_of(b"another" * 10, 0, "result.json") if " part " in line)
    receiver = Receiver(tmp_path)
    receiver.take(announced)
    receiver.take(other)
    assert receiver.wrong == ["result.json: its content is another than announced"]
    receiver.take(announced)
    assert receiver.take(part) == "file"


def test_what_does_not_fit_waits(tmp_path):
    noise = random.Random(1).randbytes(50_000)
    lines = sent(tmp_path, {"samples/ab/small": b"1", "samples/ab/large": noise}, budget=10_000)
    receiver = Receiver(tmp_path / "there")
    for line in lines:
        receiver.take(line)
    assert receiver.contents is not None
    assert [one.path for one in receiver.contents.held] == ["samples/ab/large"]
    assert receiver.contents.wait_s == 60.0
    assert [one.path for one in receiver.lacking()] == ["samples/ab/large"]
    assert receiver.missing() == ()


def test_progress_is_no_words(tmp_path):
    line = progress_line({"run": 1, "of": 3, "phase": "measure", "share": 0.5})
    receiver = Receiver(tmp_path)
    assert is_ours(line)
    assert receiver.take(line) == "at"
    assert receiver.progress == {"run": 1, "of": 3, "phase": "measure", "share": 0.5}


def test_a_file_is_sent_once_and_again_when_it_changed(tmp_path):
    lines: list[str] = []
    sender = Sender(tmp_path, lines.append, float("inf"))
    path = tmp_path / "result.json"
    path.write_bytes(b"one")
    sender.send([path, path, tmp_path / "nothing"])
    count = len(lines)
    sender.send([path])
    assert len(lines) == count
    path.write_bytes(b"two")
    sender.send([path])
    receiver = Receiver(tmp_path / "there")
    for line in lines:
        receiver.take(line)
    assert (tmp_path / "there" / "result.json").read_bytes() == b"two"
