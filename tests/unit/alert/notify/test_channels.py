"""The channels file: read strictly, with errors that name the line, and silent about secrets."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from assay.alert.notify.channels import OURS, find_kind, kind_names, read_channels
from assay.alert.notify.email_ import Email
from assay.alert.notify.forge import GitHub
from assay.errors import UsageError

ENV = {"HOOK": "s3cret-hook", "TOKEN": "s3cret-token", "PASSWORD": "s3cret-password"}
ALL = """
chat: {kind: slack, url: "${env:HOOK}", channel: "#perf"}
other-chat: {kind: mattermost, url: https://chat.example.com/hooks/abc}
hook: {kind: webhook, url: https://hooks.example.com/assay, secret: "${env:HOOK}", headers: {X-Team: perf}}
mail:
  kind: email
  host: smtp.example.com
  user: assay
  password: ${env:PASSWORD}
  from: assay <assay@example.com>
  to: [team@example.com, Boss <boss@example.com>]
issues: {kind: github, repository: example/engine, token: "${env:TOKEN}", labels: [perf]}
lab: {kind: gitlab, url: https://git.example.com, project: group/engine, token: "${env:TOKEN}", issue: 7}
am: {kind: alertmanager, url: http://localhost:9093, labels: {team: perf}, repeat: 2m, timeout: 5s}
page: {kind: command, command: [/usr/local/bin/page, --team, perf], env: {KEY: "${env:TOKEN}"}}
"""


def wrong(write, text, env=ENV):
    with pytest.raises(UsageError) as caught:
        read_channels(write("channels.yaml", text), env)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_every_kind_is_read(write):
    channels = read_channels(write("channels.yaml", ALL), ENV)
    assert list(channels) == ["chat", "other-chat", "hook", "mail", "issues", "lab", "am", "page"]
    mail = channels["mail"]
    assert isinstance(mail, Email)
    assert (mail.security, mail.to) == ("starttls", ("team@example.com", "Boss <boss@example.com>"))
    assert isinstance(channels["issues"], GitHub)
    assert (channels["am"].timeout, channels["am"].repeat_s) == (5.0, 120.0)
    assert channels["chat"].repeat_s is None


def test_toml_and_json_are_read_too(write):
    toml = write("channels.toml", '[chat]\nkind = "slack"\nurl = "${env:HOOK}"\n')
    json = write("channels.json", '{"chat": {"kind": "slack", "url": "${env:HOOK}"}}')
    assert read_channels(toml, ENV) == read_channels(json, ENV)


def test_a_channel_shows_references_and_never_what_they_stand_for(write, monkeypatch):
    monkeypatch.setenv("HOOK", ENV["HOOK"])
    (channel,) = read_channels(write("c.yaml", 'chat: {kind: slack, url: "${env:HOOK}"}')).values()
    assert "s3cret" not in repr(channel) + str(channel) + channel.model_dump_json()
    assert channel.secret_names() == ("HOOK",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chat:\n  kind: slak\n  url: https://x/y\n",
         ("channels.yaml:2", 'chat.kind is "slak"', "did you mean slack?")),
        ("chat:\n  kind: slack\n  ulr: https://x/y\n",
         ("channels.yaml:3", "chat.ulr is not a key of a channel of kind slack", "did you mean url?",
          "chat.url is missing")),
        ("chat:\n  url: https://x/y\n", ("channels.yaml:1", "chat.kind is missing", "alertmanager, command")),
        ("chat: https://x/y\n", ("channels.yaml:1", "chat: a mapping of keys is needed")),
        ("my chat: {kind: slack, url: https://x/y}\n", ("'my chat' is not a valid channel name",)),
        ("chat: {kind: slack, url: ftp://x/y}\n", ("chat.url: an address that begins with https:// or http://",)),
        ("chat: {kind: slack, url: 'https://u:s3cret@x/y'}\n", ("a password is not written out in an address",)),
        ("git:\n  kind: github\n  repository: engine\n  token: s3cret\n",
         ("channels.yaml:3", "owner/name is needed", "channels.yaml:4", "a secret is not written out in a file",
          "token: ${env:GIT_TOKEN}")),
        ("mail:\n  kind: email\n  host: h\n  from: me\n  to: []\n",
         ("mail.from: an e-mail address", "mail.to: at least one is needed")),
        ("mail: {kind: email, host: h, from: a@b, to: c@d, user: u}\n", ("user and password belong together",)),
        ("mail: {kind: email, host: h, from: a@b, to: c@d, user: u, password: '${env:PASSWORD}', security: none}\n",
         ("a password is not sent without protection",)),
        ("mail: {kind: email, host: h, from: a@b, to: c@d, security: ssl}\n", ('mail.security is "ssl"',)),
        ("mail: {kind: email, host: h, from: a@b, to: c@d, port: 70000}\n", ("mail.port is 70000",)),
        ("am: {kind: alertmanager, url: http://x, labels: {a-b: c}}\n", ("'a-b' is no label",)),
        ("am: {kind: alertmanager, url: http://x, repeat: 1h, lasts: 1h}\n", ("lasts must be at least twice",)),
        ("page: {kind: command, command: page --now}\n", ("page.command: a list is needed",)),
        ("page: {kind: command, command: []}\n", ("page.command: at least one is needed",)),
        ("hook: {kind: webhook, url: https://x, headers: {assay-signature: x}}\n", ("is set by assay",)),
        ("hook: {kind: webhook, url: https://x, timeout: 10m}\n", ('hook.timeout is "10m"',)),
        ("chat: {kind: slack, url: '${env:NOT_SET}'}\n",
         ("chat needs the environment variable NOT_SET, which is not set", "export NOT_SET=")),
        ("chat: {kind: slack, url: https://x}\nchat: {kind: slack, url: https://x}\n", ("chat is given twice",)),
        ("- a\n- b\n", ("a channels file is a mapping of keys",)),
        ("a: [\n", ("not valid YAML",)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line_and_what_to_do(write, text, said):
    shown = wrong(write, text)
    for part in said:
        assert part in shown


def test_every_problem_is_said_at_once(write):
    shown = wrong(write, "a: {kind: slack}\nb: {kind: github, token: x}\nc: {kind: nothing}\n")
    assert shown.count("error[") == 4
    assert shown.index("a.url") < shown.index("b.repository") < shown.index("c.kind")


def test_a_file_that_is_not_there_is_said_to_be_a_channels_file(tmp_path):
    with pytest.raises(UsageError, match="cannot read the channels file"):
        read_channels(tmp_path / "none.yaml")


def test_an_empty_variable_is_as_good_as_none(write):
    assert "not set" in wrong(write, "chat: {kind: slack, url: '${env:HOOK}'}\n", {"HOOK": ""})


def test_ours_are_those_that_the_package_registers():
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["assay.notifiers"] == OURS
    for name in OURS:
        kind = find_kind(name)
        assert kind is not None
        assert name in str(kind.model_fields["kind"].annotation)


PLUGIN = """
from typing import Literal
from assay.alert.notify import Channel, NotifyError

class Bell(Channel):
    kind: Literal["bell"]
    strokes: int = 1

    def send(self, message):
        raise NotifyError(f"the bell is cracked after {self.strokes}", retry=False)

class NoChannel:
    pass
"""


def test_a_package_of_others_adds_a_kind(write, tmp_path, monkeypatch):
    write("site/bells.py", PLUGIN)
    write("site/bells-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: bells\nVersion: 1\n")
    write(
        "site/bells-1.dist-info/entry_points.txt",
        "[assay.notifiers]\nbell = bells:Bell\nodd = bells:NoChannel\ngone = bells:Nothing\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (bell,) = read_channels(write("c.yaml", "b: {kind: bell, strokes: 3}"), {}).values()
    with pytest.raises(Exception, match="cracked after 3"):
        bell.send(None)
    assert "bell" in kind_names()
    assert "b.strokes" in wrong(write, "b: {kind: bell, strokes: many}")
    assert "is no Channel" in wrong(write, "b: {kind: odd}")
    assert "cannot be loaded" in wrong(write, "b: {kind: gone}")


def test_who_uses_one_channel_needs_the_secrets_of_that_one_alone(write):
    path = write("c.yaml", "a: {kind: slack, url: '${env:A}'}\nb: {kind: slack, url: '${env:B}'}\n")
    assert list(read_channels(path, {"A": "http://x"}, only="a")) == ["a", "b"]
    with pytest.raises(UsageError, match="a needs the environment variable A"):
        read_channels(path, {"B": "http://x"}, only="a")
