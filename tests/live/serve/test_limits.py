"""Bodies beyond the limit are refused, whether they say how long they are or not."""

import json

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, submit

from assay.serve.settings import ServerSettings
from assay.serve.web.middleware import SizeLimits


def test_each_kind_of_request_has_its_limit():
    limits = SizeLimits.of(ServerSettings(max_body_mb=1, max_result_mb=2, max_artefact_mb=3))
    assert limits.for_request("POST", "/api/v1/campaigns") == 10**6
    assert limits.for_request("PUT", "/api/v1/jobs/c-job-0/attempts/1/result") == 2 * 10**6
    assert limits.for_request("PUT", "/api/v1/artefacts/" + "0" * 64) == 3 * 10**6
    assert limits.for_request("PUT", "/api/v1/jobs/c-job-0/attempts/1/artefacts/x") == 10**6
    assert limits.for_request("POST", "/api/v1/artefacts/" + "0" * 64) == 10**6


@pytest.mark.live
def test_an_oversized_body_is_refused(serve):
    server = serve(max_body_mb=0.01)
    document = {"document": benchmark(description="x" * 20_000)}
    is_problem(server.client.post("/campaigns", json=document), 413, "too-large")
    text = json.dumps(document).encode()
    chunked = server.client.post(
        "/campaigns",
        content=(text[at : at + 100] for at in range(0, len(text), 100)),
        headers={"Content-Type": "application/json"},
    )
    is_problem(chunked, 413, "too-large")
    assert server.client.get("/campaigns").json()["items"] == []


@pytest.mark.live
def test_an_oversized_result_is_refused_and_the_lease_stays(serve):
    server = serve(max_result_mb=0.05)
    agent = Agent(server.client)
    submit(server.client)
    lease = agent.lease()
    is_problem(agent.deliver(lease, {**result_of(lease.job), "environment": {"x": "y" * 60_000}}), 413, "too-large")
    assert agent.deliver(lease).json() == {"delivery": "accepted"}
