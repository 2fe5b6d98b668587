"""Options that stand for keys of the benchmark file; imports nothing, since help and completion load it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SERVED = ("endpoint", "service")
MODELS = ("model", "language model")
LOADED = (*SERVED, "library")
READERS = (*SERVED, "language model", "library")
_ANY = (*READERS, "model", "command", "device")


@dataclass(frozen=True, slots=True)
class Flag:
    """An option that stands for a key of the benchmark file."""

    name: str
    path: str
    kinds: tuple[str, ...]
    """Kinds of target that have this key."""
    meaning: str
    is_text: bool = False
    """Whether its value is text, however it looks."""
    short: str = ""

    @property
    def key(self) -> str:
        return self.name.removeprefix("--").replace("-", "_")


FLAGS = (
    Flag("--device", "target.device", (*MODELS, "device"), "Where it must run: cpu, cuda, cuda:1, …", is_text=True),
    Flag("--batch", "workload.batch", (*MODELS, *SERVED), "Items in one call."),
    Flag("--threads", "target.threads", (*MODELS, "library", "device"), "Threads inside one operator."),
    Flag("--runtime", "target.runtime", MODELS, "onnxruntime, torch or transformers.", is_text=True),
    Flag("--api", "target.api", SERVED, "Protocol; the endpoint is asked if left out.", is_text=True),
    Flag("--model", "target.model", SERVED, "Model; the first that it lists if left out.", is_text=True),
    Flag(
        "--tokenizer",
        "target.tokenizer",
        SERVED,
        "What counts tokens if the server does not: a folder, a tokenizer.json, a GGUF file, or a name on the hub.",
        is_text=True,
    ),
    Flag("--input-tokens", "workload.input_tokens", READERS, "Length of every prompt."),
    Flag("--output-tokens", "workload.output_tokens", READERS, "Length of every answer."),
    Flag("--rate", "load.rate", SERVED, "Requests per second, whether or not earlier ones have ended."),
    Flag("--concurrency", "load.concurrency", LOADED, "Requests in flight; 8 without a rate.", short="-c"),
    Flag("--requests", "load.requests", LOADED, "Requests in each run.", short="-n"),
    Flag("--duration", "load.duration", LOADED, "Length of each run, such as 60s.", is_text=True),
    Flag("--runs", "measure.runs", _ANY, "Fresh processes, or starts of a command."),
)
BY_KEY: Mapping[str, Flag] = {flag.key: flag for flag in FLAGS}
