"""Incoming webhooks of Slack, and of Mattermost and others that understand the same documents."""

from __future__ import annotations

import re
from typing import Any, Literal

from assay.alert.message import Message
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Name, revealed

# Both refuse or cut longer ones.
_LONGEST_TEXT = 2800
_MOST_FIELDS = 10
_COLOURS = {"critical": "#b3202a", "warning": "#b57600", "info": "#0b5cad"}
_RESOLVED = "#176f33"
_MENTION = re.compile(r"@(?=\w)")


class Slack(HttpChannel):
    """A conversation of a chat."""

    kind: Literal["slack", "mattermost"]
    channel: Name | None = None
    """Another conversation than that of the webhook, where it allows that."""
    username: Name | None = None
    """The name to speak under, where the webhook allows that."""

    def send(self, message: Message) -> None:
        self.caller().post(revealed(self.url), self._document(message), {"Idempotency-Key": message.key})

    def _document(self, message: Message) -> dict[str, Any]:
        fields = [
            {"title": escaped(one.name), "value": escaped(one.sentence), "short": False}
            for one in message.rows[:_MOST_FIELDS]
        ]
        attachment: dict[str, Any] = {
            "fallback": escaped(message.subject),
            "color": _RESOLVED if message.event == "resolved" else _COLOURS.get(message.alert.severity, ""),
            "title": escaped(message.alert.title),
            "text": _cut("\n".join(escaped(line) for line in message.lines)),
            "fields": fields,
            "footer": f"assay · {escaped(message.alert.benchmark)}",
            "ts": int(message.at),
        }
        if message.url:
            attachment["title_link"] = message.url
        out: dict[str, Any] = {"text": escaped(message.subject), "attachments": [attachment]}
        out |= {"channel": self.channel} if self.channel else {}
        return out | ({"username": self.username} if self.username else {})


def escaped(text: str) -> str:
    """Text that stays text: no markup, and nobody is called by a name in it."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("@\N{ZERO WIDTH SPACE}", safe)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 2]} …"
