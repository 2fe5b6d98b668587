"""`assay alerts` on a store here and against a real server: the same words, the same answers."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from tests.unit.alert.notify.receivers import Reply, receiving
from tests.unit.alert.setups import failed, rule

from assay.alert.evaluate import evaluate
from assay.clock import SYSTEM_CLOCK
from assay.store.location import store_folder
from assay.store.notices import NewNotice, Notices
from assay.store.store import Store


@pytest.fixture(params=["here", pytest.param("server", marks=pytest.mark.live)])
def alerts(request, cli, monkeypatch):
    """Run a verb of `assay alerts` where the alerts are, beside a way to open one."""
    if request.param == "here":
        store, words = Store(store_folder(None)), ()
    else:
        server = request.getfixturevalue("server")
        store, words = server.state.kept.store, ("--server", server.url)
    monkeypatch.delenv("ASSAY_SERVER", raising=False)

    def _alerts(*said: str) -> str:
        code, out, problem = cli("alerts", *said, *words)
        assert code == 0, problem
        return out

    def _open(*points: str):
        from dataclasses import replace

        now = SYSTEM_CLOCK.utc().timestamp()
        events = [replace(failed(point), at=now) for point in points]
        return evaluate(store, events, [rule("job failed", severity="critical")], SYSTEM_CLOCK)[-1]

    yield _alerts, _open
    if request.param == "here":
        store.close()


def test_alerts_are_listed_shown_and_answered(alerts):
    say, open_ = alerts
    assert say("list") == "no alerts\n"
    alert = open_("a")
    listed = say("list")
    assert alert.id in listed
    assert "chat a failed" in listed
    assert "acknowledged" in say("ack", alert.id[:8], "--why", "mine")
    shown = say("show", alert.id)
    assert shown.startswith("chat a failed\n")
    assert "error[crashed]: the process died" in shown
    assert "(acknowledge): mine" in shown
    assert "snoozed until 20" in say("snooze", alert.id, "--for", "4h")
    assert "resolved" in say("resolve", alert.id)
    assert say("list") == "no alerts\n"
    assert "resolved" in say("list", "--all")
    assert "open" in say("reopen", alert.id)
    assert json.loads(say("list", "--format", "json"))[0]["id"] == alert.id
    document = json.loads(say("show", alert.id, "--format", "json"))
    assert [line["happening"] for line in document["history"]] == [
        "occur",
        "acknowledge",
        "snooze",
        "resolve",
        "reopen",
    ]
    assert all(line["by"] for line in document["history"][1:])


def test_alerts_are_filtered(alerts):
    say, open_ = alerts
    open_("a")
    for words, there in (
        (("--severity", "critical"), True),
        (("--severity", "info"), False),
        (("--benchmark", "chat"), True),
        (("--benchmark", "no"), False),
        (("--text", "crashed"), True),
        (("--text", "moon"), False),
        (("--state", "open"), True),
        (("--state", "snoozed"), False),
    ):
        assert ("chat a failed" in say("list", *words)) == there, words


def test_rules_are_set_listed_and_removed(alerts):
    say, _ = alerts
    assert say("rules").startswith("no rules")
    assert (
        say(
            "rules",
            "set",
            "slow",
            "ttft_ms.p99 > 50",
            "--benchmark",
            "chat*",
            "--quiet",
            "22:00-07:00",
            "--at-most-every",
            "1h",
            "--notify",
            "team",
        )
        == "slow: ttft_ms.p99 > 50\n"
    )
    say("rules", "set", "lost", "agent lost", "--severity", "critical")
    listed = say("rules")
    assert "ttft_ms.p99 > 50" in listed
    assert "critical" in listed
    rules = {one["name"]: one for one in json.loads(say("rules", "--format", "json"))}
    assert rules["slow"]["rule"]["notify"] == ["team"]
    assert rules["slow"]["rule"]["at_most_every"] == 3600.0
    assert say("rules", "rm", "slow", "lost") == "removed slow\nremoved lost\n"
    assert say("rules").startswith("no rules")


def test_messages_are_listed_and_what_was_given_up_is_sent_again(alerts):
    say, open_ = alerts
    assert say("notices") == "no messages\n"
    alert = open_("a")
    (waiting,) = json.loads(say("notices", alert.id[:8], "--format", "json"))
    assert (waiting["channel"], waiting["state"], waiting["tries"]) == ("*", "waiting", 0)
    assert waiting["subject"] == "[critical] chat a failed"
    listed = say("notices", "--state", "waiting")
    assert "[critical] chat a failed" in listed
    assert say("notices", "--state", "given-up") == "no messages\n"


def test_a_message_that_was_given_up_is_sent_after_all(cli):
    with closing(Store(store_folder(None))) as store:
        (alert,) = evaluate(store, [failed("a")], [rule("job failed")], SYSTEM_CLOCK)
        notices = Notices(store.engine, SYSTEM_CLOCK)
        notices.put([NewNotice(f"{alert.id}:1:chat", "chat", alert.id, "{}")])
        notices.failed(notices.take("chat"), "it is not wanted", retry=False)
        (notice,) = notices.list(state="given-up")
    assert "it is not wanted" in cli("alerts", "notices", "--state", "given-up")[1]
    assert cli("alerts", "resend", str(notice.id))[1].startswith(f"{notice.id} waiting for chat")
    assert cli("alerts", "notices", "--state", "given-up")[1] == "no messages\n"
    code, _, problem = cli("alerts", "resend", str(notice.id))
    assert code == 2
    assert "error[lifecycle]" in problem


def test_a_channel_is_tried(cli, write, monkeypatch):
    monkeypatch.setenv("KEY", "s3cret")
    with receiving(Reply(), Reply(500, body=b"not you, s3cret")) as receiver:
        file = write(
            "channels.yaml",
            f"hook: {{kind: webhook, url: '{receiver.url}', secret: '${{env:KEY}}'}}\n"
            "other: {kind: slack, url: '${env:NOT_SET}'}\n",
        )
        said = cli("alerts", "test-channel", "hook", "--channels", str(file), "--public-url", "https://a.example.com")
        assert said[:2] == (0, "hook took the test message\n")
        code, _, problem = cli("alerts", "test-channel", "hook", "--channels", str(file))
    assert receiver.received[0].document()["event"] == "test"
    assert code == 3
    assert "answered 500" in problem
    assert "s3cret" not in problem
    code, _, problem = cli("alerts", "test-channel", "hok", "--channels", str(file))
    assert code == 2
    assert "did you mean hook?" in problem


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("notices", "ffff"), "unknown-alert"),
        (("resend", "7"), "unknown-notice"),
        (("show", "ffff"), "unknown-alert"),
        (("ack", "ffff"), "unknown-alert"),
        (("snooze", "ffff", "--for", "ever"), "span"),
        (("rules", "set", "x", "moon"), "value"),
        (("rules", "set", "x", "p99 > 50"), "value"),
        (("rules", "rm", "none"), "unknown-rule"),
    ],
)
def test_what_is_wrong_is_reported(cli, words, code):
    exit_code, out, problem = cli("alerts", *words)
    assert (exit_code, out) == (2, "")
    assert f"error[{code}]" in problem


def test_a_refused_word_changes_nothing(alerts, cli):
    say, open_ = alerts
    alert = open_("a")
    assert json.loads(say("show", alert.id, "--format", "json"))["state"] == "open"
    with pytest.raises(AssertionError, match=r"no-baseline|no level"):
        say("expect", alert.id)
    assert json.loads(say("show", alert.id, "--format", "json"))["state"] == "open"


def test_a_local_run_that_fails_opens_an_alert(cli, write):
    script = write("step.sh", "exit 1\n")
    file = write(
        "broken.yaml", "benchmark: broken\ntarget: {command: sh step.sh}\nmeasure: {runs: 1}\nalerts: [job failed]\n"
    )
    code, _, _ = cli("run", str(file), "--quiet")
    assert code == 3
    _, out, _ = cli("alerts", "list", "--format", "json")
    (alert,) = json.loads(out)
    assert (alert["kind"], alert["benchmark"], alert["state"]) == ("failed", "broken", "open")
    script.write_text("exit 0\n")
    cli("run", str(file), "--quiet")
    _, out, _ = cli("alerts", "list", "--all", "--format", "json")
    assert [one["state"] for one in json.loads(out)] == ["resolved"]
