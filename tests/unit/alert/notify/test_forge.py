"""Issues on GitHub and GitLab: one per alert, whatever gets lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.alert.notify.forges import FakeGitHub, FakeGitLab
from tests.unit.alert.notify.receivers import Reply, receiving
from tests.unit.alert.notify.samples import ALERT, REOPENED, RESOLVED, message

from assay.alert.notify.forge import GitHub, GitLab, mark
from assay.alert.notify.protocol import NotifyError


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    monkeypatch.setenv("FORGE_TOKEN", "s3cret")


@pytest.fixture(params=["github", "gitlab"])
def forge(request):
    """A forge, and a function that makes a channel to it."""
    fake = FakeGitHub() if request.param == "github" else FakeGitLab()
    with receiving(fake) as receiver:

        def channel(**more):
            common = {"url": receiver.url, "token": "${env:FORGE_TOKEN}", **more}
            if request.param == "github":
                return GitHub(kind="github", repository="example/engine", **common)
            return GitLab(kind="gitlab", project="group/engine", **common)

        yield fake, channel


def persistent(channel, told):
    """Send as the outbox does: again and again until it was taken."""
    for _ in range(10):
        try:
            return channel.send(told)
        except NotifyError as failed:
            if not failed.retry:
                raise
    raise AssertionError("never taken")


def is_open(issue):
    return issue["state"] in ("open", "opened")


def test_an_alert_is_one_issue_from_its_opening_to_its_end(forge):
    fake, channel = forge
    one = channel()
    one.send(message())
    (issue,) = fake.issues
    assert issue["title"] == ALERT.title
    assert "+4.4 % \\[+2.1 %, +6.6 %\\]" in issue[fake.body]
    assert "| commit | a1b2c3d | e4f5a6b |" in issue[fake.body]
    assert "assay" in str(issue["labels"])
    assert is_open(issue)
    one.send(message(RESOLVED))
    assert not is_open(issue)
    one.send(message(REOPENED))
    assert is_open(issue)
    assert len(fake.issues) == 1
    assert ["Resolved" in fake.comments[1][0]["body"], "Reopened" in fake.comments[1][1]["body"]] == [True, True]
    assert fake.tokens in ({"Bearer s3cret"}, {"s3cret"})


def test_another_alert_is_another_issue(forge):
    fake, channel = forge
    channel().send(message())
    channel().send(message(replace(ALERT, id="b1e27000b1e27000")))
    assert len(fake.issues) == 2


@pytest.mark.parametrize("lost", [{1}, {1, 2}, {2}, {3}, {2, 3}, {4, 5}, {1, 2, 3, 4, 5}])
def test_an_answer_that_gets_lost_makes_nothing_twice(forge, lost):
    fake, channel = forge
    fake.lost = lost
    for alert in (ALERT, RESOLVED, REOPENED):
        persistent(channel(), message(alert))
    assert len(fake.issues) == 1
    assert len(fake.comments[1]) == 2
    assert is_open(fake.issues[0])


def test_a_notice_that_is_sent_twice_is_written_once(forge):
    fake, channel = forge
    for alert in (ALERT, ALERT, RESOLVED, RESOLVED):
        channel().send(message(alert))
    assert (len(fake.issues), len(fake.comments[1])) == (1, 1)


def test_comments_can_all_go_to_one_issue(forge):
    fake, channel = forge
    fake.add({"title": "all alerts", "body": "x", "description": "x", "labels": "" if fake.body != "body" else []})
    one = channel(issue=1)
    for told in (message(), message(RESOLVED), message(RESOLVED)):
        one.send(told)
    assert len(fake.issues) == 1
    assert [mark("notice", message().key) in text["body"] for text in fake.comments[1]] == [True, False]
    assert is_open(fake.issues[0])


def test_an_issue_that_is_not_there_is_for_another_to_repair(forge):
    _, channel = forge
    with pytest.raises(NotifyError, match="404") as caught:
        channel(issue=99).send(message())
    assert caught.value.retry
    assert caught.value.after_s == 900.0


def test_a_test_leaves_no_open_issue(forge):
    fake, channel = forge
    channel().send(message(event="test"))
    assert not is_open(fake.issues[0])


def test_the_issue_is_found_among_many(forge):
    fake, channel = forge
    channel().send(message())
    for number in range(230):
        fake.add(
            {
                "title": str(number),
                "body": "x",
                "description": ALERT.id if number % 2 else "",
                "labels": ["assay"] if fake.body == "body" else "assay",
            }
        )
    channel().send(message(RESOLVED))
    assert len(fake.issues) == 231
    assert not is_open(fake.issues[0])


def test_on_github_an_issue_whose_label_was_not_set_is_found_all_the_same():
    fake = FakeGitHub(sets_labels=False)
    with receiving(fake) as receiver:
        one = GitHub(kind="github", url=receiver.url, repository="example/engine", token="${env:FORGE_TOKEN}")
        one.send(message())
        one.send(message(RESOLVED))
    assert len(fake.issues) == 1


def test_pull_requests_are_no_issues():
    fake = FakeGitHub()
    with receiving(fake) as receiver:
        fake.add({"title": "x", "body": mark("alert", ALERT.id), "labels": ["assay"]})
        fake.issues[0]["pull_request"] = {}
        GitHub(kind="github", url=receiver.url, repository="example/engine", token="${env:FORGE_TOKEN}").send(message())
    assert len(fake.issues) == 2


def test_nobody_is_called_by_a_name(forge):
    fake, channel = forge
    channel().send(message(replace(ALERT, sentences=("ask @octocat about #12",))))
    text = fake.issues[0][fake.body]
    assert "@octocat" not in text
    assert "#12" not in text
    assert "octocat" in text


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"number": "x"}'])
def test_an_answer_that_is_none_of_the_api_is_an_error_in_words(body):
    with receiving(Reply(200, body=b"[]"), Reply(200, body=b"[]"), Reply(200, body=body)) as receiver:
        one = GitHub(kind="github", url=receiver.url, repository="example/engine", token="${env:FORGE_TOKEN}")
        with pytest.raises(NotifyError) as caught:
            one.send(message())
    assert caught.value.retry
    assert "s3cret" not in str(caught.value)


def test_addresses_of_ones_own_are_used():
    github = GitHub(kind="github", repository="a/b", token="${env:T}")
    gitlab = GitLab(kind="gitlab", project=7, token="${env:T}")
    assert (github.url, gitlab.url) == ("https://api.github.com", "https://gitlab.com")
