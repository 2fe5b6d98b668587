"""Webhooks: signed JSON documents to any address, Slack and Mattermost, and Prometheus Alertmanager."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from assay.alert.message import Message, began_at
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Name, Secret, payload, revealed
from assay.clock import SYSTEM_CLOCK, iso
from assay.spec.section import Duration

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
            {"title": escaped(row.name), "value": escaped(row.sentence), "short": False}
            for row in message.rows[:_MOST_FIELDS]
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
    """Text that stays text: no markup and no mentions."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("@\N{ZERO WIDTH SPACE}", safe)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 2]} …"


TIMESTAMP = "Assay-Timestamp"
SIGNATURE = "Assay-Signature"
KEY = "Idempotency-Key"

_OURS = {name.lower() for name in (TIMESTAMP, SIGNATURE, KEY, "Content-Type", "Content-Length", "Host")}


class Webhook(HttpChannel):
    """A receiver of JSON documents."""

    kind: Literal["webhook"]
    secret: Secret | None = None
    """What the signature is made with; nothing is signed when left out."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers to send along."""

    @field_validator("headers")
    @classmethod
    def _are_free(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.lower() in _OURS:
                raise ValueError(f"the header {name} is set by assay")
        return value

    def send(self, message: Message) -> None:
        body = json.dumps(payload(message), ensure_ascii=False).encode()
        stamp = int(time.time())
        headers = {name: revealed(value) for name, value in self.headers.items()}
        headers |= {KEY: message.key, TIMESTAMP: str(stamp)}
        if self.secret is not None:
            headers[SIGNATURE] = signature(revealed(self.secret), stamp, body)
        self.caller().call("POST", revealed(self.url), body, headers)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a dot and the body: `v1=` and 64 hexadecimal digits."""
    digest = hmac.new(secret.encode(), str(timestamp).encode() + b"." + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


_LABEL = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
# What ends an alert there; everything else says that it stands.
_OVER = ("resolved", "expected")
_TEST_S = 300.0


class Alertmanager(HttpChannel):
    """An Alertmanager, by the address under which its own page is found."""

    kind: Literal["alertmanager"]
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that every alert carries, for its routes."""
    token: Secret | None = None
    """Bearer token, where something in front of it asks for one."""
    repeat: Duration = Field(default=60.0, ge=10.0, le=86_400.0)
    """How often standing alerts are sent again: it forgets them when it is restarted."""
    lasts: Duration = Field(default=86_400.0, ge=60.0)
    """How long an alert stands in it without a further message."""

    @field_validator("labels")
    @classmethod
    def _are_labels(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _LABEL.match(name) or not text:
                raise ValueError(f"{name!r} is no label: a name of letters, digits and _ and a value are needed")
        return value

    @model_validator(mode="after")
    def _lasts_until_repeated(self) -> Alertmanager:
        if self.lasts < 2 * self.repeat:
            raise ValueError("lasts must be at least twice as long as repeat, or alerts end in between")
        return self

    @property
    def repeat_s(self) -> float | None:
        """Alertmanager needs every alert repeated."""
        return self.repeat

    def send(self, message: Message) -> None:
        now = SYSTEM_CLOCK.utc()
        address = revealed(self.url).rstrip("/") + "/api/v2/alerts"
        headers = {"Idempotency-Key": message.key}
        headers |= {"Authorization": f"Bearer {revealed(self.token)}"} if self.token else {}
        self.caller().post(address, [self._alert(message, now)], headers)

    def _alert(self, message: Message, now: datetime) -> dict[str, Any]:
        alert = message.alert
        began = datetime.fromtimestamp(began_at(alert), UTC)
        if message.event in _OVER:
            until = max(datetime.fromtimestamp(message.at, UTC), began)
        else:
            until = now + timedelta(seconds=_TEST_S if message.event == "test" else self.lasts)
        own = {"alertname": "assay", "assay_alert": alert.id, "benchmark": alert.benchmark, "severity": alert.severity}
        out: dict[str, Any] = {
            "labels": {**self.labels, **{name: text for name, text in own.items() if text}},
            "annotations": {"summary": message.subject, "description": message.text},
            "startsAt": iso(began),
            "endsAt": iso(until),
        }
        return out | ({"generatorURL": message.url} if message.url else {})
