"""Events for programs: one JSON object per line, whatever the reader does."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.report.live import EventView


class Pipe:
    """Both ends of a pipe."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()

    def events(self) -> list[dict]:
        os.close(self.write_fd)
        with os.fdopen(self.read_fd) as reader:
            return [json.loads(line) for line in reader.read().splitlines() if line]


class Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def pipe():
    return Pipe()


def test_everything_that_can_be_shown_is_sent(pipe, build):
    view = EventView(Path("out/result.json"), pipe.write_fd)
    view.campaign("c-1", 2, 10, "")
    view.job("c-1-job-0", "batch=1", 0, 2)
    view.run(0, 5)
    view.phase("measure")
    view.progress(0.5, "12 ms")
    view.log(["a", "x" * 5000])
    view.run_done(build.done_job().runs[0])
    view.run_done(build.failed_job().runs[0])
    view.note("two\nlines")
    view.job_done(build.suspect_job())
    view.error(StoreError("no room", code="disk", at="/x", try_="free some"))
    view.close()
    events = pipe.events()
    failed = events.pop(7)
    assert (failed["event"], failed["ok"], failed["sentence"][:21]) == ("run_done", False, "error[out-of-memory] ")
    assert events == [
        {"event": "campaign", "campaign": "c-1", "jobs": 2, "runs": 10, "note": ""},
        {"event": "job", "job": "c-1-job-0", "label": "batch=1", "index": 0, "of": 2},
        {"event": "run", "run": 0, "of": 5},
        {"event": "phase", "name": "measure"},
        {"event": "progress", "share": 0.5, "note": "12 ms"},
        {"event": "log", "lines": ["a", "x" * 1000]},
        {"event": "run_done", "run": 0, "ok": True, "sentence": "ok in 4.5 s, 900 samples"},
        {"event": "note", "text": "two\nlines"},
        {"event": "result", "path": "out/result.json", "state": "done", "verdict": "suspect"},
        {"event": "error", "code": "disk", "text": "no room", "at": "/x", "try": "free some"},
    ]


def test_progress_comes_four_times_a_second_and_again_with_each_phase(pipe):
    now = Now()
    view = EventView(Path("r"), pipe.write_fd, now)
    for step in range(100):
        now.s = 100.0 + step / 32  # exact in binary
        view.progress(step / 100, "")
    view.phase("score")
    view.progress(float("nan"), "")
    shares = [event["share"] for event in pipe.events() if event["event"] == "progress"]
    assert len(shares) == 13 + 1
    assert shares[:3] == [0.0, 0.08, 0.16]
    assert shares[-1] == 0.0


def test_a_reader_that_has_gone_disturbs_nothing(pipe):
    view = EventView(Path("r"), pipe.write_fd)
    os.close(pipe.read_fd)
    view.note("nobody hears this")
    view.run(0, 1)
    os.close(pipe.write_fd)
    view.note("not even a closed pipe matters")


def test_a_reader_that_hangs_is_waited_for_once_and_finds_whole_lines_afterwards(pipe):
    view = EventView(Path("r"), pipe.write_fd)
    start = time.monotonic()
    for _ in range(100):
        view.log(["x" * 1000] * 5)
    assert time.monotonic() - start < 10
    os.set_blocking(pipe.read_fd, False)
    taken = b""
    try:
        while True:
            taken += os.read(pipe.read_fd, 65536)
    except BlockingIOError:
        pass
    view.note("back again")
    taken += os.read(pipe.read_fd, 65536)
    *whole, torn, last = [line for line in taken.split(b"\n") if line]
    assert all(json.loads(line)["event"] == "log" for line in whole)
    assert not torn.endswith(b"}")
    assert json.loads(last) == {"event": "note", "text": "back again"}
