"""Alertmanager: what stands, until when, and that it is told again."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import datetime

import pytest
from tests.unit.alert.notify.receivers import Reply, receiving
from tests.unit.alert.notify.samples import ALERT, AT, REOPENED, RESOLVED, message

from assay.alert.notify.protocol import NotifyError
from assay.alert.notify.webhooks import Alertmanager

MOMENT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$")


def sent(told, **more):
    with receiving(Reply(200, body=b"")) as receiver:
        Alertmanager(kind="alertmanager", url=f"{receiver.url}/am/", **more).send(told)
    (request,) = receiver.received
    assert (request.method, request.path) == ("POST", "/am/api/v2/alerts")
    (alert,) = request.document()
    # What the API's own description demands of a postable alert.
    assert set(alert) <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
    assert all(isinstance(text, str) and text for text in (*alert["labels"].values(), *alert["annotations"].values()))
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in alert["labels"])
    assert MOMENT.match(alert["startsAt"])
    assert MOMENT.match(alert["endsAt"])
    return (
        request,
        alert,
        datetime.fromisoformat(alert["startsAt"]).timestamp(),
        datetime.fromisoformat(alert["endsAt"]).timestamp(),
    )


def test_an_open_alert_stands_from_its_opening_for_a_long_while():
    request, alert, starts, ends = sent(message(), labels={"team": "perf"})
    assert alert["labels"] == {
        "alertname": "assay",
        "assay_alert": ALERT.id,
        "benchmark": "chat capacity",
        "severity": "warning",
        "team": "perf",
    }
    assert starts == AT
    assert abs(ends - time.time() - 86_400) < 60
    assert alert["annotations"]["summary"] == "[warning] ttft_ms.p99 of chat capacity is worse"
    assert "+4.4 % [+2.1 %, +6.6 %]" in alert["annotations"]["description"]
    assert alert["generatorURL"] == "https://assay.example.com/alerts/a1e27000a1e27000"
    assert "authorization" not in request.headers


def test_what_is_resolved_ended_when_it_was():
    _, alert, starts, ends = sent(message(RESOLVED))
    assert (starts, ends) == (AT, RESOLVED.changed_at)
    assert alert["labels"]["assay_alert"] == ALERT.id


def test_what_came_back_began_when_it_did():
    _, _, starts, ends = sent(message(REOPENED))
    assert starts == REOPENED.changed_at
    assert ends > time.time()


def test_own_labels_cannot_be_taken_away():
    _, alert, _, _ = sent(message(), labels={"severity": "page", "alertname": "other"})
    assert (alert["labels"]["severity"], alert["labels"]["alertname"]) == ("warning", "assay")


def test_an_empty_label_is_left_out():
    _, alert, _, _ = sent(message(replace(ALERT, benchmark="")))
    assert "benchmark" not in alert["labels"]


def test_a_token_is_sent_and_a_test_ends_soon(monkeypatch):
    monkeypatch.setenv("AM_TOKEN", "s3cret")
    request, _, _, ends = sent(message(event="test"), token="${env:AM_TOKEN}")
    assert request.headers["authorization"] == "Bearer s3cret"
    assert ends - time.time() < 301


def test_it_has_to_be_reported_again():
    assert Alertmanager(kind="alertmanager", url="http://x", repeat=90.0).repeat_s == 90.0


def test_what_it_refuses_is_reported():
    with receiving(Reply(400, body=b'"start time must be before end time"')) as receiver:
        with pytest.raises(NotifyError, match="start time") as caught:
            Alertmanager(kind="alertmanager", url=receiver.url).send(message())
        assert not caught.value.retry
