"""Whether a part works is asked of that part, and not of whoever has its address."""

from __future__ import annotations

import pytest
from tests.support.running_server import RunningServer

from assay.infra.processes.parts import server
from assay.serve.settings import ServerSettings

pytestmark = pytest.mark.live


@pytest.fixture
def started(tmp_path):
    """Starts servers, each with a folder of its own."""
    made: list[RunningServer] = []

    def start(**settings) -> RunningServer:
        folder = tmp_path / str(len(made))
        made.append(RunningServer(ServerSettings(folder=folder, port=0, **settings)))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def test_the_server_of_a_system_is_healthy(started):
    one = started(open=False)
    assert server(one.url, one.token("reader")) is None


def test_a_server_that_is_open_is_another_one(started):
    one = started()
    one.token("admin")
    assert server(one.url, one.token("reader")) == f"another server than this system's answers at {one.url}"


def test_a_server_that_does_not_know_its_token_is_another_one(started):
    one = started(open=False)
    one.token("admin")
    assert "another server" in (server(one.url, "assay_of-somebody-else") or "")
