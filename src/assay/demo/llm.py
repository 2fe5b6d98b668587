"""Runs of a language model behind an API, of a search for its capacity, and of conversations; with its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from assay.demo.scene import DrawnRun, Scene, Values
from assay.run.records import SampleSet
from assay.run.scoring.outputs import OUTPUTS, Output, as_asked, write_outputs

_MOST_TURNS = 60
_TOPICS = {
    "lighthouse": (
        "A lighthouse is a tower that sends out light, so that ships find their way along a coast.",
        "Its lamp stands behind a lens that gathers the light into a beam.",
        "Most of them work by themselves today, and keepers are no longer needed.",
    ),
    "bread": (
        "Bread is baked from flour, water and salt, and often raised by yeast.",
        "Flat breads are older than those that rise.",
        "In many places it is eaten with every meal.",
    ),
    "glacier": (
        "A glacier is a body of ice that moves under its own weight.",
        "It forms where more snow falls than melts, year after year.",
        "As it moves, it grinds the rock below and carries stones along.",
    ),
    "violin": (
        "The violin is a wooden instrument with four strings, played with a bow.",
        "Its top is of spruce, its back of maple.",
        "It leads the orchestra, and is at home in folk music all over the world.",
    ),
    "tides": (
        "Tides are the rise and fall of the sea, caused by the moon and the sun.",
        "They come twice a day on most coasts.",
        "In narrow bays the water may rise by more than ten metres.",
    ),
}
_TALK = (
    ("How do I boil an egg?", "Put it into boiling water for seven minutes, then into cold water."),
    ("And if I want it soft?", "Then five minutes are enough, and eat it right away."),
    ("Does its size matter?", "Yes: give a large one half a minute more."),
    ("Thank you!", "You are welcome. Enjoy your breakfast!"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """One article that was summed up: the first sentences of what should have been said."""

    topic: str
    sentences: int

    @property
    def text(self) -> str:
        return " ".join(_TOPICS[self.topic][: self.sentences])

    @property
    def reference(self) -> str:
        return " ".join(_TOPICS[self.topic])

    def scores(self) -> dict[str, float]:
        """How far the answer overlaps with the reference: as it is the beginning of it, by their lengths alone."""
        own, whole = len(self.text.split()), len(self.reference.split())
        single, pairs = 2 * own / (own + whole), 2 * (own - 1) / (own + whole - 2)
        return {"rouge_1": single, "rouge_2": pairs, "rouge_l": single}


def summaries(scene: Scene, count: int) -> list[Summary]:
    """Answers of a model that sums up articles: some short, most good."""
    names = tuple(_TOPICS)
    lengths = scene.draw.choice((1, 2, 3), size=count, p=(0.25, 0.55, 0.2)).tolist()
    return [Summary(names[place % len(names)], length) for place, length in enumerate(lengths)]


def write_answers(scene: Scene, run: int, sent: DrawnRequests, answers: Sequence[Summary]) -> Path:
    """The answers of a run that sums up articles, each with what it was asked."""
    outputs = []
    for place, answer in enumerate(answers):
        prompt = f"Sum up in three sentences: {' '.join(reversed(_TOPICS[answer.topic]))}"
        more = _as_sent(sent, place, place, 0, prompt)
        outputs.append(Output(answer.topic, place, 0, answer.text, answer.reference, {}, "ok", more))
    return _write(scene, run, outputs)


def write_conversations(scene: Scene, run: int, sent: DrawnRequests, failed: int) -> Path:
    """The answers of a run that talks: turn after turn, of which the first ones failed."""
    outputs = []
    for place in range(min(_MOST_TURNS, len(sent))):
        session, turn = divmod(place, len(_TALK))
        prompt, answer = _TALK[turn]
        more = _as_sent(sent, place, session, turn, prompt)
        if place < failed:
            more |= {"finish_reason": None, "error": "the server was overloaded", "output_tokens": 0}
            more |= {"ttft_ms": None, "e2e_ms": None}
            outputs.append(Output("kitchen", session, turn, "", None, {}, "status", more))
        else:
            outputs.append(Output("kitchen", session, turn, answer, None, {}, "ok", more))
    return _write(scene, run, outputs)


def _as_sent(sent: DrawnRequests, place: int, session: int, turn: int, prompt: str) -> dict[str, JsonValue]:
    return {
        **as_asked(prompt),
        "finish_reason": "stop",
        "request_id": f"demo-{session:04x}-{turn}",
        "error": None,
        "input_tokens": int(sent.input[place]),
        "output_tokens": int(sent.output[place]),
        "ttft_ms": round(float(sent.ttft_ms[place]), 3),
        "e2e_ms": round(float(sent.e2e_ms[place]), 3),
    }


def _write(scene: Scene, run: int, outputs: list[Output]) -> Path:
    path = scene.scratch / f"run-{run}-{OUTPUTS}"
    write_outputs(path, outputs)
    return path


# Requests a second at which an H100 is full, and its times when it is not.
_FULL_PER_S = 18.0
_TTFT_MS, _ITL_MS = 62.0, 8.6
_OUTPUT_TOKENS, _INPUT_TOKENS = 128, 420
_MEASURE_S, _WARMUP_S = 120.0, 5.0
_MOST_GAPS, _FEW_GAPS = 6000, 1200
_PROBE_S = 20.0
_STEPS = (0.06, 0.12, 0.25, 0.5, 0.9, 0.75, 0.82, 0.86, 0.84)
_SAFE = 0.83
"""Share of the full rate at which the objective is still met."""
_SECONDS = 60.0
_TURN_TTFT_MS, _TURN_ITL_MS = 340.0, 17.0
_TOKENS = 96
_CENTS_IN, _CENTS_OUT = 0.5, 1.5


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRequests:
    """The requests of one run, in the order in which they were due."""

    due_s: Values
    ttft_ms: Values
    tpot_ms: Values
    gaps_ms: Values
    """Some of all gaps between tokens."""
    output: NDArray[np.float64]
    input: NDArray[np.float64]

    @property
    def e2e_ms(self) -> Values:
        """From the moment a request was due to the end of its answer."""
        return self.ttft_ms + self.tpot_ms * (self.output - 1)

    def __len__(self) -> int:
        return int(self.due_s.size)


def capacity_per_s(scene: Scene) -> float:
    """The rate at which the machine is full at this time."""
    return float(_FULL_PER_S * max(scene.machine.gpu_speed, 0.02) ** 0.8 / scene.moment.slower)


def requests_at(scene: Scene, per_s: float, seconds: float) -> DrawnRequests:
    """What a service answers to requests at a rate."""
    count = max(30, int(scene.draw.poisson(per_s * seconds)))
    load = per_s / capacity_per_s(scene)
    slow = scene.between_runs() * scene.moment.slower / max(scene.machine.gpu_speed, 0.02) ** 0.45
    waits = 1 + 0.55 * min(load, 0.96) / (1 - min(load, 0.96))
    ttft = _TTFT_MS * slow * waits * np.exp((0.16 + 0.24 * min(load, 1.2)) * scene.draw.normal(size=count))
    if load > 0.95:  # a queue that grows until the end
        ttft += np.linspace(0, 1000 * seconds * (load - 0.95), count)
    gap = _ITL_MS * slow * (1 + 0.75 * min(load, 1.1))
    tpot = gap * np.exp(0.05 * scene.draw.normal(size=count))
    output = np.clip(scene.draw.normal(0.93 * _OUTPUT_TOKENS, 9, count).round(), 40, _OUTPUT_TOKENS)
    gaps = scene.times(gap, min(_MOST_GAPS if scene.rich else _FEW_GAPS, int(output.sum())), 0.16, tail=0.02)
    due = np.sort(scene.draw.random(count) * seconds)
    entered = np.clip(scene.draw.normal(_INPUT_TOKENS, 90, count).round(), 60, 900)
    return DrawnRequests(due, ttft, tpot, gaps, output, entered)


def samples_of(
    scene: Scene, sent: DrawnRequests, seconds: float, answers: Sequence[Summary] = ()
) -> tuple[SampleSet, ...]:
    """The samples of a run; answers that were scored have a sample of each score."""
    at = (sent.due_s * 1e9).astype(np.int64)
    delay = np.abs(scene.draw.normal(0.06, 0.03, len(sent)))
    columns: dict[str, Values] = {
        "ttft_ms": sent.ttft_ms,
        "tpot_ms": sent.tpot_ms,
        "e2e_ms": sent.e2e_ms,
        "service_ms": sent.e2e_ms - delay,
        "schedule_delay_ms": delay,
        "input_tokens": sent.input,
        "output_tokens": sent.output,
        "user_tokens_per_s": 1000 / sent.tpot_ms,
    }
    scores = [answer.scores() for answer in answers]
    columns |= {name: np.array([score[name] for score in scores]) for name in (scores[0] if scores else ())}
    sample_sets = [SampleSet(name, "measure", at, values) for name, values in columns.items()]
    gaps_at = scene.moments_ns(sent.gaps_ms.size, seconds)
    return (*sample_sets, SampleSet("itl_ms", "measure", gaps_at, sent.gaps_ms))


def totals_of(scene: Scene, sent: DrawnRequests, seconds: float) -> dict[str, float]:
    limits = {name.partition(".")[0]: limit for name, limit in scene.job.definition.objective.items()}
    in_time = (sent.ttft_ms <= limits.get("ttft_ms", np.inf)) & (sent.tpot_ms <= limits.get("itl_ms", np.inf))
    ended = (sent.due_s * 1000 + sent.e2e_ms) <= 1000 * seconds
    totals = {
        "throughput_per_s": float(ended.sum()) / seconds,
        "offered_per_s": len(sent) / seconds,
        "concurrency": float(sent.e2e_ms.sum()) / 1000 / seconds,
        "error_rate": 0.0,
        "skipped": 0.0,
        "input_tokens_per_s": float(sent.input[ended].sum()) / seconds,
        "output_tokens_per_s": float(sent.output[ended].sum()) / seconds,
        "client_cpu_pct": 4.0 + 0.6 * len(sent) / seconds,
        "client_ceiling_pct": 0.4 * len(sent) / seconds,
        "client_wait_pct": 0.2,
    }
    return totals | ({"goodput_per_s": float((in_time & ended).sum()) / seconds} if limits else {})


def facts_of(sent: DrawnRequests, seconds: float, totals: Mapping[str, float]) -> dict[str, JsonValue]:
    stops = int((sent.output < _OUTPUT_TOKENS).sum())
    return {
        "requests": {"due": len(sent), "ok": len(sent), "unfinished": 0, "skipped": 0, "failed": 0, "warmup": 20},
        "errors": {},
        "statuses": {"200": len(sent)},
        "load": {
            "offered_per_s": totals["offered_per_s"],
            "delivered_per_s": totals["throughput_per_s"],
            "window_s": seconds,
            "clients": 1,
            "stopped": "finished",
            "warmup": {"steady": True},
        },
        "finish_reasons": {"stop": stops, "length": len(sent) - stops},
        "tokens": {
            "input": {"source": "server usage"},
            "output": {"source": "server usage"},
            "bundled": False,
            "tokens_per_chunk": {"mean": 1.0, "max": 1},
        },
        "lengths": {
            "output": {"asked": {"median": float(_OUTPUT_TOKENS)}, "counted": {"median": float(np.median(sent.output))}}
        },
    }


def view_of(scene: Scene, sent: DrawnRequests) -> dict[str, JsonValue]:
    """What the server itself would say of the same window: a little less, since it does not see the way."""
    first, between = "vllm:time_to_first_token_seconds", "vllm:time_per_output_token_seconds"
    seen = {
        "ttft_ms.p50": (float(np.quantile(sent.ttft_ms, 0.5)), first),
        "ttft_ms.p99": (float(np.quantile(sent.ttft_ms, 0.99)), first),
        "itl_ms.mean": (float(sent.gaps_ms.mean()), between),
    }
    figures: dict[str, JsonValue] = {
        name: {"value": value * float(scene.draw.uniform(0.96, 0.995)), "from": source}
        for name, (value, source) in seen.items()
    }
    return {"llm": figures}


def llm_run(scene: Scene, number: int) -> DrawnRun:
    """A run of a job with a fixed rate."""
    rate = scene.job.definition.load.rate
    per_s = float(rate) if isinstance(rate, int | float) else 1.0
    sent = requests_at(scene, per_s, _MEASURE_S)
    answers = summaries(scene, len(sent)) if scene.job.definition.workload.task == "wikipedia-summary" else []
    totals = totals_of(scene, sent, _MEASURE_S)
    load = min(1.0, per_s / capacity_per_s(scene))
    metrics = {
        **totals,
        "start_to_ready_s": 48.0 * scene.between_runs(),
        "load_ms": 31_000.0 * scene.between_runs(),
        "first_ms": _TTFT_MS * 5.5 * scene.between_runs() * (1.6 if number == 0 else 1.0),
    }
    phases = {
        "prepare": 1.2,
        "load": 31.0,
        "first": metrics["first_ms"] / 1000,
        "warmup": _WARMUP_S,
        "measure": _MEASURE_S,
        "score": 2.0,
        "cleanup": 1.0,
    }
    facts: dict[str, JsonValue] = {
        **facts_of(sent, _MEASURE_S, totals),
        "server_view": view_of(scene, sent),
        "engine": {"name": "vLLM", "version": "0.8.5"},
    }
    files = {OUTPUTS: write_answers(scene, number, sent, answers)} if scene.rich and answers else {}
    return DrawnRun(
        phases,
        metrics,
        samples_of(scene, sent, _MEASURE_S, answers),
        facts,
        work=0.25 + 0.7 * load,
        rss_mb=9400.0,
        files=files,
    )


def search_run(scene: Scene, _number: int) -> DrawnRun:
    """A run of a job with `rate: search`."""
    full = capacity_per_s(scene) * scene.between_runs()
    probes: list[JsonValue] = []
    best: tuple[float, DrawnRequests] | None = None
    lowest_missed = full
    for step in _STEPS:
        rate = round(step * full, 3)
        sent = requests_at(scene, rate, _PROBE_S)
        judged: dict[str, JsonValue] = {
            "ttft_ms.p99": float(np.quantile(sent.ttft_ms, 0.99)),
            "itl_ms.p99": float(np.quantile(sent.gaps_ms, 0.99)),
        }
        meets = step <= _SAFE + 0.005 * float(scene.draw.normal())
        sure: bool | None = meets if abs(step - _SAFE) > 0.015 else None
        word = {True: "is kept", False: "is missed", None: "is undecided with so few samples"}[sure]
        why = f"ttft_ms.p99 is {judged['ttft_ms.p99']:.0f} ms: the objective {word}"
        probes.append({"rate": rate, "duration_s": _PROBE_S, "meets": sure, "why": why, "judged": judged})
        if sure and (best is None or rate > best[0]):
            best = (rate, sent)
        if sure is False:
            lowest_missed = min(lowest_missed, rate)
    capacity, sent = best or (round(_STEPS[0] * full, 3), requests_at(scene, _STEPS[0] * full, _PROBE_S))
    totals = totals_of(scene, sent, _PROBE_S)
    objective: dict[str, JsonValue] = dict(scene.job.definition.objective)
    search: dict[str, JsonValue] = {
        "objective": objective,
        "probes": probes,
        "capacity": capacity,
        "low": capacity,
        "high": lowest_missed,
        "reason": f"{capacity:.3g} requests/s meet the objective, and {lowest_missed:.3g} do not",
    }
    phases = {
        "prepare": 1.1,
        "load": 33.0,
        "first": 0.4,
        "warmup": 5.0,
        "measure": _PROBE_S * len(_STEPS),
        "score": 1.0,
        "cleanup": 1.0,
    }
    metrics = {**totals, "capacity_per_s": capacity, "start_to_ready_s": 47.0 * scene.between_runs()}
    facts: dict[str, JsonValue] = {**facts_of(sent, _PROBE_S, totals), "search": search}
    samples = samples_of(scene, sent, _PROBE_S)
    return DrawnRun(phases, metrics, samples, facts, work=0.9, rss_mb=9400.0)


def conversation_run(scene: Scene, number: int) -> DrawnRun:
    users = scene.job.definition.load.concurrency or 1
    slow = scene.between_runs() * scene.moment.slower * (1 + 0.02 * users)
    each_s = (_TURN_TTFT_MS + _TURN_ITL_MS * _TOKENS) * slow / 1000
    count = max(20, int(users * _SECONDS / each_s))
    ttft = _TURN_TTFT_MS * slow * np.exp(0.28 * scene.draw.normal(size=count))
    tpot = _TURN_ITL_MS * slow * np.exp(0.08 * scene.draw.normal(size=count))
    output = np.full(count, float(_TOKENS))
    gaps = scene.times(_TURN_ITL_MS * slow, min(3000, count * _TOKENS), 0.2, tail=0.03)
    entered = np.clip(scene.draw.normal(210, 80, count).round(), 20, 700)
    sent = DrawnRequests(np.linspace(0, _SECONDS - each_s, count), ttft, tpot, gaps, output, entered)
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
    return DrawnRun(phases, metrics, samples_of(scene, sent, _SECONDS), facts, work=0.05, rss_mb=140.0, files=files)
