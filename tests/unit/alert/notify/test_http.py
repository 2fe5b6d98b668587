"""Calls to receivers that behave badly: what is tried again, how soon, and what is never said or done."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from tests.support.certificate import self_signed
from tests.unit.alert.notify.receivers import Reply, receiving, silent_port

from assay.alert.notify import http
from assay.alert.notify.http import Caller, retry_after_s
from assay.alert.notify.protocol import REPAIR_S, NotifyError

NOW = 1_767_322_800.0


def failure(url, timeout_s=60.0, **more):
    with pytest.raises(NotifyError) as caught:
        Caller(timeout_s, now=lambda: NOW, **more).post(url, {"a": 1})
    return caught.value


def test_a_good_answer_is_given_back():
    with receiving(Reply(201, {"X-Number": "7"}, b'{"b": 2}')) as receiver:
        answer = Caller(60.0).post(f"{receiver.url}/in?x=1", {"a": "ü"}, {"X-Own": "1"})
    (request,) = receiver.received
    assert (answer.status, answer.headers["x-number"], answer.document()) == (201, "7", {"b": 2})
    assert (request.method, request.path, request.document()) == ("POST", "/in?x=1", {"a": "ü"})
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert request.headers["x-own"] == "1"
    assert request.headers["user-agent"].startswith("assay/")


@pytest.mark.parametrize(
    ("status", "retry", "after_s"),
    [(500, True, None), (502, True, None), (503, True, None), (429, True, None), (408, True, None), (425, True, None),
     (409, True, None), (400, False, None), (413, False, None), (422, False, None), (401, True, REPAIR_S),
     (403, True, REPAIR_S), (404, True, REPAIR_S), (410, True, REPAIR_S), (999, True, None)],
)  # fmt: skip
def test_what_a_bad_answer_means(status, retry, after_s):
    with receiving(Reply(status, body=b"no\nwonder")) as receiver:
        failed = failure(receiver.url)
    assert (failed.retry, failed.after_s, failed.problem.code) == (retry, after_s, f"http-{status}")
    assert failed.problem.message.startswith(f"127.0.0.1 answered {status}")
    assert failed.problem.message.endswith(": no wonder")


def test_a_receiver_that_requests_a_pause_is_heard():
    dated = Reply(503, {"Retry-After": "Fri, 02 Jan 2026 03:05:00 GMT"})
    used_up = Reply(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 90)})
    with receiving(Reply(429, {"Retry-After": "17"}), dated, used_up) as receiver:
        assert [failure(receiver.url).after_s for _ in range(3)] == [17.0, 300.0, 90.0]


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [({}, None), ({"retry-after": "soon"}, None), ({"retry-after": "-5"}, 0.0), ({"retry-after": "nan"}, None),
     ({"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"}, 0.0), ({"x-ratelimit-remaining": "5"}, None),
     ({"ratelimit-remaining": "0", "ratelimit-reset": str(NOW + 5)}, 5.0), ({"x-ratelimit-remaining": "0"}, None)],
)  # fmt: skip
def test_how_long_is_requested(headers, wait_s):
    assert retry_after_s(headers, NOW) == wait_s


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_nothing_is_sent_there(status):
    with receiving() as elsewhere, receiving(Reply(status, {"Location": elsewhere.url})) as receiver:
        failed = failure(receiver.url)
        assert elsewhere.received == []
    assert (failed.problem.code, failed.retry, failed.after_s) == ("redirect", True, REPAIR_S)


@pytest.mark.parametrize("how", ["close", "hang", "trickle"])
def test_one_that_does_not_answer_is_asked_again_later(how):
    with receiving(how) as receiver:
        began = time.monotonic()
        failed = failure(receiver.url, 0.5)
        assert time.monotonic() - began < 60  # it would go on for much longer
    assert failed.retry
    assert failed.problem.code in ("timeout", "notify")


def test_nobody_there_is_asked_again_later():
    with receiving() as receiver:
        url = receiver.url
    failed = failure(url)
    assert (failed.retry, failed.after_s, failed.problem.code) == (True, None, "connect")
    with silent_port() as port:
        assert failure(f"http://127.0.0.1:{port}", 0.3).problem.code == "timeout"


def test_the_calls_of_one_message_share_their_time(monkeypatch):
    now_s = [1000.0]
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=lambda: now_s[0], time=time.time))
    caller = Caller(120.0)
    with receiving(Reply(), "hang") as receiver:
        caller.post(receiver.url, {})
        now_s[0] += 119.8
        began = time.monotonic()
        with pytest.raises(NotifyError, match="did not answer within"):
            caller.post(receiver.url, {})
        assert time.monotonic() - began < 60  # of the 120 that they have together


def test_certificates_are_verified(tmp_path):
    trusted, other = self_signed(tmp_path / "a"), self_signed(tmp_path / "b")
    with receiving(tls=trusted) as receiver:
        assert failure(receiver.url).problem.code == "certificate"
        failed = failure(receiver.url, ca=other[0])
        assert "is not trusted" in failed.problem.message
        assert failed.after_s == REPAIR_S
        assert receiver.received == []
        Caller(60.0, ca=trusted[0]).post(receiver.url, {})
        assert len(receiver.received) == 1


def test_the_name_in_a_certificate_counts(tmp_path):
    named = self_signed(tmp_path, "hooks.example.com")
    with receiving(tls=named) as receiver:
        assert failure(receiver.url, ca=named[0]).problem.code == "certificate"


def test_a_file_of_certificates_that_is_not_there_is_named(tmp_path):
    assert failure("https://127.0.0.1:9", ca=tmp_path / "none.pem").problem.at.endswith("none.pem")


def test_neither_addresses_nor_headers_are_repeated_in_errors():
    with receiving(Reply(500), "close") as receiver:
        for _ in range(2):
            assert "s3cret" not in str(failure(f"{receiver.url}/hook/s3cret?key=s3cret"))
    assert "s3cret" not in str(failure("gopher://s3cret"))
    assert "s3cret" not in str(failure("http://127.0.0.1:9/a b\n/s3cret"))
    with pytest.raises(NotifyError) as caught:
        Caller(1.0).post("http://127.0.0.1:9", {}, {"Authorization": "Bearer s3cret\n"})
    assert "s3cret" not in str(caught.value)


def test_a_long_answer_is_not_read_to_its_end():
    with receiving(Reply(500, body=b"x" * 10_000_000)) as receiver:
        assert len(str(failure(receiver.url))) < 1000
