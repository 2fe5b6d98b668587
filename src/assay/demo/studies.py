"""The benchmarks of the demo: what a team that takes care of several systems would watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

LABELS = {"demo": "simulated"}
Kind = Literal["model", "llm", "search", "conversation", "vector", "program", "device"]
_SAID = "Simulated: nothing of this was measured. "


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
_VLLM = {"image": "docker://vllm/vllm-openai:v0.8.5", "command": "vllm serve meta-llama/Llama-3.1-8B-Instruct",
         "ready": {"http": "/health", "within": "10m"}, "needs": {"gpus": 1}}  # fmt: skip
_LLAMA = {"service": "llm", "api": "openai-chat", "model": "meta-llama/Llama-3.1-8B-Instruct", "metrics": "/metrics"}
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
    "Conversations of four turns with somebody's endpoint; answers are kept.",
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
