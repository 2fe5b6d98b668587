"""Trying a channel: one message that says it is a test, sent at once and not through the outbox."""

from __future__ import annotations

import difflib
import secrets
import time
from collections.abc import Mapping

from assay.alert.message import Message, Told
from assay.alert.message.compose import compose
from assay.alert.notify.protocol import Channel, NotifyError
from assay.alert.picture.drawing import drawing_of
from assay.alert.records import AlertRecord, Telling
from assay.errors import UsageError
from assay.spec.secrets import redact

_SAYS = (
    "Somebody tries whether this channel works. It does.",
    "Nothing was measured: the picture, where there is one, only shows what pictures look like here.",
)


def try_channel(channels: Mapping[str, Channel], name: str, server: str = "") -> str | None:
    """Send a test message to a channel.

    Returns:
        What was wrong although it was taken; None when nothing was.

    Raises:
        UsageError: `unknown-channel` if there is none of that name.
        NotifyError: if it was not taken, without any secret.
    """
    if name not in channels:
        near = difflib.get_close_matches(name, channels, 1)
        known = f"use one of {', '.join(sorted(channels))}" if channels else "the channels file names none"
        raise UsageError(
            f"there is no channel {name!r}", code="unknown-channel", try_=f"did you mean {near[0]}?" if near else known
        )
    channel = channels[name]
    try:
        return channel.send(trial_message(name, server))
    except NotifyError as failed:
        raise without_secrets(failed, channel) from None


def trial_message(name: str, server: str = "") -> Message:
    now = time.time()
    alert = AlertRecord(
        f"test{secrets.token_hex(6)}",
        "test",
        "finding",
        "open",
        "info",
        "",
        f"A test of the channel {name}",
        _SAYS,
        now,
        now,
        links={"server": "/"} if server else {},
        telling=Telling(1, "opened"),
    )
    steps = [1.0] * 12 + [2.0] * 12
    drawing = drawing_of(
        "a test picture: nothing was measured", steps, [0.1] * 24, [""] * 24, change_at=12, before=1.0, after=2.0
    )
    return compose(f"{alert.id}:1:{name}", Told(alert, drawing, prepared=True), server, test=True)


def without_secrets(failed: NotifyError, channel: Channel) -> NotifyError:
    """The same failure, with nothing in its words that the channel keeps secret."""
    names = channel.secret_names()
    problem = failed.problem
    return NotifyError(
        redact(problem.message, names),
        retry=failed.retry,
        after_s=failed.after_s,
        done=failed.done,
        code=problem.code,
        at=redact(problem.at, names),
        try_=redact(problem.try_, names),
    )
