"""Slack and Mattermost: documents that both understand, and text that stays text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.alert.notify.receivers import Reply, receiving
from tests.unit.alert.notify.samples import ALERT, RESOLVED, message

from assay.alert.notify.protocol import NotifyError
from assay.alert.notify.webhooks import Slack, escaped


def sent(alert=ALERT, **more):
    with receiving() as receiver:
        Slack(kind="slack", url=receiver.url, **more).send(message(alert))
    return receiver.received[0].document()


def test_numbers_with_their_interval_the_cause_and_a_link_are_reported():
    document = sent()
    assert document["text"] == "[warning] ttft_ms.p99 of chat capacity is worse"
    (attachment,) = document["attachments"]
    (field,) = attachment["fields"]
    assert field["title"] == "ttft_ms.p99 · rate=4 · h200"
    assert "212 ms → 221 ms, +4.4 % [+2.1 %, +6.6 %]" in field["value"]
    assert "commit a1b2c3d → e4f5a6b" in attachment["text"]
    assert attachment["title_link"] == "https://assay.example.com/alerts/a1e27000a1e27000"
    assert attachment["color"] == "#b57600"
    assert attachment["ts"] == int(ALERT.changed_at)
    assert not {"channel", "username"} & set(document)


def test_what_is_over_is_green():
    document = sent(RESOLVED)
    assert document["text"].startswith("[resolved] ")
    assert document["attachments"][0]["color"] == "#176f33"


def test_another_conversation_and_name_are_requested():
    document = sent(channel="#perf", username="assay")
    assert (document["channel"], document["username"]) == ("#perf", "assay")


def test_names_are_no_markup_and_call_nobody():
    alert = replace(ALERT, title="<!channel> & @here <https://evil|x>", sentences=("@all look",))
    document = sent(alert)
    shown = document["text"] + document["attachments"][0]["title"] + document["attachments"][0]["text"]
    assert "<" not in shown
    assert "@here" not in shown
    assert "@all" not in shown
    assert escaped("a & b < c") == "a &amp; b &lt; c"


def test_many_and_long_are_cut():
    members = tuple(replace(ALERT.members[0], subject=str(n), name=f"series {n}") for n in range(30))
    document = sent(replace(ALERT, members=members, sentences=("x" * 10_000,)))
    assert len(document["attachments"][0]["fields"]) == 10
    assert len(document["attachments"][0]["text"]) <= 2800


def test_the_address_is_a_secret(monkeypatch):
    with receiving(Reply(404, body=b"no_service")) as receiver:
        monkeypatch.setenv("SLACK", f"{receiver.url}/services/T0/B0/s3cret")
        with pytest.raises(NotifyError, match="no_service") as caught:
            Slack(kind="slack", url="${env:SLACK}").send(message())
    assert "s3cret" not in str(caught.value)
    assert receiver.received[0].path == "/services/T0/B0/s3cret"
