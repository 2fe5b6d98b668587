"""Signed documents: whom they are from, when, and that nothing was changed; and the receiver of the documentation."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.support.ports import free_port
from tests.support.running_server import wait_for
from tests.unit.alert.notify.receivers import Reply, receiving
from tests.unit.alert.notify.samples import message

from assay.alert.notify.protocol import NotifyError
from assay.alert.notify.webhooks import Webhook, signature

PAGE = Path(__file__).parents[4] / "docs/how-to/notify-a-channel.md"


def webhook(url, **more):
    return Webhook(kind="webhook", url=url, **more)


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret")


def test_the_document_holds_everything_and_is_signed_with_its_time():
    sent = message()
    with receiving() as receiver:
        webhook(f"{receiver.url}/in", secret="${env:HOOK_SECRET}", headers={"X-Token": "${env:HOOK_SECRET}"}).send(sent)
    (request,) = receiver.received
    stamp = request.headers["assay-timestamp"]
    expected = hmac.new(b"s3cret", f"{stamp}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert request.headers["assay-signature"] == f"v1={expected}"
    assert abs(int(stamp) - time.time()) < 60
    assert request.headers["idempotency-key"] == sent.key
    assert request.headers["x-token"] == "s3cret"
    document = request.document()
    assert (document["version"], document["event"], document["key"]) == (1, "opened", sent.key)
    assert document["alert"]["members"][0]["moved"]["change_interval"]["low"] == 0.021
    assert document["url"] == "https://assay.example.com/alerts/a1e27000a1e27000"
    assert document["picture_svg"].startswith("<svg")
    assert b"s3cret" not in request.body


def test_without_a_secret_nothing_is_signed():
    with receiving() as receiver:
        webhook(receiver.url).send(message())
    assert "assay-signature" not in receiver.received[0].headers


def test_every_try_says_the_same_under_the_same_key():
    with receiving(Reply(500), Reply()) as receiver:
        with pytest.raises(NotifyError):
            webhook(receiver.url).send(message())
        webhook(receiver.url).send(message())
    first, second = receiver.received
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_a_secret_that_is_not_set_is_named_and_waited_for(monkeypatch):
    monkeypatch.delenv("HOOK_SECRET")
    with receiving() as receiver, pytest.raises(NotifyError, match="HOOK_SECRET is not set") as caught:
        webhook(receiver.url, secret="${env:HOOK_SECRET}").send(message())
    assert caught.value.retry
    assert receiver.received == []


@pytest.fixture
def documented(tmp_path):
    """The receiver that the documentation shows, running."""
    code = re.search(r'```python title="receiver\.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert code is not None
    port = free_port()
    script = tmp_path / "receiver.py"
    script.write_text(code[1].replace("8000", str(port)))
    environment = {**os.environ, "HOOK_SECRET": "s3cret"}
    process = subprocess.Popen(
        [sys.executable, str(script)], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _is_there(url), what="the receiver")
        yield url, process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _is_there(url):
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.HTTPError:
        return False


def post(url, body, stamp, signed, key="k1"):
    headers = {"Assay-Timestamp": str(stamp), "Assay-Signature": signed, "Idempotency-Key": key}
    return httpx.post(url, content=body, headers=headers, trust_env=False, timeout=60).status_code


@pytest.mark.live
def test_the_receiver_of_the_documentation_takes_what_is_signed_once(documented):
    url, process = documented
    hook = webhook(url, secret="${env:HOOK_SECRET}")
    hook.send(message())
    hook.send(message())
    hook.send(message(channel="there"))
    process.kill()
    lines = process.communicate()[0].splitlines()
    assert [line for line in lines if "is worse" in line] == [
        "opened [warning] ttft_ms.p99 of chat capacity is worse"
    ] * 2
    assert "dropped a repeat" in lines


@pytest.mark.live
def test_the_receiver_of_the_documentation_refuses_what_is_forged_changed_or_old(documented):
    url, _ = documented
    body, now = b'{"event": "opened", "subject": "x"}', int(time.time())
    good = signature("s3cret", now, body)
    assert post(url, body, now, signature("wrong", now, body)) == 401
    assert post(url, body + b" ", now, good) == 401
    assert post(url, body, now + 1, good) == 401
    assert post(url, body, now - 3600, signature("s3cret", now - 3600, body)) == 401
    assert post(url, body, now, "") == 401
    assert post(url, body, "soon", good) == 401
    assert post(url, body, now, good) == 204
