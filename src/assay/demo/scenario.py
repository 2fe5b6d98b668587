"""The scenario of the demo year: its benchmarks, what happens to code and machines, and which campaigns run when."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np

from assay.demo.machines import DemoMachine
from assay.plan.schedule import due_between
from assay.spec.schedule import Schedule

LABELS = {"demo": "simulated"}
Kind = Literal["model", "llm", "search", "conversation", "vector", "program", "device"]
_SAID = "Simulated: nothing of this was measured. "
_VLLM = {"image": "docker://vllm/vllm-openai:v0.8.5", "command": "vllm serve meta-llama/Llama-3.1-8B-Instruct",
         "ready": {"http": "/health", "within": "10m"}, "needs": {"gpus": 1}}  # fmt: skip
_LLAMA = {"service": "llm", "api": "openai-chat", "model": "meta-llama/Llama-3.1-8B-Instruct", "metrics": "/metrics"}
What = Literal["step", "drift", "span"]
Ends = Literal["well", "one failed", "all failed", "cancelled", "lost once", "busy", "running", "waiting"]
# How often a campaign ends otherwise than well.
_OTHERWISE: Mapping[Ends, float] = {"one failed": 0.05, "all failed": 0.015, "cancelled": 0.02, "lost once": 0.03,
                                    "busy": 0.05}  # fmt: skip
_NEWEST = 2
# Days between two campaigns, at least → when they are due.
_DUE = ((30.0, "{} {} 1 * *"), (15.0, "{} {} 1,15 * *"), (7.0, "{} {} * * 1"), (3.5, "{} {} * * 1,4"),
        (2.3, "{} {} * * 1,3,5"), (1.0, "{} {} * * *"), (0.0, "{} * * * *"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Study:
    """One benchmark, where it runs, and how often."""

    name: str
    kind: Kind
    document: Mapping[str, Any]
    machine: str
    """The machine that measures jobs which name none themselves."""
    weight: float
    """Its share of all campaigns, beside the others."""
    hour: int
    """At which it begins."""
    scheduled: bool = True
    by: str = "demo-ci"

    @property
    def pinned(self) -> Mapping[str, Any]:
        """The file as it is submitted: jobs that name no machine go to the one of the study."""
        if "needs.agent" in self.document.get("matrix", {}):
            return self.document
        return {**self.document, "needs": {**self.document.get("needs", {}), "agent": self.machine}}

    @property
    def machines(self) -> set[str]:
        """All that its jobs run on."""
        return set(self.document.get("matrix", {}).get("needs.agent", ())) or {self.machine}


def _document(name: str, about: str, team: str, **sections: Any) -> dict[str, Any]:  # noqa: ANN401  (a file's sections)
    return {"benchmark": name, "description": f"{_SAID}{about}", "labels": {**LABELS, "team": team}, **sections}


_CLASSIFIER = _document(
    "demo image classifier",
    "SqueezeNet on a server's processor, over batch and threads.",
    "vision",
    target={"model": "https://models.example/squeezenet-1.1.onnx", "runtime": "onnxruntime", "device": "cpu"},
    measure={"runs": 5},
    matrix={"workload.batch": [1, 8, 32], "target.threads": [1, 4, 16]},
    alerts=[{"metric": "latency_ms", "when": "worse", "by": "3%", "notify": ["team-vision"]}],
)
_EDGE = _document(
    "demo edge classifier",
    "MobileNet on small machines: which of them keeps up with a camera.",
    "vision",
    target={"model": "https://models.example/mobilenet-v3.onnx", "runtime": "onnxruntime", "device": "cpu"},
    objective={"latency_ms.p95": 120},
    matrix={
        "needs.agent": ["demo-pi-01", "demo-laptop-01", "demo-mac-mini-01", "demo-jetson-01", "demo-pi-03"],
        "workload.batch": [1, 4],
    },
    alerts=[
        {"when": "job failed", "notify": ["team-vision"]},
        {"metric": "latency_ms", "when": "worse", "by": "5%", "notify": ["team-vision"]},
    ],
)
_RESNET = _document(
    "demo resnet50 on a GPU",
    "ResNet-50 through ONNX Runtime on an H100, with its energy.",
    "vision",
    target={"model": "https://models.example/resnet50.onnx", "runtime": "onnxruntime", "device": "cuda"},
    prices={"gpu=h100": {"per_hour": 5.9, "currency": "USD", "date": "2026-01-15"}},
    matrix={"workload.batch": [1, 8, 32, 128]},
    alerts=[{"metric": "latency_ms", "when": "worse", "notify": ["team-vision"]}],
)
_CHAT = _document(
    "demo chat capacity",
    "Llama 3.1 8B under rising load: how late the first token comes, and how even the others.",
    "chat",
    services={"llm": _VLLM},
    target=_LLAMA,
    workload={"task": "wikipedia-summary", "output_tokens": 128},
    load={"arrivals": "poisson", "duration": "120s"},
    objective={"ttft_ms.p99": 500, "itl_ms.p99": 50},
    measure={"runs": 3, "interval": "10%"},
    matrix={"load.rate": [1, 2, 4, 8, 12, 16]},
    alerts=[
        {"metric": "ttft_ms.p99", "when": "worse", "by": "5%", "notify": ["team-chat"], "severity": "critical"},
        {"metric": "itl_ms", "when": "worse", "by": "3%", "notify": ["team-chat"]},
        {"when": "job failed", "notify": ["team-chat"]},
    ],
)
_SEARCH = _document(
    "demo requests a GPU can carry",
    "The highest rate at which Llama 3.1 8B keeps its promise, by machine.",
    "chat",
    services={"llm": _VLLM},
    target=_LLAMA,
    workload={"task": "synthetic", "input_tokens": 512, "output_tokens": 128},
    load={"rate": "search"},
    objective={"ttft_ms.p99": 500, "itl_ms.p99": 50},
    measure={"runs": 3, "interval": "10%"},
    prices={
        "gpu=h100": {"per_hour": 5.9, "date": "2026-01-15"},
        "gpu=a100": {"per_hour": 3.4, "date": "2026-01-15"},
        "gpu=l4": {"per_hour": 0.8, "date": "2026-01-15"},
    },
    matrix={"needs.agent": ["demo-h100-01", "demo-a100-01", "demo-l4-01", "demo-workstation-01"]},
)
_TALK = _document(
    "demo assistant conversations",
    "Conversations of four turns with a hosted endpoint; answers are kept.",
    "chat",
    target={
        "endpoint": "https://llm.example/v1",
        "api": "openai-chat",
        "model": "assistant-large",
        "price": {"input": 0.5, "output": 1.5},
    },
    workload={"task": "conversation", "turns": 4, "output_tokens": 96, "keep_outputs": True},
    load={"duration": "60s"},
    measure={"runs": 3, "interval": "15%", "errors": "2%"},
    matrix={"load.concurrency": [1, 4, 16]},
    alerts=[{"metric": "e2e_ms", "when": "worse", "by": "10%", "notify": ["team-chat"]}],
)
_VECTOR = _document(
    "demo vector search",
    "A million vectors in Qdrant: what recall costs in speed.",
    "search",
    services={"db": {"image": "docker://qdrant/qdrant:v1.13.4", "ready": {"http": "/readyz"}}},
    target={"service": "db", "api": "qdrant", "index": {"m": 16, "ef_construct": 128}},
    workload={"task": "knn", "corpus": {"vectors": 1_000_000, "dims": 384}, "k": 10},
    load={"duration": "20s"},
    matrix={"target.search.ef": [16, 64, 256], "load.concurrency": [1, 8]},
    alerts=[{"metric": "throughput_per_s", "when": "worse", "by": "5%", "notify": ["team-search"]}],
)
_TRAINING = _document(
    "demo training throughput",
    "One epoch of a small vision model.",
    "vision",
    target={
        "command": "python train.py --epochs 1",
        "metrics": [
            {"name": "images_per_s", "unit": "1/s", "better": "higher", "pattern": r"speed: ([-+.\deE]+)"},
            {"name": "accuracy", "better": "higher", "pattern": r"accuracy: ([-+.\deE]+)"},
        ],
    },
    matrix={"needs.agent": ["demo-workstation-01", "demo-h100-01"]},
    alerts=[
        {"metric": "images_per_s", "when": "worse", "by": "2%", "notify": ["team-vision"]},
        {"when": "silent", "after": "60d", "notify": ["team-vision"]},
    ],
)
_DEVICE = _document(
    "demo what the GPUs can do",
    "Memory bandwidth, and arithmetic by precision.",
    "platform",
    target={"device": "cuda", "compare": True},
    measure={"runs": 3},
    matrix={"needs.agent": ["demo-h100-01", "demo-a100-01", "demo-l4-01", "demo-workstation-01"]},
)
_PROCESSORS = _document(
    "demo what the processors can do",
    "Memory bandwidth, arithmetic and storage of the other machines.",
    "platform",
    target={"device": "cpu"},
    measure={"runs": 3},
    matrix={"needs.agent": ["demo-server-01", "demo-xeon-01", "demo-pi-01", "demo-laptop-01", "demo-mac-mini-01"]},
)

STUDIES: tuple[Study, ...] = (
    Study("demo image classifier", "model", _CLASSIFIER, "demo-server-01", 52, 3),
    Study("demo chat capacity", "llm", _CHAT, "demo-h100-01", 46, 1),
    Study("demo training throughput", "program", _TRAINING, "demo-workstation-01", 30, 5),
    Study("demo vector search", "vector", _VECTOR, "demo-xeon-01", 22, 2),
    Study("demo resnet50 on a GPU", "model", _RESNET, "demo-h100-01", 16, 6),
    Study("demo edge classifier", "model", _EDGE, "demo-pi-01", 12, 9, scheduled=False, by="alice"),
    Study("demo assistant conversations", "conversation", _TALK, "demo-laptop-01", 8, 11, scheduled=False, by="bob"),
    Study("demo requests a GPU can carry", "search", _SEARCH, "demo-h100-01", 6, 13, scheduled=False, by="carol"),
    Study("demo what the GPUs can do", "device", _DEVICE, "demo-h100-01", 5, 15, scheduled=False, by="alice"),
    Study("demo what the processors can do", "device", _PROCESSORS, "demo-server-01", 3, 16, scheduled=False),
)


@dataclass(frozen=True, slots=True)
class Shift:
    """Something that moves numbers, or only stands beside them."""

    at: float
    """When, as a share of the whole time."""
    what: What = "step"
    until: float = 1.0
    """When a drift has come to its end, or a span is over."""
    study: str = ""
    """The benchmark that it moves; any when empty."""
    machine: str = ""
    """The machine that it happens to; any when empty."""
    slower: float = 0.0
    """By how much longer things take, as a share."""
    heavier: float = 0.0
    """By how much more memory is taken, as a share."""
    commit: bool = False
    """Whether it came with new code."""
    driver: str = ""
    kernel: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    hot: bool = False
    """Whether the machine holds its clocks down meanwhile."""
    note: str = ""

    def share(self, now: float) -> float:
        """How much of it is there at a moment."""
        if now < self.at or (self.what == "span" and now > self.until):
            return 0.0
        return min(1.0, (now - self.at) / (self.until - self.at)) if self.what == "drift" else 1.0


CHANGES: tuple[Shift, ...] = (
    Shift(0.16, study="demo image classifier", slower=0.07, commit=True, note="a lock around the cache of tensors"),
    Shift(0.27, study="demo image classifier", slower=-0.065, commit=True, note="the lock is gone again"),
    Shift(0.33, machine="demo-h100-01", driver="575.51.03", note="a new driver"),
    Shift(0.33, study="demo chat capacity", machine="demo-h100-01", slower=0.12, note="which the chat does not like"),
    Shift(0.38, "drift", 0.62, study="demo training throughput", machine="demo-workstation-01", slower=0.11,
           note="slower and slower, and nothing that is recorded says why"),
    Shift(0.45, machine="demo-server-01", kernel="6.1.0-31-amd64", note="a new kernel without effect"),
    Shift(0.52, study="demo vector search", slower=-0.14, heavier=0.1, commit=True, note="vectors are quantised"),
    Shift(0.58, study="demo chat capacity", slower=-0.16, commit=True, note="prefixes are kept"),
    Shift(0.66, "span", 0.71, machine="demo-server-01", study="demo image classifier", slower=0.09, hot=True,
           note="a broken fan"),
    Shift(0.74, machine="demo-server-01", packages={"onnxruntime": "1.23.0", "numpy": "2.3.1"},
           study="demo image classifier", slower=-0.05, note="a new runtime"),
    Shift(0.80, machine="demo-xeon-01", kernel="6.1.0-32-amd64", note="a new kernel"),
    Shift(0.86, study="demo resnet50 on a GPU", slower=0.06, commit=True, note="a transpose too many"),
    Shift(0.90, study="demo vector search", slower=0.11, commit=True, note="a filter is applied twice"),
    Shift(0.93, study="demo chat capacity", slower=0.13, commit=True, note="the tokenizer is called twice"),
    Shift(0.95, study="demo image classifier", slower=0.055, heavier=0.04, commit=True, note="a copy too many"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conditions:
    """How things stand for one benchmark on one machine at one time."""

    slower: float
    """Times are this many times as long."""
    heavier: float
    hot: bool
    commit: str
    machine: DemoMachine
    """With the software of the day."""


def moment(study: str, machine: DemoMachine, now: float, seed: int) -> Conditions:
    slower, heavier, hot, commits = 1.0, 1.0, False, int(now * 90)
    for change in CHANGES:
        here = change.machine in ("", machine.name)
        if change.share(now) <= 0:
            continue
        commits += 1000 * change.commit
        if here and change.study in ("", study):
            slower *= 1 + change.share(now) * change.slower
            heavier *= 1 + change.share(now) * change.heavier
            hot = hot or change.hot
        if here and change.machine:
            packages = {**machine.packages, **change.packages}
            machine = replace(
                machine,
                driver=change.driver or machine.driver,
                kernel=change.kernel or machine.kernel,
                packages=packages,
            )
    commit = hashlib.sha1(f"{seed}/{study}/{commits}".encode(), usedforsecurity=False).hexdigest()
    return Conditions(slower, heavier, hot, commit, machine)


def chance(*parts: object) -> np.random.Generator:
    """A source of chance of its own for each thing that is drawn: another thing changes nothing."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@dataclass(frozen=True, slots=True)
class CampaignEntry:
    """One campaign that is to be played."""

    study: Study
    at: datetime
    ends: Ends
    age: float
    """Its place in the whole time: 0 is the first day, 1 the last."""
    number: int
    """Counts the campaigns of its study, from 0."""
    newest: bool = False
    """Whether it is one of the last of its study."""


def cron_of(study: Study, count: int, days: int) -> str:
    """How often a study runs by itself, so that it runs about `count` times in `days`."""
    every = days / max(count, 1)
    form = next(form for longest, form in _DUE if every >= longest)
    return form.format(10 * (study.hour % 6), study.hour)


def shares(campaigns: int) -> dict[str, int]:
    """Study → its share of the campaigns, at least one each."""
    whole = sum(study.weight for study in STUDIES)
    counts = {study.name: max(1, round(campaigns * study.weight / whole)) for study in STUDIES}
    counts[STUDIES[0].name] = max(1, counts[STUDIES[0].name] + campaigns - sum(counts.values()))
    return counts


def entries(campaigns: int, days: int, now: datetime, seed: int) -> list[CampaignEntry]:
    """All campaigns, the oldest first; all begin before now."""
    entries: list[CampaignEntry] = []
    first = now - timedelta(days=days)
    for study in STUDIES:
        count = shares(campaigns)[study.name]
        moments = _moments(study, count, days, first, now, seed)
        for number, at in enumerate(moments):
            age = (at - first) / (now - first)
            ends, newest = _ending(study, number, len(moments), seed), number >= len(moments) - _NEWEST
            entries.append(CampaignEntry(study, at, ends, age, number, newest))
    entries.sort(key=lambda entry: entry.at)
    return entries


def _moments(study: Study, count: int, days: int, first: datetime, now: datetime, seed: int) -> Sequence[datetime]:
    if study.scheduled:
        return due_between(Schedule(cron=cron_of(study, count, days)), first, now, count)
    draw = chance(seed, study.name, "moments")
    step = (now - first) / count
    moments = [first + step * (place + float(draw.uniform(0.1, 0.9))) for place in range(count)]
    at_hour = [at.replace(hour=study.hour, minute=int(draw.integers(0, 60)), second=0, microsecond=0) for at in moments]
    return [at if at < now else at - timedelta(days=1) for at in at_hour]


def _ending(study: Study, number: int, count: int, seed: int) -> Ends:
    if number == count - 1:
        return "well"
    draw = float(chance(seed, study.name, "ending", number).random())
    for ends, share in _OTHERWISE.items():
        if draw < share:
            return ends
        draw -= share
    return "well"
