"""The channels of a server, what became of their newest messages, and a test of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from assay.alert.notify.channels import try_channel
from assay.alert.notify.command import Command
from assay.alert.notify.email_ import Email
from assay.alert.notify.forge import GitHub, GitLab
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Channel as Sender
from assay.alert.notify.protocol import NotifyError
from assay.report.wording import one_line
from assay.serve.facts.records import Channel, ChannelTest
from assay.serve.state import ServerState
from assay.spec.secrets import REFERENCE
from assay.store.notices import Told, told_by

_MOST_MAILBOXES = 3


def channels_of(state: ServerState, senders: Mapping[str, Sender]) -> tuple[Channel, ...]:
    """Every channel by name, with what became of its newest messages."""
    found = told_by(state.kept.store.engine, tuple(senders))
    return tuple(_channel(name, senders[name], found.get(name, Told())) for name in sorted(senders))


def _channel(name: str, sender: Sender, told: Told) -> Channel:
    word: Literal["ok", "failing", "unused"] = "ok" if told.last_sent is not None else "unused"
    word = "failing" if told.error else word
    return Channel(name, sender.kind, place_of(sender), word, told.last_sent, told.error, told.waiting)


def tried(state: ServerState, senders: Mapping[str, Sender], name: str) -> ChannelTest:
    """Send a test message to a channel.

    Raises:
        UsageError: `unknown-channel` if there is none of that name.
    """
    try:
        note = try_channel(senders, name, state.settings.shown_url)
    except NotifyError as failed:
        problem = failed.problem
        return ChannelTest(False, one_line(f"{problem.message}{f'; try: {problem.try_}' if problem.try_ else ''}"))
    return ChannelTest(True, one_line(note or "the test message was taken"))


def place_of(sender: Sender) -> str:
    """Where a channel sends to, in words that hold no secret: hosts, mailboxes, repositories, names of programs."""
    if isinstance(sender, Email):
        more = len(sender.to) - _MOST_MAILBOXES
        return ", ".join(sender.to[:_MOST_MAILBOXES]) + (f" and {more} more" if more > 0 else "")
    if isinstance(sender, GitHub):
        return f"{sender.repository} on {_host(sender.url)}"
    if isinstance(sender, GitLab):
        return f"{sender.project} on {_host(sender.url)}"
    if isinstance(sender, HttpChannel):
        return _host(sender.url)
    # What stands behind the name of a program may be anything.
    return Path(sender.command[0]).name if isinstance(sender, Command) else ""


def _host(url: str) -> str:
    """The host of an address; an address that is itself a secret is only said to be one."""
    host = urlsplit(url).hostname or ""
    return host if host and not REFERENCE.search(url.partition("://")[2].partition("/")[0]) else "a secret address"
