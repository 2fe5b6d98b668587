"""How a pod hands out what it measured: runs as they end, large files on request, a server where there is one."""

from __future__ import annotations

import json

import pytest

from assay.engines.kubernetes.pod import log_transport as hand
from assay.engines.kubernetes.pod.log_transport import (
    TAKEN,
    Receiver,
    Sender,
    hand_over,
    last_words,
    parcel_of,
    send_left,
    uploader,
)
from assay.errors import MeasureError


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    for name, content in {
        "result.json": "{}",
        "runs/0.json": "{}",
        "samples/ab/abc": "x" * 500,
        "files/.part": "-",
        "samples/incoming/1": "-",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def received(out, lines) -> Receiver:
    found = Receiver(out.parent / "there")
    for line in lines:
        found.take(line)
    return found


def test_documents_go_out_in_any_case_and_what_is_half_written_never(out):
    lines: list[str] = []
    sender = Sender(out, lines.append, budget=0)
    send_left(sender)
    assert [one.path for one in sender.held] == ["samples/ab/abc"]
    sender.end()
    found = received(out, lines)
    assert sorted(path.name for path in found.out.rglob("*") if path.is_file()) == ["0.json", "result.json"]


def test_a_pod_waits_until_another_has_fetched_the_rest(out, capsys):
    lines: list[str] = []
    looked: list[int] = []

    def unless() -> None:
        looked.append(1)
        if len(looked) == 1:
            assert hand.main([], out) == 0
            assert hand.main(["taken"], out) == 0

    contents = hand_over(Sender(out, lines.append, budget=0), 60.0, unless)
    assert contents.wait_s == 60.0
    assert (out / TAKEN).exists()
    found = received(out, [*lines, *capsys.readouterr().out.splitlines()])
    assert (found.out / "samples/ab/abc").read_text() == "x" * 500
    assert len(looked) == 1


def test_nothing_to_fetch_is_nothing_to_wait_for(out):
    hand_over(Sender(out, lambda _line: None, budget=1e6), 60.0, lambda: pytest.fail("it waits"))


def test_a_server_that_takes_nothing_is_asked_once(out, monkeypatch):
    asked, told = [], []

    class Client:
        def __init__(self, url, token):
            assert (url, token) == ("http://server", "secret")

        def has(self, digest):
            asked.append(digest)
            raise MeasureError("it is away")

    monkeypatch.setattr("assay.place.fleet.client.FleetClient", Client)
    upload = uploader("http://server", "secret", told.append)
    path = out / "result.json"
    assert not upload(path, parcel_of(out, path))
    assert not upload(path, parcel_of(out, path))
    assert len(asked) == len(told) == 1
    assert "they go into the log instead" in told[0]


def test_last_words_are_short_and_only_said_where_another_reads_them(tmp_path):
    path = tmp_path / "ended"
    last_words({"ASSAY_POD_ENDED": str(path)}, "failed", "code", "m" * 10_000)
    assert len(path.read_bytes()) < 4096
    assert json.loads(path.read_text())["code"] == "code"
