"""Trying a channel: a message that says it is a test, and errors without secrets."""

from __future__ import annotations

import pytest
from tests.unit.alert.notify.receivers import Reply, receiving

from assay.alert.notify.channels import try_channel
from assay.alert.notify.protocol import NotifyError
from assay.alert.notify.webhooks import Slack, Webhook
from assay.errors import UsageError


def test_a_test_says_that_it_is_one_and_shows_a_picture():
    with receiving() as receiver:
        channels = {"hook": Webhook(kind="webhook", url=receiver.url)}
        assert try_channel(channels, "hook", "https://assay.example.com") is None
        try_channel(channels, "hook")
    first, second = (request.document() for request in receiver.received)
    assert (first["event"], first["subject"]) == ("test", "[test] A test of the channel hook")
    assert "Nothing was measured" in first["text"]
    assert "nothing was measured" in first["picture_svg"]
    assert (first["url"], second["url"]) == ("https://assay.example.com/", "")
    assert first["key"] != second["key"]


def test_a_channel_that_is_not_there_is_said_with_the_nearest():
    with pytest.raises(UsageError, match="no channel 'hok'") as caught:
        try_channel({"hook": Slack(kind="slack", url="http://x")}, "hok")
    assert caught.value.problem.try_ == "did you mean hook?"
    with pytest.raises(UsageError) as caught:
        try_channel({}, "hook")
    assert caught.value.problem.try_ == "the channels file names none"


def test_a_receiver_that_repeats_a_secret_does_not_get_it_into_the_error(monkeypatch):
    with receiving(Reply(500, body=b"bad key s3cret-key")) as receiver:
        monkeypatch.setenv("HOOK", f"{receiver.url}/s3cret-path")
        monkeypatch.setenv("KEY", "s3cret-key")
        channels = {"hook": Webhook(kind="webhook", url="${env:HOOK}", headers={"X-Key": "${env:KEY}"})}
        with pytest.raises(NotifyError) as caught:
            try_channel(channels, "hook")
    assert "bad key ***" in str(caught.value)
    assert "s3cret" not in str(caught.value)
