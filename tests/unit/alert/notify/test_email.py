"""E-mail to a real SMTP server: protected, logged in, the same Message-ID each time, refusals told apart."""

from __future__ import annotations

import email
import time
from dataclasses import replace
from email import policy

import pytest
from tests.support.certificate import self_signed
from tests.unit.alert.notify.receivers import mail_server, receiving, silent_port
from tests.unit.alert.notify.samples import ALERT, RESOLVED, message

from assay.alert.notify.email_ import Email
from assay.alert.notify.protocol import REPAIR_S, NotifyError

pytestmark = pytest.mark.live


def channel(server, **more):
    chosen = {
        "kind": "email",
        "host": "127.0.0.1",
        "port": getattr(server, "port", server),
        "security": "none",
        "from": "assay <assay@example.com>",
        "to": ("team@example.com",),
        **more,
    }
    return Email(**chosen)


def failure(one, told=None):
    with pytest.raises(NotifyError) as caught:
        one.send(told or message())
    return caught.value


def parsed(mail):
    return email.message_from_bytes(mail.content, policy=policy.default)


def test_a_mail_has_text_html_and_an_inline_picture():
    with mail_server() as server:
        assert channel(server).send(message()) is None
        (mail,) = server.mails
    letter = parsed(mail)
    assert (mail.sender, mail.to) == ("assay@example.com", ["team@example.com"])
    assert letter["Subject"] == "[warning] ttft_ms.p99 of chat capacity is worse"
    assert letter["Auto-Submitted"] == "auto-generated"
    assert letter["Date"].datetime.timestamp() == ALERT.changed_at
    text, html = letter.get_body(("plain",)).get_content(), letter.get_body(("html",)).get_content()
    for part in (text, html):
        assert "+4.4 % [+2.1 %, +6.6 %]" in part
        assert "a1b2c3d" in part
        assert "https://assay.example.com/alerts/a1e27000a1e27000" in part
    (picture,) = [part for part in letter.walk() if part.get_content_type() == "image/png"]
    assert picture.get_content().startswith(b"\x89PNG\r\n")
    assert picture["Content-Disposition"].startswith("inline")
    assert f'src="cid:{picture["Content-ID"][1:-1]}"' in html


def test_without_a_picture_there_is_none():
    with mail_server() as server:
        channel(server).send(message(picture=False))
        letter = parsed(server.mails[0])
    assert [part.get_content_type() for part in letter.walk()] == ["multipart/alternative", "text/plain", "text/html"]
    assert "cid:" not in letter.get_body(("html",)).get_content()


def test_the_same_message_has_the_same_id_and_an_alert_is_one_conversation():
    with mail_server() as server:
        one = channel(server)
        for told in (message(), message(), message(RESOLVED)):
            one.send(told)
        first, again, resolved = (parsed(mail) for mail in server.mails)
    assert first["Message-ID"] == again["Message-ID"] != resolved["Message-ID"]
    assert first["References"] == resolved["References"]
    assert first["Message-ID"].endswith("@example.com>")
    assert resolved["Subject"].startswith("[resolved] ")


def test_a_name_cannot_become_a_header():
    alert = replace(ALERT, title="x\r\nBcc: evil@example.com")
    with mail_server() as server:
        channel(server).send(message(alert))
        letter = parsed(server.mails[0])
    assert letter["Bcc"] is None
    assert server.mails[0].to == ["team@example.com"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_the_connection_is_protected_and_the_user_logged_in(tmp_path, monkeypatch, security):
    monkeypatch.setenv("MAIL_PASSWORD", "s3cret")
    pair = self_signed(tmp_path)
    with mail_server(tls=pair, implicit=security == "tls", users={"assay": "s3cret"}) as server:
        login = {"user": "assay", "password": "${env:MAIL_PASSWORD}", "security": security}
        channel(server, ca=pair[0], **login).send(message())
        (mail,) = server.mails
        assert (mail.user, mail.encrypted) == ("assay", True)
        untrusted = failure(channel(server, **login))
        assert (untrusted.problem.code, untrusted.after_s) == ("certificate", REPAIR_S)
        monkeypatch.setenv("MAIL_PASSWORD", "wr0ng-s3cret")
        refused = failure(channel(server, ca=pair[0], **login))
    assert refused.problem.code == "smtp-login"
    assert refused.retry
    assert "s3cret" not in str(refused)
    assert len(server.mails) == 1


def test_a_server_that_cannot_protect_gets_neither_mail_nor_password(monkeypatch):
    monkeypatch.setenv("MAIL_PASSWORD", "s3cret")
    with mail_server() as server:
        failed = failure(channel(server, security="starttls", user="assay", password="${env:MAIL_PASSWORD}"))
        assert server.mails == []
    assert failed.after_s == REPAIR_S
    assert "STARTTLS" in failed.problem.message


@pytest.mark.parametrize(
    ("answer", "retry", "after_s"),
    [("451 try later", True, None), ("552 too large", False, REPAIR_S), ("554 not wanted", False, REPAIR_S)],
)
def test_what_the_server_says_after_the_data(answer, retry, after_s):
    with mail_server() as server:
        server.data_answers = [answer]
        failed = failure(channel(server))
        assert (failed.retry, failed.after_s) == (retry, after_s)
        assert answer[4:] in failed.problem.message
        channel(server).send(message())
        assert len(server.mails) == 1


def test_a_sender_who_is_refused_is_tried_again():
    with mail_server() as server:
        server.sender_answers = ["450 busy", "553 not you"]
        one = channel(server)
        assert (failure(one).after_s, failure(one).after_s) == (None, REPAIR_S)
        one.send(message())
        assert len(server.mails) == 1


def test_if_some_are_put_off_the_others_do_not_get_it_again():
    people = ("a@example.com", "B <b@example.com>", "c@example.com")
    with mail_server() as server:
        server.refused = {"b@example.com": "450 greylisted", "c@example.com": "550 unknown"}
        one = channel(server, to=people)
        failed = failure(one)
        assert failed.done == ("a@example.com", "c@example.com")
        assert "greylisted" in failed.problem.message
        server.refused.clear()
        assert one.send(message(done=failed.done)) is None
        assert [mail.to for mail in server.mails] == [["a@example.com"], ["b@example.com"]]
        assert one.send(message(done=people)) is None
        assert len(server.mails) == 2


def test_if_some_are_refused_for_good_that_is_noted():
    with mail_server() as server:
        server.refused = {"b@example.com": "550 unknown"}
        note = channel(server, to=("a@example.com", "b@example.com")).send(message())
        assert note == "refused for b@example.com: 550 unknown"
        assert [mail.to for mail in server.mails] == [["a@example.com"]]


def test_if_all_are_refused_it_is_tried_again_when_another_may_have_repaired_it():
    with mail_server() as server:
        server.refused = {"team@example.com": "550 unknown"}
        failed = failure(channel(server))
    assert (failed.retry, failed.after_s, failed.done) == (True, REPAIR_S, ())


def test_a_server_that_is_away_hangs_or_closes_is_tried_again():
    with mail_server() as server:
        port = server.port
    assert failure(channel(port)).retry
    with silent_port() as port:
        began = time.monotonic()
        failed = failure(channel(port, timeout=0.5))
        assert time.monotonic() - began < 60  # it would wait for ever
        assert failed.retry
    with receiving("close") as receiver:  # whoever answers is no SMTP server
        assert failure(channel(receiver.port, timeout=0.5)).retry
