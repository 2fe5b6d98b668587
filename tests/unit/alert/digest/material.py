"""DigestMaterial for digests: a week with something of everything, an empty one, and one with hostile names."""

from __future__ import annotations

import math
from random import Random

from assay.alert.digest.records import (
    AlertSummary,
    DigestMaterial,
    FailedJob,
    Movement,
    RecordedDifference,
    ResultLink,
    SeriesHealth,
    SeriesLabel,
)
from assay.report.html.series import SeriesPoint

DAY = 86_400.0
UNTIL = 1_767_225_600.0  # 2026-01-01
SINCE = UNTIL - 7 * DAY
COMMIT = RecordedDifference("commit", "a" * 40, "b" * 40)
DRIVER = RecordedDifference("driver", "550.54.15", "560.35.03")


def named(metric="latency_ms", benchmark="image classifier", point="batch=8", unit="ms", better="lower") -> SeriesLabel:
    return SeriesLabel(
        f"id-{benchmark}-{point}-{metric}", benchmark, metric, unit, better, point, "AMD EPYC 9454P, 48 cores"
    )


def watched(
    series=None, *, last_at=UNTIL - DAY / 2, points=365, spread=0.01, memory=0.0, recent=(), **more
) -> SeriesHealth:
    return SeriesHealth(series or named(), points, last_at, recent, "steady", spread, memory, **more)


def moved(
    series=None, *, at=UNTIL - 3 * DAY, change=0.06, answer="worse", cause="code", differs=(COMMIT,), **more
) -> Movement:
    known = {
        "id": "f1",
        "kind": "step",
        "good_at": at - DAY,
        "end_at": at,
        "before": 71.5,
        "after": 71.5 * (1 + change),
        "low": change - 0.01,
        "high": change + 0.01,
        "probability": 0.998,
        "found_at": at + DAY,
        "why": ("commit changed from aaaaaaaaaaaa to bbbbbbbbbbbb",),
        "good": ResultLink("c1-job-1", at - DAY, command="assay results show c1 --job 1"),
        "bad": ResultLink("c2-job-1", at, href="http://127.0.0.1:8080/api/v1/jobs/c2-job-1"),
    }
    return Movement(
        series=series or named(), at=at, change=change, answer=answer, cause=cause, differs=differs, **(known | more)
    )


def told(id_="a1", state="acknowledged", *, changed_at=UNTIL - DAY, findings=(), **more) -> AlertSummary:
    known = {
        "severity": "warning",
        "benchmark": "image classifier",
        "title": "latency_ms is worse by 6 %",
        "opened_at": changed_at - DAY,
        "by": "alice",
        "sentences": ("worse by 6 % [5, 7]",),
    }
    return AlertSummary(id_, state, changed_at=changed_at, findings=findings, **(known | more))


def nightly(last: float, count: int = 30) -> tuple[float, ...]:
    return tuple(last - DAY * (count - 1 - place) for place in range(count))


def week() -> DigestMaterial:
    """A week with something of everything."""
    chat = named("ttft_ms", "chat service", "", "ms")
    rate = named("throughput_per_s", unit="1/s", better="higher")
    training = named("images_per_s", "training", "", "1/s", "higher")
    movements = (
        moved(),
        moved(rate, change=-0.0566, id="f2", before=111.9, after=105.6),
        moved(
            chat,
            change=-0.12,
            answer="better",
            cause="environment",
            differs=(DRIVER, COMMIT),
            id="f3",
            before=182.0,
            after=160.2,
            state="expected",
            why=("driver changed from 550 to 560",),
        ),
        moved(
            named("epoch_s", "training", "", "s"),
            change=0.03,
            answer="cannot tell",
            cause="noise",
            differs=(),
            id="f4",
            because=("the interval of the change reaches over zero",),
            why=(),
        ),
    )
    failed = (
        FailedJob(
            "chat service", "llama3.1", "error[out-of-memory] while loading: killed", UNTIL - 2 * DAY, UNTIL - 2 * DAY
        ),
        FailedJob(
            "chat service",
            "llama3.1",
            "error[out-of-memory] while loading: killed",
            UNTIL - DAY,
            UNTIL - DAY,
            link=ResultLink("c9-job-0", UNTIL - DAY, command="assay results show c9 --job 0"),
        ),
    )
    series = (
        watched(),
        watched(rate),
        watched(chat, spread=0.05),
        watched(training, last_at=UNTIL - 6 * DAY, recent=nightly(UNTIL - 6 * DAY)),
        watched(named("energy_per_item_j", "training", "", "J"), spread=0.08, memory=0.4),
    )
    alerts = (told(findings=("f1", "f2")), told("a2", "open", title="agent gpu-02 is lost", by=""))
    return DigestMaterial("a store", series, movements, failed, alerts)


def spots(level: float = 71.5, nights: int = 120, seed: int = 1) -> list[SeriesPoint]:
    """A series with a step in its last days, ten nights without results, a failed job and a wild point."""
    draw = Random(seed)
    found = []
    for place in range(nights):
        at = UNTIL - DAY * (nights - place)
        if 40 <= place < 50:
            continue
        value = level * math.exp(0.012 * draw.gauss(0, 1)) * (1.06 if at >= UNTIL - 3 * DAY else 1)
        value *= 1.6 if place == 77 else 1
        found.append(
            SeriesPoint(at, None if place == 60 else value, 0.004 * level, "suspect" if place % 17 == 0 else "valid")
        )
    return found


def hostile() -> DigestMaterial:
    """Every text that a user can choose tries to become markup."""
    bad = '<script>alert(1)</script>"|`*_[x](y)\x1b[31m\nsecond line 模型'
    series = SeriesLabel("id-bad", bad, bad, "ms", "lower", bad, bad)
    movement = moved(
        series,
        differs=(RecordedDifference(bad, bad, bad),),
        why=(bad,),
        id="f9",
        bad=ResultLink(bad, UNTIL - DAY, href='javascript:alert(1)"'),
        good=ResultLink(bad, UNTIL, command=bad),
    )
    failed = FailedJob(bad, bad, bad, UNTIL - DAY, UNTIL - DAY)
    return DigestMaterial(
        bad, (watched(series, spread=0.2),), (movement,), (failed,), (told(title=bad, sentences=(bad,)),)
    )
