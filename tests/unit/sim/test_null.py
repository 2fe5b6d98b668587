"""The server that does nothing but answer."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from tests.support.simulated import null_server
from tests.unit.sim.raw import CHAT, Raw, chat, fetch, get, post

pytestmark = pytest.mark.live


@pytest.mark.parametrize("pieces", [1, 32, 500])
def test_as_many_pieces_as_requested(pieces):
    with null_server(pieces=pieces) as sim, Raw(sim) as raw:
        for _ in range(3):
            raw.send(post(CHAT, chat("word " * 20_000)))
            answer = raw.answer()
            assert len(answer.chunks) == pieces + 1
            assert answer.events[-1] == "[DONE]"
            assert answer.events[-2]["choices"][0]["finish_reason"] == "stop"


def test_one_body():
    with null_server(pieces=0) as sim:
        assert fetch(sim, "/x").json == {"ok": True}


def test_requests_in_any_pieces():
    data = post(CHAT, chat()) + get("/") + post(CHAT, chat())
    with null_server(pieces=2) as sim, Raw(sim) as raw:
        for at in range(0, len(data), 11):
            raw.send(data[at : at + 11])
        for _ in range(3):
            assert len(raw.answer().chunks) == 3


def test_clients_come_and_go():
    with null_server(pieces=1) as sim:
        for _ in range(20):
            with Raw(sim) as raw:
                raw.send(get("/")[:10])
        assert fetch(sim, "/").status == 200


def test_it_is_there_in_no_time_and_loads_nothing():
    begin = time.monotonic()
    with null_server():
        assert time.monotonic() - begin < 10
    done = subprocess.run(
        [sys.executable, "-c", "import assay.sim.null, sys; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pydantic", "typer", "numpy", "httptools", "asyncio", "ssl", "argparse"}


@pytest.mark.parametrize("words", [["--pieces"], ["--pieces", "x"], ["--what", "1"], ["5"]])
def test_flags_that_are_wrong(words):
    done = subprocess.run([sys.executable, "-m", "assay.sim.null", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage:" in done.stderr
