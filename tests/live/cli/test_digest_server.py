"""The same digest from a store and from a real server on that store."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.live.test_simulating import FIRST, SMALL
from typer.testing import CliRunner

from assay.alert.digest.material import read
from assay.api.server_source import ServerSource
from assay.api.store_source import StoreSource
from assay.cli.main import app
from assay.demo.replay import DetectionObserver, play
from assay.place.fleet.client import FleetClient
from assay.series.repository import SeriesStore
from assay.sim.history import History
from assay.store.store import Store

pytestmark = pytest.mark.live
DAY = 86_400.0


@pytest.fixture
def folder(tmp_path):
    """A store with 57 nights, one of the last with a failed job."""
    place = tmp_path / "server"
    store = Store(place)
    play(History.model_validate_json(json.dumps(SMALL | {"nights": 57})), store, DetectionObserver(), FIRST)
    known = SeriesStore(store)
    known.expect(known.findings()[0].id)
    store.close()
    return place


def test_a_server_reports_the_same_as_its_store(folder, serve):
    since, until = FIRST.timestamp(), FIRST.timestamp() + 57 * DAY
    store = Store(folder)
    local = read(StoreSource(store), since, until)
    store.close()
    server = serve(folder=folder)
    remote = read(ServerSource(FleetClient(server.url, None)), since, until)

    def plain(material):
        """Without what must differ: where it was read, and the ways to results."""
        moved = tuple(replace(one, good=None, bad=None) for one in material.movements)
        failed = tuple(replace(one, link=None) for one in material.failed)
        return replace(
            material,
            source="",
            movements=moved,
            failed=failed,
            alerts=tuple(replace(one, href="") for one in material.alerts),
        )

    assert plain(remote.material) == plain(local.material)
    assert remote.spots == local.spots
    assert len(local.material.movements) == 4
    assert local.material.failed
    assert local.material.alerts
    links = {one.bad.href for one in remote.material.movements}
    assert all(server.client.get(link.partition("/api/v1")[2]).status_code == 200 for link in links)

    done = CliRunner().invoke(
        app,
        ["report", "--since", "30d", "--until", "2025-02-27", "--server", server.url, "--format", "md", "--out", "-"],
    )
    assert done.exit_code == 0, done.output
    assert f"from `{server.url}`" in done.output
    assert "environment: driver 550 → 560" in done.output


def test_a_server_that_needs_a_token_says_so(serve, monkeypatch):
    monkeypatch.delenv("ASSAY_TOKEN", raising=False)
    server = serve(open=False)
    done = CliRunner().invoke(app, ["report", "--since", "7d", "--server", server.url, "--out", "-"])
    assert done.exception is not None
    assert "token" in str(done.exception)
