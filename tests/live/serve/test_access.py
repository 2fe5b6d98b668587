"""Who may do what: every route, with every role and with none."""

import re
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.live.serve.setups import enrolment, is_problem
from tests.support.running_server import PATIENCE_S, RunningServer

from assay.errors import UsageError
from assay.place.fleet.client import FleetClient
from assay.serve.app import ROUTERS, create_app
from assay.serve.settings import ServerSettings
from assay.serve.web.access import Allow, MetricsAccess, Public

ROLES = ("reader", "user", "admin", "agent")
# What a role may do that the route's own word would forbid it.
PUBLIC = {"/api/v1/health", "/api/v1/ready", "/api/v1/openapi.json", "/api/v1/docs", "/api/v1/docs/document.json",
          "/api/v1/docs/start.js", "/api/v1/docs/{name}"}  # fmt: skip
FOR_AGENTS = {
    ("POST", "/api/v1/agents"), ("POST", "/api/v1/agents/{agent}/heartbeat"), ("POST", "/api/v1/agents/{agent}/lease"),
    ("POST", "/api/v1/agents/{agent}/claim"), ("GET", "/api/v1/agents/{agent}/queues"),
    ("POST", "/api/v1/jobs/{job}/attempts/{fence}/progress"),
    ("POST", "/api/v1/jobs/{job}/attempts/{fence}/release"), ("PUT", "/api/v1/jobs/{job}/attempts/{fence}/result"),
    ("PUT", "/api/v1/jobs/{job}/attempts/{fence}/artefacts/{name}"), ("GET", "/api/v1/artefacts/{sha256}"),
    ("HEAD", "/api/v1/artefacts/{sha256}"), ("PUT", "/api/v1/artefacts/{sha256}"),
}  # fmt: skip


def routes():
    """Every route of the application, however deep it was included."""
    found = []

    def walk(router):
        for route in router.routes:
            if isinstance(route, APIRoute):
                found.append(route)
            elif hasattr(route, "original_router"):
                walk(route.original_router)

    walk(create_app(ServerSettings()))
    return found


def gates(route):
    """What decides about a route."""
    return [one.call for one in route.dependant.dependencies if isinstance(one.call, Allow | Public)]


ALL = [(method, route) for route in routes() for method in sorted(route.methods)]
OURS = [(method, route) for method, route in ALL if route.path.startswith("/api/v1") or route.path == "/metrics"]
IDS = [f"{method} {route.path}" for method, route in ALL]


def test_every_route_is_found():
    listed = {(tuple(sorted(route.methods)), route.path) for router in ROUTERS for route in router.routes}
    assert {(tuple(sorted(route.methods)), route.path) for route in routes()} >= listed
    assert len(listed) > 50


@pytest.mark.parametrize(("method", "route"), ALL, ids=IDS)
def test_every_route_names_who_may_use_it(method, route):
    decided = gates(route)
    assert decided, f"{method} {route.path} does not say who may use it"
    if route.path.startswith("/api/v1") and any(isinstance(one, Public) for one in decided):
        assert route.path in PUBLIC


@pytest.mark.parametrize(("method", "route"), OURS, ids=[f"{method} {route.path}" for method, route in OURS])
def test_a_reader_changes_nothing_and_an_agent_does_only_its_work(method, route):
    allowed = (
        set.intersection(*(set(one.roles) for one in gates(route) if isinstance(one, Allow)))
        if any(isinstance(one, Allow) for one in gates(route))
        else set(ROLES)
    )
    if method not in ("GET", "HEAD"):
        assert "reader" not in allowed
    if route.path not in PUBLIC:
        assert ("agent" in allowed) == ((method, route.path) in FOR_AGENTS)
    assert "admin" in allowed
    assert "reader" not in allowed or "user" in allowed


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A server that asks for tokens, and one token of each role."""
    server = RunningServer(ServerSettings(port=0, folder=tmp_path_factory.mktemp("closed"), open=False))
    yield server, {role: server.token(role) for role in ROLES}
    server.stop()


@pytest.fixture(scope="module")
def client():
    with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
        yield client


def call(client, server, method, route, secret):
    path = re.sub(r"\{fence\}|\{run\}", "1", route.path)
    path = re.sub(r"\{sha256\}", "0" * 64, path)
    path = re.sub(r"\{form\}", "csv", path)
    path = re.sub(r"\{[^}]*\}", "none", path)
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return client.request(method, f"{server.url}{path}", headers=headers)


@pytest.mark.live
@pytest.mark.parametrize(("method", "route"), ALL, ids=IDS)
def test_without_the_right_token_nothing_is_done(closed, client, method, route):
    server, tokens = closed
    if any(isinstance(gate, Public | MetricsAccess) for gate in gates(route)) or "events" in route.path:
        pytest.skip("open to everybody here, or a stream: tested elsewhere")
    for secret in (None, "assay_wrong", tokens["admin"] + "x", ""):
        answer = call(client, server, method, route, secret)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    gate = next(one for one in gates(route) if isinstance(one, Allow))
    for role in ROLES:
        answer = call(client, server, method, route, tokens[role])
        assert (answer.status_code == 403) == (role not in gate.roles), (role, answer.text)


@pytest.mark.live
def test_a_stream_needs_a_token_too(closed):
    server, tokens = closed
    for secret, status in ((None, 401), (tokens["agent"], 403)):
        is_problem(server.with_token(secret).get("/events"), status, "unauthorized" if status == 401 else "forbidden")
    with server.with_token(tokens["reader"]).stream("GET", "/events") as answer:
        assert answer.status_code == 200


@pytest.mark.live
def test_a_token_comes_by_the_header_alone(closed):
    server, tokens = closed
    secret = tokens["admin"]
    client = server.with_token(None)
    assert client.get("/campaigns", params={"token": secret, "access_token": secret}).status_code == 401
    assert client.get("/campaigns", headers={"Cookie": f"token={secret}; Authorization={secret}"}).status_code == 401
    assert client.get("/campaigns", headers={"Authorization": f"Basic {secret}"}).status_code == 401
    assert client.get("/campaigns", headers={"Authorization": f"bearer {secret}"}).status_code == 200


@pytest.mark.live
def test_tokens_are_made_used_and_revoked(closed):
    server, tokens = closed
    admin = server.with_token(tokens["admin"])
    made = admin.post("/tokens", json={"name": "ci", "role": "reader"})
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert server.with_token(secret).get("/campaigns").status_code == 200
    listed = admin.get("/tokens")
    assert secret not in listed.text
    assert "hash" not in listed.text
    assert "ci" in [one["name"] for one in listed.json()["items"]]
    assert admin.delete(f"/tokens/{made.json()['token']['id']}").status_code == 204
    assert server.with_token(secret).get("/campaigns").status_code == 401
    is_problem(admin.delete("/tokens/none"), 404, "unknown-token")
    is_problem(admin.post("/tokens", json={"name": "x", "role": "king"}), 422, "request")
    is_problem(admin.post("/tokens", json={"name": "x", "role": "user", "expires_in_s": -1}), 422, "request")
    is_problem(admin.post("/tokens", json={"name": " ", "role": "user"}), 400, "name")
    short = admin.post("/tokens", json={"name": "short", "role": "reader", "expires_in_s": 0.001}).json()["secret"]
    assert server.with_token(short).get("/campaigns").status_code == 401


@pytest.mark.live
def test_the_token_of_the_settings_is_admin(serve):
    server = serve(token="a token from the environment")
    assert server.client.get("/campaigns").status_code == 401
    assert server.with_token("a token from the environment").get("/tokens").status_code == 200


@pytest.mark.live
def test_a_server_with_tokens_does_not_start_open(serve):
    first = serve()
    assert first.client.get("/tokens").status_code == 200
    first.token("admin")
    first.stop()
    again = serve()
    assert again.client.get("/tokens").status_code == 401


@pytest.mark.live
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_an_open_server_does_nothing_for_a_web_page_of_others(server, headers):
    answer = server.client.post("/agents", json=enrolment(), headers=headers)
    is_problem(answer, 403, "foreign")
    assert server.client.get("/agents").json()["items"] == []
    own = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.client.post("/agents", json=enrolment(), headers=own).status_code == 201


FORWARDED = {
    "X-Forwarded-For": "203.0.113.7",
    "X-Forwarded-Host": "bench.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Prefix": "/assay",
    "Forwarded": "for=203.0.113.7;proto=https",
    "X-Real-IP": "203.0.113.7",
    "Via": "1.1 proxy",
    "CF-Connecting-IP": "203.0.113.7",
}


@pytest.mark.live
@pytest.mark.parametrize("name", FORWARDED)
@pytest.mark.parametrize("chosen", [None, True], ids=["open by itself", "opened by --open"])
def test_an_open_server_refuses_what_a_proxy_forwards(serve, name, chosen):
    server = serve(open=chosen)
    sent = {name: FORWARDED[name], "Host": f"127.0.0.1:{server.port}"}
    refused = is_problem(server.client.get("/tokens", headers=sent), 403, "forwarded")
    assert name.lower() in refused["detail"]
    assert "open" in refused["detail"]
    assert "--closed" in refused["try"]
    assert httpx.get(f"{server.url}/metrics", headers=sent, trust_env=False, timeout=60).status_code == 403
    assert server.client.get("/tokens").status_code == 200


@pytest.mark.live
def test_a_closed_server_on_loopback_works_behind_a_proxy(serve):
    server = serve(open=False)
    client = server.with_token(server.token("reader"))
    assert client.get("/campaigns", headers=FORWARDED).status_code == 200


@pytest.mark.live
def test_revoking_the_last_token_does_not_open_the_server_at_its_next_start(serve):
    first = serve()
    token, _ = first.state.kept.tokens.create("the only one", "admin")
    first.state.kept.tokens.revoke(token.id)
    first.stop()
    again = serve()
    assert again.client.get("/tokens").status_code == 401
    again.stop()
    assert serve(open=True).client.get("/tokens").status_code == 200


@pytest.mark.live
def test_a_server_whose_token_was_in_the_settings_does_not_start_open_without_it(serve):
    serve(token="a token from the environment").stop()
    assert serve().client.get("/tokens").status_code == 401


@pytest.mark.live
def test_other_origins_are_closed_unless_named(serve):
    asked = {"Origin": "https://board.example", "Access-Control-Request-Method": "GET"}
    closed = serve()
    assert "access-control-allow-origin" not in closed.client.options("/campaigns", headers=asked).headers
    closed.stop()
    named = serve(cors_origins=("https://board.example",))
    answer = named.client.options("/campaigns", headers=asked)
    assert answer.headers["access-control-allow-origin"] == "https://board.example"
    assert named.client.get("/campaigns", headers={"Origin": "https://board.example"}).status_code == 200


@pytest.mark.live
def test_metrics_need_a_reader_where_others_can_ask(serve):
    server = serve(host="0.0.0.0", token="the admin token of this test")
    assert httpx.get(f"{server.url}/metrics", timeout=60).status_code == 401
    agent = server.token("agent")
    assert (
        httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {agent}"}, timeout=60).status_code == 403
    )
    reader = server.token("reader")
    assert (
        httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {reader}"}, timeout=60).status_code == 200
    )


@pytest.mark.live
def test_metrics_need_a_token_on_loopback_too_once_there_are_tokens(serve):
    server = serve(open=False)
    assert httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).status_code == 401
    reader = {"Authorization": f"Bearer {server.token('reader')}"}
    assert httpx.get(f"{server.url}/metrics", headers=reader, trust_env=False, timeout=60).status_code == 200


@pytest.mark.live
def test_metrics_are_open_to_everybody_where_the_settings_say_so(serve):
    server = serve(open=False, open_metrics=True)
    assert httpx.get(f"{server.url}/metrics", headers=FORWARDED, trust_env=False, timeout=60).status_code == 200
    assert server.client.get("/campaigns").status_code == 401


def test_users_of_our_client_learn_how_to_give_a_token(closed):
    with pytest.raises(UsageError, match="ASSAY_TOKEN"):
        FleetClient(closed[0].url).get("/campaigns")


def test_the_guide_says_what_a_user_may_do_with_agents():
    """Adding and removing agents is for an admin alone; the table of the guide must not promise more."""
    page = (Path(__file__).parents[3] / "docs/how-to/secure-a-server.md").read_text()
    rows = {row[0].strip(" `"): row[1] for line in page.splitlines() if (row := line.strip("|").split("|"))[1:]}
    roles = {
        (method, route.path): {role for one in gates(route) for role in one.roles}
        for method, route in OURS
        if route.path.startswith("/api/v1/agents")
    }
    assert roles["DELETE", "/api/v1/agents/{agent}"] == roles["POST", "/api/v1/agents/add"] == {"admin"}
    assert {"user", "admin"} <= roles["PATCH", "/api/v1/agents/{agent}"]
    assert "manage agents" not in rows["user"]
    assert "label, drain, resume and reset agents" in rows["user"]
    assert "add and remove agents" in rows["admin"]
