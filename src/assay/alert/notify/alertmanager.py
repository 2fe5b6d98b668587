"""Prometheus Alertmanager: an alert stands there until it is resolved, and is told again meanwhile."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from assay.alert.message import Message, began_at
from assay.alert.notify.http import HttpChannel
from assay.alert.notify.protocol import Secret, revealed
from assay.clock import SYSTEM_CLOCK, iso
from assay.spec.section import Duration

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
    """How often it is told again what still stands: it forgets when it is restarted."""
    lasts: Duration = Field(default=86_400.0, ge=60.0)
    """How long it may believe that an alert stands when it is told nothing more."""

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
        """It has to be told again and again."""
        return self.repeat

    def send(self, message: Message) -> None:
        """Say that the alert stands, or that it is over."""
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
