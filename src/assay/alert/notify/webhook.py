"""A JSON document to any address, signed so that the receiver knows whom it is from and when it was sent."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Literal

from pydantic import Field, field_validator

from assay.alert.message import Message
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Secret, payload, revealed

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
        """Post the message as a document."""
        body = json.dumps(payload(message), ensure_ascii=False).encode()
        stamp = int(time.time())
        headers = {name: revealed(value) for name, value in self.headers.items()}
        headers |= {KEY: message.key, TIMESTAMP: str(stamp)}
        if self.secret is not None:
            headers[SIGNATURE] = signature(revealed(self.secret), stamp, body)
        self.caller().ask("POST", revealed(self.url), body, headers)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a dot and the body: `v1=` and 64 hexadecimal digits."""
    digest = hmac.new(secret.encode(), str(timestamp).encode() + b"." + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"
