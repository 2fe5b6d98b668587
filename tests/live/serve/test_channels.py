"""Channels as the settings page shows them: where they send to without any secret, how it goes, and a test."""

import json

import pytest
from tests.live.serve.setups import is_problem
from tests.live.serve.test_notifying import alert, keep_alerts, outbox
from tests.support.running_server import wait_for
from tests.unit.alert.notify.receivers import Reply, receiving
from tests.unit.alert.notify.samples import ALERT

from assay.alert.message import new_notice
from assay.alert.notify.channels import read_channels
from assay.serve.routes.alerts import place_of

pytestmark = pytest.mark.live


@pytest.fixture
def start(serve, write):
    """A server with channels, as their file says."""

    def begin(channels, **settings):
        server = serve(channels=write("channels.json", json.dumps(channels)), **settings)
        server.app.state.notifying.every_s = 0.05
        return server

    return begin


def test_a_server_without_channels_has_none(server):
    assert server.client.get("/channels").json() == {"items": [], "next": None}
    is_problem(server.client.post("/channels/team/test"), 404, "unknown-channel")


def test_a_test_message_is_sent_at_once(start):
    with receiving() as hook:
        client = start({"hook": {"kind": "webhook", "url": hook.url}}).client
        assert client.post("/channels/hook/test").json() == {"sent": True, "says": "the test message was taken"}
        (sent,) = hook.received
        assert sent.document()["event"] == "test"
        (one,) = client.get("/channels").json()["items"]
        assert (one["name"], one["kind"], one["to"], one["state"]) == ("hook", "webhook", "127.0.0.1", "unused")


def test_a_test_that_fails_says_why_and_reports_no_secret(start, monkeypatch):
    monkeypatch.setenv("HOOK", "s3cret-path")
    with receiving(Reply(403, body=b"s3cret-path is not welcome")) as hook:
        client = start({"hook": {"kind": "webhook", "url": f"{hook.url}/${{env:HOOK}}"}}).client
        told = client.post("/channels/hook/test").json()
        assert told["sent"] is False
        assert "403" in told["says"]
        for answer in (client.post("/channels/hook/test"), client.get("/channels")):
            assert "s3cret" not in answer.text


def test_how_it_goes_with_a_channel(start):
    with receiving(Reply(200), Reply(400, body=b"no")) as hook:
        server = start({"hook": {"kind": "webhook", "url": hook.url}, "spare": {"kind": "webhook", "url": hook.url}})
        client = server.client
        later = alert(7)
        keep_alerts(server.state.kept.store, ALERT, later)
        outbox(server).put([new_notice(ALERT, "hook")])

        def hooked():
            return {one["name"]: one for one in client.get("/channels").json()["items"]}

        wait_for(lambda: hooked()["hook"]["state"] == "ok", what="the first is taken")
        assert hooked()["hook"]["last_sent"] == pytest.approx(server.state.clock.utc().timestamp(), abs=30)
        assert (hooked()["spare"]["state"], hooked()["spare"]["last_sent"]) == ("unused", None)
        outbox(server).put([new_notice(later, "hook")])
        told = wait_for(lambda: (one := hooked()["hook"])["state"] == "failing" and one, what="the second is refused")
        assert "400" in told["failing"]
        assert told["last_sent"] is not None


@pytest.mark.parametrize(("channel", "place"), [
    ({"kind": "slack", "url": "https://chat.example.com/hooks/${env:TOKEN}"}, "chat.example.com"),
    ({"kind": "slack", "url": "${env:TOKEN}"}, "a secret address"),
    ({"kind": "slack", "url": "https://${env:TOKEN}/x"}, "a secret address"),
    ({"kind": "email", "host": "mail.example.com", "from": "a@example.com",
      "to": ["b@example.com", "c@example.com", "d@example.com", "e@example.com"]},
     "b@example.com, c@example.com, d@example.com and 1 more"),
    ({"kind": "github", "repository": "example/engine", "token": "${env:TOKEN}"}, "example/engine on api.github.com"),
    ({"kind": "gitlab", "project": "group/engine", "token": "${env:TOKEN}"}, "group/engine on gitlab.com"),
    ({"kind": "command", "command": ["/opt/page", "--key", "abc"]}, "page"),
])  # fmt: skip
def test_where_a_channel_sends_to(write, channel, place):
    path = write("channels.json", json.dumps({"one": channel}))
    assert place_of(read_channels(path, {"TOKEN": "x"})["one"]) == place


def test_only_an_admin_sends_a_test(serve, write):
    server = serve(
        open=False, channels=write("channels.json", json.dumps({"one": {"kind": "command", "command": ["true"]}}))
    )
    for role, status in (("reader", 403), ("user", 403), ("admin", 200)):
        answer = server.with_token(server.token(role)).post("/channels/one/test")
        assert answer.status_code == status
    assert server.with_token(server.token("reader")).get("/channels").json()["items"][0]["to"] == "true"
