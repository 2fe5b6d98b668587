"""Conversations with somebody's endpoint: closed loop, several turns, some requests that fail."""

from __future__ import annotations

import numpy as np
from pydantic import JsonValue

from assay.demo.runs.answers import write_conversations
from assay.demo.runs.llm import Requests, facts_of, samples_of
from assay.demo.runs.record import Drawn, outcomes
from assay.demo.scene import Scene
from assay.run.records import RunOutcome
from assay.run.scoring.outputs import OUTPUTS

_SECONDS = 60.0
_TTFT_MS, _ITL_MS = 340.0, 17.0
_TOKENS = 96
_CENTS_IN, _CENTS_OUT = 0.5, 1.5


def conversation_runs(scene: Scene) -> list[RunOutcome]:
    users = scene.job.definition.load.concurrency or 1
    return outcomes(scene, [_run(scene, users, number) for number in range(scene.runs)])


def _run(scene: Scene, users: int, number: int) -> Drawn:
    slow = scene.between_runs() * scene.moment.slower * (1 + 0.02 * users)
    each_s = (_TTFT_MS + _ITL_MS * _TOKENS) * slow / 1000
    count = max(20, int(users * _SECONDS / each_s))
    ttft = _TTFT_MS * slow * np.exp(0.28 * scene.draw.normal(size=count))
    tpot = _ITL_MS * slow * np.exp(0.08 * scene.draw.normal(size=count))
    output = np.full(count, float(_TOKENS))
    gaps = scene.times(_ITL_MS * slow, min(3000, count * _TOKENS), 0.2, tail=0.03)
    entered = np.clip(scene.draw.normal(210, 80, count).round(), 20, 700)
    sent = Requests(np.linspace(0, _SECONDS - each_s, count), ttft, tpot, gaps, output, entered)
    failed = int(scene.draw.binomial(count, 0.004))
    metrics = {
        "throughput_per_s": (count - failed) / _SECONDS,
        "offered_per_s": count / _SECONDS,
        "concurrency": 0.99 * users,
        "error_rate": failed / count,
        "skipped": 0.0,
        "output_tokens_per_s": float(output.sum()) / _SECONDS,
        "input_tokens_per_s": float(entered.sum()) / _SECONDS,
        "cost": (_CENTS_IN * float(entered.sum()) + _CENTS_OUT * float(output.sum())) / 1e6,
        "client_cpu_pct": 3.1,
        "client_ceiling_pct": 0.9,
    }
    metrics["cost_per_million_output"] = metrics["cost"] / float(output.sum()) * 1e6
    facts: dict[str, JsonValue] = {**facts_of(sent, _SECONDS, metrics), "cost": {"currency": "USD"}}
    if failed:
        facts["errors"] = {"status 503": {"count": failed, "first": "the server was overloaded"}}
    phases = {"prepare": 0.3, "first": 0.9, "warmup": 4.0, "measure": _SECONDS, "score": 0.6, "cleanup": 0.2}
    files = {OUTPUTS: write_conversations(scene, number, sent, failed)} if scene.rich else {}
    return Drawn(phases, metrics, samples_of(scene, sent, _SECONDS), facts, work=0.05, rss_mb=140.0, files=files)
