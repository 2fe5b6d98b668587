"""Alerts to tell people about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from assay.alert.message import Message, NoticeDocument, compose
from assay.alert.picture import drawing_of
from assay.alert.records import AlertMember, AlertRecord, FindingSummary, HistoryLine, NotificationState
from assay.analyse.records import Interval
from assay.analyse.series.causes import FactorDifference

AT = 1_735_786_800.0  # 2025-01-02 03:00 UTC
SAYS = "ttft_ms.p99 · rate=4 · h200: 212 ms → 221 ms, +4.4 % [+2.1 %, +6.6 %], since 2025-01-02 03:00 UTC"
CAUSE = "code: commit a1b2c3d → e4f5a6b"
DIFFERS = (FactorDifference("commit", "a1b2c3d", "e4f5a6b"), FactorDifference("driver", "550.54", "560.35"))
MOVED = FindingSummary(
    "f00dfeedf00dfeed",
    "open",
    "worse",
    212.0,
    221.4,
    9.4,
    Interval(4.5, 14.1, 0.95, "t"),
    0.0443,
    Interval(0.021, 0.0664, 0.95, "t"),
    0.987,
    AT,
    cause="code",
    differs=DIFFERS,
)
MEMBER = AlertMember(
    "f00dfeedf00dfeed",
    "ttft_ms.p99 · rate=4 · h200",
    "standing",
    AT,
    "e1",
    SAYS,
    "r1",
    benchmark="chat capacity",
    metric="ttft_ms.p99",
    unit="ms",
    series="0123456789abcdef",
    finding="f00dfeedf00dfeed",
    moved=MOVED,
)
ALERT = AlertRecord(
    "a1e27000a1e27000", "key", "finding", "open", "warning", "chat capacity", "ttft_ms.p99 of chat capacity is worse",
    (SAYS, f"What may explain it: {CAUSE}."), AT, AT, members=(MEMBER,),
    cause=CAUSE, differs=DIFFERS, links={"alert": "/alerts/a1e27000a1e27000", "series": "/series/0123456789abcdef"},
    telling=NotificationState(1, "opened"), history=(HistoryLine(AT, "occur", "open", "", ""),),
)  # fmt: skip
RESOLVED = replace(
    ALERT,
    state="resolved",
    changed_at=AT + 3600,
    telling=NotificationState(2, "resolved"),
    history=(*ALERT.history, HistoryLine(AT + 3600, "recover", "resolved", "", "it recovered")),
)
REOPENED = replace(
    RESOLVED,
    state="open",
    changed_at=AT + 7200,
    telling=NotificationState(3, "reopened"),
    history=(*RESOLVED.history, HistoryLine(AT + 7200, "occur", "open", "", "")),
)
SERVER = "https://assay.example.com"


def drawing(count: int = 40, change_at: int | None = 25) -> Any:
    values = [212.0 + (index % 5) * 0.5 + (9.4 if change_at and index >= change_at else 0.0) for index in range(count)]
    days = [f"2025-01-{1 + index % 28:02d}" for index in range(count)]
    return drawing_of("ttft_ms.p99", values, [0.6] * count, days, change_at=change_at, before=213.0, after=222.4)


def message(alert: AlertRecord = ALERT, *, channel: str = "here", picture: bool = True, **more: Any) -> Message:
    told = NoticeDocument(alert, drawing() if picture else None, prepared=True)
    made = compose(f"{alert.id}:{alert.telling.turn}:{channel}", told, SERVER)
    return replace(made, **more)
