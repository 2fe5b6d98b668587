"""The outbox on a real server: receivers that are away, hang or refuse; servers that end or die; two that share."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from tests.support.ports import free_port
from tests.support.running_server import wait_for
from tests.unit.alert.notify.forges import FakeGitHub
from tests.unit.alert.notify.receivers import Reply, mail_server, receiving
from tests.unit.alert.notify.samples import ALERT, MEMBER, RESOLVED

from assay.alert.message import new_notice, read_notice
from assay.alert.notify.protocol import Channel, NotifyError
from assay.clock import SYSTEM_CLOCK
from assay.errors import UsageError
from assay.serve.app import create_app
from assay.serve.live.notifications import NoticeSender
from assay.serve.settings import ServerSettings
from assay.store.database import writing
from assay.store.notices import EVERY_CHANNEL, NoticePolicy, Notices
from assay.store.store import Store
from assay.store.tables import AlertRow, PointRow, SeriesRow

pytestmark = pytest.mark.live

QUICK = NoticePolicy(lease_s=1.5, first_wait_s=0.1, longest_wait_s=0.3)


def alert(number=0, of=ALERT):
    return replace(of, id=f"{number:016x}")


def keep_alerts(store, *alerts, state="open"):
    with writing(store.engine) as session:
        session.add_all(
            AlertRow(
                id=one.id,
                key=one.id,
                state=state,
                severity="warning",
                benchmark="b",
                opened_at=0.0,
                changed_at=0.0,
                snoozed_until=None,
                by="",
                document="{}",
                history="[]",
            )
            for one in alerts
        )


def outbox(server):
    state = server.state
    return Notices(state.kept.store.engine, state.clock)


def states(notices):
    return Counter(one.state for one in notices.list(limit=1000))


def all_sent(notices, count):
    return states(notices) == {"sent": count}


def more_looks(server, monkeypatch):
    """Wait until the sender has looked three times more at what it has to send."""
    looks, due = [], Notices.due

    def counted(self):
        found = due(self)
        looks.append(found)
        return found

    monkeypatch.setattr(Notices, "due", counted)
    wait_for(lambda: len(looks) >= 3, what="a look")


@pytest.fixture
def start(serve, write):
    """A server with channels, as their file says; it is quick to try again."""

    def begin(channels, policy=QUICK, **settings):
        path = write("channels.json", json.dumps(channels))
        server = serve(channels=path, public_url="https://assay.example.com", **settings)
        notifying = server.app.state.notifying
        notifying.policy, notifying.every_s, notifying.end_within_s = policy, 0.05, 1.0
        return server

    return begin


def test_every_kind_of_channel_reports_its_receiver_once(start, write, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret-token")
    forge, out = FakeGitHub(), tmp_path / "page.json"
    script = write(
        "page.py", "import sys\nwith open(sys.argv[1], 'a') as out:\n    print(sys.stdin.read(), file=out)\n"
    )
    with (
        receiving() as hook,
        receiving() as chat,
        receiving(Reply(200, body=b"")) as am,
        receiving(forge) as github,
        mail_server() as mail,
    ):
        server = start(
            {
                "hook": {"kind": "webhook", "url": hook.url, "secret": "${env:TOKEN}"},
                "chat": {"kind": "mattermost", "url": chat.url},
                "mail": {
                    "kind": "email",
                    "host": "127.0.0.1",
                    "port": mail.port,
                    "security": "none",
                    "from": "assay@example.com",
                    "to": "team@example.com",
                },
                "issues": {
                    "kind": "github",
                    "url": github.url,
                    "repository": "example/engine",
                    "token": "${env:TOKEN}",
                },
                "am": {"kind": "alertmanager", "url": am.url},
                "page": {"kind": "command", "command": [sys.executable, str(script), str(out)]},
            }
        )
        keep_alerts(server.state.kept.store, ALERT)
        notices = outbox(server)
        notices.put([new_notice(ALERT, EVERY_CHANNEL)])
        wait_for(lambda: all_sent(notices, 7), what="everything sent")
        notices.put([new_notice(RESOLVED, EVERY_CHANNEL)])
        wait_for(lambda: all_sent(notices, 14), what="everything sent")
        more_looks(server, monkeypatch)
        server.stop()
        assert [one.document()["event"] for one in hook.received] == ["opened", "resolved"]
        assert [one.document()["text"][:10] for one in chat.received] == ["[warning] ", "[resolved]"]
        assert [b"Subject: [resolved]" in one.content for one in mail.mails] == [False, True]
        assert (len(forge.issues), forge.issues[0]["state"], len(forge.comments[1])) == (1, "closed", 1)
        assert len({one.document()[0]["endsAt"] for one in am.received}) >= 2
        pages = [json.loads(line) for line in out.read_text().splitlines()]
        assert [one["event"] for one in pages] == ["opened", "resolved"]
        assert {one["url"] for one in pages} == {"https://assay.example.com/alerts/a1e27000a1e27000"}


def test_a_receiver_that_is_down_for_a_while_loses_nothing(start):
    port = free_port()
    server = start({"hook": {"kind": "webhook", "url": f"http://127.0.0.1:{port}"}})
    alerts = [alert(number) for number in range(10)]
    keep_alerts(server.state.kept.store, *alerts)
    notices = outbox(server)
    notices.put([new_notice(one, "hook") for one in alerts])
    wait_for(lambda: max(one.attempts for one in notices.list()) >= 2, what="two tries")
    wait_for(lambda: any("cannot connect to 127.0.0.1" in one.error for one in notices.list()), what="why")
    notices.put([new_notice(replace(RESOLVED, id=one.id), "hook") for one in alerts])
    with receiving(port=port) as hook:
        wait_for(lambda: all_sent(notices, 20), what="everything sent")
        keys = [one.headers["idempotency-key"] for one in hook.received]
        assert len(keys) == len(set(keys)) == 20
        for one in alerts:
            assert keys.index(f"{one.id}:1:hook") < keys.index(f"{one.id}:2:hook")
        server.stop()


def test_bad_answers_are_tried_again_with_the_same_words(start):
    with receiving(Reply(500), Reply(429, {"Retry-After": "1"}), "close", "hang", Reply()) as hook:
        server = start({"hook": {"kind": "webhook", "url": hook.url, "timeout": 3}})
        keep_alerts(server.state.kept.store, ALERT)
        notices = outbox(server)
        notices.put([new_notice(ALERT, "hook")])
        wait_for(lambda: all_sent(notices, 1), what="it was sent")
        server.stop()
    assert len(hook.received) == 5
    assert len({(one.body, one.headers["idempotency-key"]) for one in hook.received}) == 1
    assert hook.received[2].at - hook.received[1].at >= 1.0, "the receiver asked for a pause"
    (kept,) = notices.list()
    assert (kept.attempts, kept.error) == (5, "")


def test_what_is_not_wanted_holds_up_nothing(start, caplog):
    with receiving(Reply(422, body=b"no"), Reply()) as hook, caplog.at_level(logging.INFO, "assay.serve"):
        server = start({"hook": {"kind": "webhook", "url": hook.url}})
        keep_alerts(server.state.kept.store, alert(1), alert(2))
        notices = outbox(server)
        notices.put([new_notice(alert(1), "hook"), new_notice(alert(2), "hook")])
        wait_for(lambda: states(notices) == {"given-up": 1, "sent": 1}, what="both are done with")
        server.stop()
    assert notices.list(state="given-up")[0].error == "127.0.0.1 answered 422 Unprocessable Entity: no"
    assert [record.levelname for record in caplog.records if record.message == "notice given up"] == ["ERROR"]


def test_a_receiver_that_hangs_holds_up_no_other_and_not_the_end_of_the_server(start):
    with receiving("hang") as slow, receiving() as hook:
        server = start(
            {
                "slow": {"kind": "webhook", "url": slow.url, "timeout": "60s"},
                "hook": {"kind": "webhook", "url": hook.url},
            }
        )
        keep_alerts(server.state.kept.store, ALERT)
        notices = outbox(server)
        notices.put([new_notice(ALERT, EVERY_CHANNEL)])
        slow.wait(1)
        hook.wait(1)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 50  # of the sixty that the channel has
        assert [one.state for one in notices.list() if one.channel == "slow"] == ["sending"]


def test_what_waits_is_sent_by_the_server_that_comes_after(start):
    port = free_port()
    channels = {"hook": {"kind": "webhook", "url": f"http://127.0.0.1:{port}"}}
    first = start(channels)
    keep_alerts(first.state.kept.store, ALERT)
    notices = outbox(first)
    notices.put([new_notice(ALERT, "hook")])
    wait_for(lambda: notices.list()[0].attempts, what="a try")
    first.stop()
    with receiving(port=port) as hook:
        second = start(channels)
        wait_for(lambda: all_sent(outbox(second), 1), what="it was sent")
        second.stop()
        assert len(hook.received) == 1


SENDER = """
import sys, time
from pathlib import Path
from assay.clock import SYSTEM_CLOCK
from assay.serve.live.notifications import NoticeSender
from assay.serve.settings import ServerSettings
from assay.serve.state import ServerState
from assay.store.notices import NoticePolicy

state = ServerState(ServerSettings(folder=Path(sys.argv[1]), channels=Path(sys.argv[2])), SYSTEM_CLOCK)
state.ensure_open()
notifying = NoticeSender.of(state)
notifying.policy = NoticePolicy(lease_s=1.5, first_wait_s=0.1, longest_wait_s=0.3)
while True:
    notifying.poll()
    time.sleep(0.05)
"""


def test_a_server_that_is_killed_in_the_middle_loses_nothing_and_the_key_reports_the_repeat(start, tmp_path, write):
    with receiving("hang", Reply()) as hook:
        server = start({})
        keep_alerts(server.state.kept.store, ALERT)
        notices = outbox(server)
        path = write("own.json", json.dumps({"hook": {"kind": "webhook", "url": hook.url, "timeout": "60s"}}))
        command = [sys.executable, "-c", SENDER, str(tmp_path / "server"), str(path)]
        first = subprocess.Popen(command)
        try:
            notices.put([new_notice(ALERT, "hook")])
            hook.wait(1)
        finally:
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
        assert notices.list()[0].state == "sending"
        second = subprocess.Popen(command)
        try:
            wait_for(lambda: all_sent(notices, 1), what="it was sent")
        finally:
            second.kill()
            second.wait()
        one, again = hook.received
        assert one.headers["idempotency-key"] == again.headers["idempotency-key"]
        assert one.body == again.body
        assert notices.list()[0].attempts == 2
        server.stop()


def test_two_servers_on_one_database_send_each_notice_once(start, postgresql, tmp_path):
    url = postgresql.migrated()
    with receiving() as hook:
        channels = {"hook": {"kind": "webhook", "url": hook.url}}
        servers = [start(channels, NoticePolicy(), database_url=url, folder=tmp_path / str(n)) for n in range(2)]
        alerts = [alert(number) for number in range(60)]
        keep_alerts(servers[0].state.kept.store, *alerts)
        notices = outbox(servers[0])
        notices.put([new_notice(one, EVERY_CHANNEL) for one in alerts])
        wait_for(lambda: all_sent(notices, 120), what="everything sent")
        for server in servers:
            server.stop()
        keys = Counter(one.headers["idempotency-key"] for one in hook.received)
        assert len(keys) == 60
        assert set(keys.values()) == {1}


def test_secrets_reach_neither_logs_nor_store(start, tmp_path, monkeypatch, caplog):
    with receiving(Reply(500, body=b"who is s3cret-token?"), "close", Reply()) as hook:
        monkeypatch.setenv("HOOK", f"{hook.url}/s3cret-path")
        monkeypatch.setenv("TOKEN", "s3cret-token")
        with caplog.at_level(logging.DEBUG):
            server = start(
                {
                    "hook": {
                        "kind": "webhook",
                        "url": "${env:HOOK}",
                        "secret": "${env:TOKEN}",
                        "headers": {"Authorization": "Bearer ${env:TOKEN}"},
                    }
                }
            )
            keep_alerts(server.state.kept.store, ALERT)
            notices = outbox(server)
            notices.put([new_notice(ALERT, "hook")])
            wait_for(lambda: all_sent(notices, 1), what="it was sent")
            server.stop()
    assert hook.received[0].path == "/s3cret-path"
    assert not [one for one in caplog.records if one.name.startswith("assay") and "s3cret" in str(one.__dict__)]
    assert "who is ***?" in str([one.__dict__ for one in caplog.records])
    for file in (tmp_path / "server").rglob("*"):
        assert file.is_dir() or b"s3cret" not in file.read_bytes(), file


def test_the_picture_is_looked_up_once_and_kept(start):
    with receiving(Reply(500), Reply()) as hook:
        server = start({"hook": {"kind": "webhook", "url": hook.url}})
        keep_alerts(server.state.kept.store, ALERT)
        with writing(server.state.kept.store.engine) as session:
            session.add(
                SeriesRow(
                    id=MEMBER.series,
                    benchmark="b",
                    metric="ttft_ms",
                    unit="ms",
                    better="lower",
                    point={},
                    labels={},
                    machine={},
                )
            )
            session.flush()
            session.add_all(
                PointRow(
                    series_id=MEMBER.series,
                    job_id=str(n),
                    at=MEMBER.moved.since + 3600 * (n - 20),
                    value=212.0 + 9 * (n >= 20),
                    standard_error=0.5,
                    verdict="valid",
                    context={},
                )
                for n in range(30)
            )
        notices = outbox(server)
        notices.put([new_notice(ALERT, "hook")])
        wait_for(lambda: all_sent(notices, 1), what="it was sent")
        server.stop()
    first, second = (one.document() for one in hook.received)
    assert first == second
    assert first["picture_svg"].count("<circle") == 30
    told = read_notice(notices.list()[0].document, "k")
    assert (len(told.drawing.values), told.drawing.change_at) == (30, 20)


def test_a_channel_that_nobody_has_is_said_once_and_others_are_reported(start, caplog):
    with receiving() as hook, caplog.at_level(logging.INFO, "assay.serve"):
        server = start({"hook": {"kind": "webhook", "url": hook.url}})
        server.app.state.notifying._unclaimed_s = -1e9
        keep_alerts(server.state.kept.store, ALERT)
        notices = outbox(server)
        notices.put([new_notice(ALERT, "gone"), new_notice(ALERT, "hook")])
        hook.wait(1)
        wait_for(lambda: states(notices) == {"sent": 1, "waiting": 1}, what="one was sent")
        server.app.state.notifying._unclaimed_s = -1e9
        wait_for(lambda: [one for one in caplog.records if one.message == "no such channel here"], what="a warning")
        server.stop()


class Recorder(Channel):
    """Keeps what it is given; fails as it is told to."""

    every_s: float | None = None

    @property
    def repeat_s(self):
        return self.every_s

    def send(self, message):
        LOG.append(message)
        if FAILURES:
            raise FAILURES.pop(0)


LOG: list = []
FAILURES: list = []


@pytest.fixture
def recorder(serve):
    LOG.clear()
    FAILURES.clear()
    server = serve()

    def begin(**more):
        notifying = NoticeSender(server.state, {"rec": Recorder(kind="rec", **more)}, QUICK)
        ended = threading.Event()

        def loop():
            while not ended.is_set():
                notifying.poll()
                time.sleep(0.02)

        thread = threading.Thread(target=loop)
        thread.start()
        running.append((notifying, ended, thread))
        keep_alerts(server.state.kept.store, ALERT)
        return notifying, outbox(server)

    running: list = []
    yield begin
    for notifying, ended, thread in running:
        ended.set()
        thread.join()
        notifying.wait()


def test_a_channel_of_others_that_fails_in_its_own_way_is_tried_again_and_not_quoted(recorder):
    FAILURES[:] = [ValueError("s3cret"), NotifyError("later")]
    _, notices = recorder()
    notices.put([new_notice(ALERT, "rec")])
    wait_for(lambda: notices.list()[0].error, what="a failure")
    assert "s3cret" not in notices.list()[0].error
    wait_for(lambda: all_sent(notices, 1), what="it was sent")
    assert len(LOG) == 3


def test_a_place_that_forgets_is_reported_again_while_the_alert_stands(recorder):
    notifying, notices = recorder(every_s=0.1)

    def next_turn():
        last = notifying._repeated["rec"]
        wait_for(lambda: notifying._repeated["rec"] > last, what="the next turn")

    notices.put([new_notice(ALERT, "rec")])
    wait_for(lambda: len(LOG) >= 4, what="it is told again")
    assert {message.key for message in LOG} == {new_notice(ALERT, "rec").key}
    with writing(notifying.state.kept.store.engine) as session:
        session.get_one(AlertRow, ALERT.id).state = "resolved"
    next_turn()  # the one before has ended: a channel has one at a time
    count = len(LOG)
    for _ in range(4):
        next_turn()
    assert len(LOG) == count
    assert notices.list()[0].attempts == 1


def test_who_has_taken_it_already_is_remembered_for_the_next_try(recorder):
    FAILURES[:] = [NotifyError("one of two", done=("a@b",))]
    _, notices = recorder()
    notices.put([new_notice(ALERT, "rec")])
    wait_for(lambda: all_sent(notices, 1), what="it was sent")
    assert [message.done for message in LOG] == [(), ("a@b",)]


def test_a_notice_that_cannot_be_read_is_given_up_and_says_so(recorder):
    _, notices = recorder()
    notices.put([replace(new_notice(ALERT, "rec"), document='{"alert": 1}')])
    wait_for(lambda: states(notices) == {"given-up": 1}, what="it is given up")
    assert "cannot be read" in notices.list()[0].error
    assert LOG == []


def test_a_channels_file_that_is_wrong_keeps_the_server_from_starting(write):
    path = write("channels.yaml", "chat: {kind: slak}\n")
    with pytest.raises(UsageError, match="no such kind of channel"):
        create_app(ServerSettings(channels=path))


@pytest.mark.parametrize(
    ("settings", "url"),
    [({}, "http://127.0.0.1:8080"), ({"port": 0}, ""), ({"public_url": "https://a.b/assay/"}, "https://a.b/assay"),
     ({"root_path": "/x", "port": 9000}, "http://127.0.0.1:9000/x"), ({"host": "::1"}, "http://[::1]:8080")],
)  # fmt: skip
def test_links_lead_to_where_people_find_the_server(settings, url):
    assert ServerSettings(**settings).shown_url == url


def test_the_command_takes_the_file_and_what_a_killed_server_left_is_sent_by_the_next(serve_process, write, tmp_path):
    port = free_port()
    path = write("channels.yaml", f"hook: {{kind: webhook, url: 'http://127.0.0.1:{port}'}}\n")
    process = serve_process("--channels", str(path), "--public-url", "https://assay.example.com")
    with closing(Store(tmp_path / "server")) as store:
        keep_alerts(store, ALERT)
        notices = Notices(store.engine, SYSTEM_CLOCK)
        notices.put([new_notice(ALERT, EVERY_CHANNEL)])
        wait_for(lambda: "notice not sent" in process.log.read_text(), what="a failed try")
        process.kill()
        with receiving(port=port) as hook:
            process.start()
            (request,) = hook.wait(1)
            wait_for(lambda: all_sent(notices, 2), what="it was sent")
            assert request.document()["url"] == "https://assay.example.com/alerts/a1e27000a1e27000"
            assert len(hook.received) == 1


def test_the_command_refuses_a_file_that_is_wrong(write, tmp_path):
    path = write("channels.yaml", "chat:\n  kind: slack\n  url: '${env:NOT_SET}'\n")
    command = [sys.executable, "-m", "assay", "serve", "--store", str(tmp_path / "s"), "--port", "0"]
    done = subprocess.run([*command, "--channels", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{path}:1" in done.stderr
    assert "chat needs the environment variable NOT_SET" in done.stderr
