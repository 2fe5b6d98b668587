"""A campaign on Kubernetes, told to a real server while it goes on."""

from __future__ import annotations

import httpx
import pytest
from tests.live.kubernetes.conftest import Site

from assay.engines.kubernetes.folder import folder_of

pytestmark = pytest.mark.live


def test_a_server_sees_what_runs_where_and_the_result_and_one_that_died_is_reported_later(
    site: Site, serve_process
) -> None:
    server = serve_process()
    process = site.start(site.waiting(points=2, kubernetes={"at_once": 1}), "--server", server.url)
    site.begun(1)
    campaign = site.newest()
    client = httpx.Client(base_url=f"{server.url}/api/v1", timeout=120, trust_env=False)

    def jobs() -> list[dict]:
        answer = client.get(f"/campaigns/{campaign}")
        return answer.json()["job_list"] if answer.status_code == 200 else []

    site.kube.until(
        "it runs on a node",
        lambda: any(
            one["state"] == "running" and " (Job assay-" in (one["progress"] or {}).get("note", "") for one in jobs()
        ),
    )
    server.kill()
    site.go()
    assert process.wait(120) == 0, site.said()
    assert f"`assay campaigns attach {campaign}` sends it later" in site.said()
    assert site.state(campaign) == "done"
    server.start()
    assert site.assay("campaigns", "attach", campaign).wait(120) == 0, site.said()
    told = client.get(f"/campaigns/{campaign}/result").json()
    assert [job["state"] for job in told["jobs"]] == ["done", "done"]
    assert all(job["metrics"]["x"]["median"] == 3.0 for job in told["jobs"])
    assert client.get(f"/campaigns/{campaign}").json()["state"] == "done"
    assert site.kube.api.left() == []
    assert site.assay("results", "rm", campaign).wait(120) == 0, site.said()
    assert not folder_of(site.store, campaign).path.exists()
