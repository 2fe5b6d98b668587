"""One agent cannot act as another: not with a token of its own, not with the id that everybody can read."""

import httpx
import pytest
from tests.live.serve.setups import Agent, enrolment, is_problem, result_of, submit

from assay.place.fleet.client import FleetClient, RefusedError
from assay.place.fleet.protocol import Enrolment, Heartbeat, Held, LeaseRequest
from assay.place.needs import Profile

PROFILE = Profile("victim", "linux", 4, 8 * 2**30, {"onnxruntime": "1.20"}, {"onnxruntime": {"cpu": "CPU"}})


@pytest.fixture(params=["closed", "open"])
def fleet(request, serve):
    """A server, a victim that holds a job, and an attacker with the token of another agent."""
    server = serve(open=request.param == "open")
    shared = server.token("agent")  # one token for the whole fleet, as Compose and Helm have it
    admin = server.with_token(server.token("admin"))
    submit(admin)
    victim = FleetClient(server.url, shared)
    agent = victim.enroll(Enrolment("0123456789abcdef" * 2, "victim", PROFILE)).agent
    lease = victim.lease(agent, LeaseRequest())
    attacker = server.with_token(shared)
    Agent(attacker, "attacker")
    yield server, victim, agent, lease, attacker
    victim.close()


def attempts(agent, lease):
    """Everything that one may say in the name of an agent."""
    at = f"/jobs/{lease.job.id}/attempts/{lease.fence}"
    return {
        "heartbeat": ("POST", f"/agents/{agent}/heartbeat", {"json": {"state": "faulty", "held": []}}),
        "lease": ("POST", f"/agents/{agent}/lease", {"json": {"wait_s": 0}}),
        "queues": ("GET", f"/agents/{agent}/queues", {}),
        "claim": ("POST", f"/agents/{agent}/claim", {"json": {"job": lease.job.id, "fence": lease.fence}}),
        "progress": ("POST", f"{at}/progress", {"json": {"agent": agent, "log": ["forged"]}}),
        "release": ("POST", f"{at}/release", {"json": {"agent": agent, "reason": "forged", "crashed": True}}),
        "result": ("PUT", f"{at}/result", {"params": {"agent": agent}, "json": result_of(lease.job)}),
        "attach": ("PUT", f"{at}/artefacts/x", {"params": {"agent": agent, "sha256": "0" * 64}}),
    }


@pytest.mark.live
def test_nobody_acts_as_an_agent_without_its_key(fleet):
    server, victim, agent, lease, attacker = fleet
    for name, (method, path, more) in attempts(agent, lease).items():
        for headers in ({}, {"Assay-Agent-Key": "0" * 64}):
            refused = is_problem(attacker.request(method, path, headers=headers, **more), 403, "agent-key")
            assert agent in refused["detail"], name
    sark = httpx.put(
        f"{server.url}/api/workers/{agent}/status", json={"status": "faulty"}, headers=attacker.headers, timeout=60
    )
    assert sark.status_code == 403
    answer = victim.heartbeat(agent, Heartbeat("busy", (Held(lease.job.id, lease.fence),)))
    assert answer.lost == ()
    assert server.state.kept.control.agent(agent).state == "busy"


@pytest.mark.live
def test_an_enrolment_without_the_key_takes_no_agent_over(fleet):
    server, _, agent, _, attacker = fleet
    known = enrolment("victim", identity="0123456789abcdef" * 2)
    is_problem(attacker.post("/agents", json=known), 403, "agent-key")
    is_problem(attacker.post("/agents", json=known, headers={"Assay-Agent-Key": "1" * 64}), 403, "agent-key")
    assert server.state.kept.control.agent(agent).profile.memory_bytes == PROFILE.memory_bytes


@pytest.mark.live
def test_an_agent_that_starts_again_is_the_same_and_so_is_one_that_was_enrolled_before_there_were_keys(fleet):
    server, _, agent, lease, attacker = fleet
    again = FleetClient(server.url, server.token("agent"))
    assert again.enroll(Enrolment("0123456789abcdef" * 2, "victim", PROFILE)).agent == agent
    assert again.heartbeat(agent, Heartbeat("busy", (Held(lease.job.id, lease.fence),))).lost == ()
    old = Agent(attacker, "old")  # sends no key
    assert old.beat(state="active").status_code == 200
    updated = FleetClient(server.url, server.token("agent"))
    assert updated.enroll(Enrolment("identity of old", "old", PROFILE)).agent == old.id
    is_problem(old.beat(state="faulty"), 403, "agent-key")
    updated.close()
    again.close()


@pytest.mark.live
def test_a_user_is_no_agent(serve):
    server = serve(open=False)
    user = FleetClient(server.url, server.token("user"))
    with pytest.raises(RefusedError, match="agent"):
        user.enroll(Enrolment("0123456789abcdef" * 2, "box", PROFILE))
    user.close()
