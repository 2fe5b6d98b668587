"""Alerts and their rules by API: who may, what is answered, and what a running server does by itself."""

from __future__ import annotations

import json
import re
import threading

import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, submit
from tests.support.running_server import PATIENCE_S, wait_for
from tests.unit.alert.setups import failed, limit, rule

from assay.alert.evaluate import evaluate
from assay.clock import SYSTEM_CLOCK
from assay.store.notices import NewNotice, Notices

pytestmark = pytest.mark.live


def opened(server, *events, by=None):
    """Alerts that stand in the store of a server."""
    now = SYSTEM_CLOCK.utc().timestamp()
    from dataclasses import replace

    given = [replace(one, at=now) for one in events or (failed(),)]
    return evaluate(server.state.kept.store, given, [by or rule("job failed")], SYSTEM_CLOCK)


def test_an_alert_is_listed_shown_and_answered(server):
    client = server.client
    (alert,) = opened(server)
    (listed,) = client.get("/alerts").json()["items"]
    assert (listed["id"], listed["state"], listed["title"]) == (alert.id, "open", "chat a failed")
    assert client.get(f"/alerts/{alert.id[:5]}").json() == listed
    answer = client.post(f"/alerts/{alert.id}/acknowledge", json={"why": "mine"})
    assert (answer.status_code, answer.json()["state"], answer.json()["by"]) == (200, "acknowledged", "local")
    assert answer.json()["history"][-1]["why"] == "mine"
    snoozed = client.post(f"/alerts/{alert.id}/snooze", json={"for_s": 3600}).json()
    assert snoozed["snoozed_until"] > SYSTEM_CLOCK.utc().timestamp() + 3500
    assert client.post(f"/alerts/{alert.id}/resolve", json={}).json()["state"] == "resolved"
    is_problem(client.post(f"/alerts/{alert.id}/acknowledge", json={}), 409, "lifecycle")
    assert client.post(f"/alerts/{alert.id}/reopen", json={}).json()["state"] == "open"
    is_problem(client.post(f"/alerts/{alert.id}/expect", json={}), 400, "no-baseline")
    is_problem(client.get("/alerts/0000000000000000"), 404, "unknown-alert")
    is_problem(client.get("/alerts/nonsense"), 404, "unknown-alert")


def test_alerts_are_filtered_and_paged(server):
    for number in range(5):
        opened(server, failed(benchmark=f"b{number}"))
    opened(server, limit(60), by=rule("latency_ms > 50", severity="critical"))
    client = server.client
    first = client.get("/alerts", params={"limit": 4}).json()
    rest = client.get("/alerts", params={"limit": 4, "cursor": first["next"]}).json()
    names = [one["id"] for page in (first, rest) for one in page["items"]]
    assert (len(names), len(set(names)), rest["next"]) == (6, 6, None)
    for asked, count in (
        ({"severity": "critical"}, 1),
        ({"benchmark": "b3"}, 1),
        ({"text": "limit of 50"}, 1),
        ({"state": "active"}, 6),
        ({"state": "open"}, 6),
        ({"state": "resolved"}, 0),
        ({"since": 1}, 6),
        ({"since": 1e10}, 0),
    ):
        assert len(client.get("/alerts", params=asked).json()["items"]) == count, asked
    is_problem(client.get("/alerts", params={"state": "opne"}), 422, "request")
    is_problem(client.get("/alerts", params={"cursor": "x"}), 400, "cursor")


def test_a_snooze_needs_a_time_to_come(server):
    (alert,) = opened(server)
    wrong = (
        {},
        {"for_s": 0},
        {"for_s": -5},
        {"for_s": 1e12},
        {"until": 5},
        {"for_s": 5, "until": 5e9},
        {"for_s": "long"},
    )
    for body in wrong:
        is_problem(server.client.post(f"/alerts/{alert.id}/snooze", json=body), 422, "request")
    assert server.client.get(f"/alerts/{alert.id}").json()["state"] == "open"


def test_rules_are_set_read_and_removed(server):
    client = server.client
    body = {"benchmark": "chat*", "rule": {"when": "ttft_ms.p99 > 50", "severity": "critical", "quiet": "22:00-07:00"}}
    made = client.put("/alert-rules/slow chat", json=body)
    assert made.status_code == 201
    assert (made.json()["says"], made.json()["origin"], made.json()["by"]) == ("ttft_ms.p99 > 50", "api", "local")
    assert client.put("/alert-rules/slow chat", json=body).status_code == 200
    assert client.put("/alert-rules/lost", json={"rule": "agent lost"}).status_code == 201
    assert [one["name"] for one in client.get("/alert-rules").json()["items"]] == ["lost", "slow chat"]
    assert client.get("/alert-rules/slow chat").json()["rule"]["value"] == 50
    assert client.delete("/alert-rules/slow chat").status_code == 204
    is_problem(client.delete("/alert-rules/slow chat"), 404, "unknown-rule")
    is_problem(client.get("/alert-rules/slow chat"), 404, "unknown-rule")
    for wrong in ({"rule": "moon"}, {"rule": {"when": "above"}}, {"rule": "job failed", "benchmark": ""}):
        is_problem(client.put("/alert-rules/x", json=wrong), 422, "value")
    is_problem(client.put("/alert-rules/x", json={"rule": 7}), 422, "request")
    is_problem(client.put("/alert-rules/x", json={}), 422, "request")


def test_a_rule_that_requests_something_else_ends_what_stood_by_it(server):
    client = server.client
    client.put("/alert-rules/r", json={"rule": "latency_ms > 50"})
    now = SYSTEM_CLOCK.utc().timestamp()
    from dataclasses import replace

    (alert,) = evaluate(server.state.kept.store, [replace(limit(60), at=now)], None, SYSTEM_CLOCK)
    client.put("/alert-rules/r", json={"rule": {"when": "latency_ms > 55", "severity": "info"}})
    assert client.get(f"/alerts/{alert.id}").json()["state"] == "open"
    client.put("/alert-rules/r", json={"rule": "job failed"})
    assert client.get(f"/alerts/{alert.id}").json()["state"] == "resolved"


def test_readers_look_and_users_answer(serve):
    server = serve(open=False)
    (alert,) = opened(server)
    clients = {role: server.with_token(server.token(role)) for role in ("reader", "user", "admin", "agent")}
    for role, client in clients.items():
        assert client.get("/alerts").status_code == (403 if role == "agent" else 200)
        assert client.get("/alert-rules").status_code == (403 if role == "agent" else 200)
        assert client.get("/notices").status_code == (403 if role == "agent" else 200)
        assert client.post("/notices/999/again").status_code == (404 if role in ("user", "admin") else 403)
        may = role in ("user", "admin")
        assert client.post(f"/alerts/{alert.id}/acknowledge", json={}).status_code == (200 if may else 403)
        put = client.put(f"/alert-rules/of {role}", json={"rule": "job failed"})
        assert put.status_code == (201 if may else 403)
        assert client.delete("/alert-rules/of user").status_code in ((204, 404) if may else (403,))
    assert clients["user"].get(f"/alerts/{alert.id}").json()["by"] == "the admin"
    assert server.client.get("/alerts").status_code == 401


def test_a_failed_job_opens_an_alert_by_itself_and_a_good_one_resolves_it(serve):
    server = serve()
    client = server.client
    agent = Agent(client)
    document = benchmark(batches=(1,), alerts=["job failed", {"when": "latency_ms > 5", "severity": "critical"}])
    submit(client, document)
    lease = agent.lease()
    assert agent.deliver(lease, result_of(lease.job, failed=True)).status_code == 200
    (alert,) = wait_for(lambda: client.get("/alerts").json()["items"], what="the alert")
    assert (alert["kind"], alert["state"], alert["benchmark"]) == ("failed", "open", "speed")
    assert alert["sentences"] == [
        "speed batch=1 failed: error[crashed] while loading: all 3 runs failed; run 1: the process died"
    ]
    notices = Notices(server.state.kept.store.engine, SYSTEM_CLOCK)
    # What is owed of an alert is told in a transaction after the one that opened it.
    told = wait_for(lambda: notices.list(alert=alert["id"]), what="the notice")
    assert [one.channel for one in told] == ["*"]
    assert {one["origin"] for one in client.get("/alert-rules").json()["items"]} == {"file"}
    (of_file, _) = client.get("/alert-rules").json()["items"]
    is_problem(client.delete(f"/alert-rules/{of_file['name']}"), 409, "conflict")
    submit(client, document)
    agent.work()
    wait_for(lambda: client.get(f"/alerts/{alert['id']}").json()["state"] == "resolved", what="its end")


def test_an_agent_that_is_lost_and_comes_back(serve, monkeypatch):
    monkeypatch.setattr("assay.serve.live.notifications.POLL_S", 0.2)
    server = serve(silent_after_s=1.0, lease_s=5.0, heartbeat_s=0.5)
    client = server.client
    client.put("/alert-rules/lost", json={"rule": {"when": "agent lost", "severity": "critical"}})
    agent = Agent(client)
    (alert,) = wait_for(lambda: client.get("/alerts").json()["items"], what="the alert")
    assert (alert["title"], alert["severity"]) == ("agent box is lost", "critical")
    stop = threading.Event()

    def live():
        while not stop.wait(0.2):
            agent.beat(state="active")

    thread = threading.Thread(target=live)
    thread.start()
    try:
        wait_for(lambda: client.get(f"/alerts/{alert['id']}").json()["state"] == "resolved", what="its end")
    finally:
        stop.set()
        thread.join()


def test_messages_are_listed_and_given_up_ones_sent_again(server):
    (alert,) = opened(server)
    (waiting,) = server.client.get("/notices", params={"alert": alert.id}).json()["items"]
    assert (waiting["channel"], waiting["state"], waiting["alert"]) == ("*", "waiting", alert.id)
    assert "document" not in waiting, "only what people need"
    notices = Notices(server.state.kept.store.engine, SYSTEM_CLOCK)
    notices.put([NewNotice(f"{alert.id}:1:chat", "chat", alert.id, "{}")])
    notices.failed(notices.take("chat"), "it is not wanted", retry=False)
    (lost,) = server.client.get("/notices", params={"state": "given-up"}).json()["items"]
    assert (lost["error"], lost["tries"], lost["next_at"]) == ("it is not wanted", 1, None)
    again = server.client.post(f"/notices/{lost['id']}/again").json()
    assert (again["state"], again["tries"]) == ("waiting", 0)
    is_problem(server.client.post(f"/notices/{lost['id']}/again"), 409, "lifecycle")
    is_problem(server.client.post("/notices/999/again"), 404, "unknown-notice")
    is_problem(server.client.get("/notices", params={"alert": "ffff"}), 404, "unknown-alert")


def test_a_short_snooze_ends_by_itself(server):
    (alert,) = opened(server)
    server.client.post(f"/alerts/{alert.id}/snooze", json={"for_s": 0.5})
    wait_for(lambda: server.client.get(f"/alerts/{alert.id}").json()["state"] == "open", what="the end of the snooze")


def test_listeners_hear_of_alerts(server):
    wait_for(lambda: server.state.kept, what="the store")
    heard = []

    def listen():
        with server.with_token(None).stream("GET", "/events") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: ") and json.loads(line[6:])["kind"] == "alert":
                    heard.append(json.loads(line[6:])["detail"])
                    if len(heard) == 2:
                        return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    wait_for(lambda: server.state.feed._listeners, what="the listener")
    (alert,) = opened(server)
    wait_for(lambda: heard, what="the first word")
    server.client.post(f"/alerts/{alert.id}/acknowledge", json={})
    thread.join(PATIENCE_S)
    assert [(one["alert"], one["state"], one["happening"]) for one in heard] == [
        (alert.id, "open", "occur"),
        (alert.id, "acknowledged", "acknowledge"),
    ]


def test_an_expected_change_moves_the_baseline_of_its_series(server):
    from tests.live.test_watching import record
    from tests.support.histories import nights

    from assay.alert.events import of_findings
    from assay.alert.ingest import observe
    from assay.series.repository import SeriesStore

    store = server.state.kept.store
    server.client.put("/alert-rules/any", json={"rule": "latency_ms worse"})
    for number, (one, _) in enumerate(nights(40, 30, 0.2, lambda n: {"commit": f"{n:040x}"})):
        observe(store, record(number, one))
    (alert,) = server.client.get("/alerts", params={"state": "active"}).json()["items"]
    assert alert["kind"] == "finding"
    assert re.search(r"latency_ms is (19|20|21) % worse", alert["title"])
    meant = server.client.post(f"/alerts/{alert['id']}/expect", json={"why": "twice the context"})
    assert meant.json()["state"] == "expected"
    (known,) = SeriesStore(store).findings(series=alert["members"][0]["series"], state="expected")
    assert known.state == "expected"
    evaluate(store, of_findings([known], SYSTEM_CLOCK.utc().timestamp()), None, SYSTEM_CLOCK)
    assert server.client.get(f"/alerts/{alert['id']}").json()["state"] == "expected"
