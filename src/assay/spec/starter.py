"""Starter files: what a benchmark file says of a model, a program or an endpoint that a person only named.

The same text is what `assay init` writes and what `assay run TARGET` begins with.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from assay.plugins import find_plugin
from assay.spec.problems import PLACEHOLDER
from assay.spec.target import APIS

Kind = Literal["file", "model", "language model", "command", "endpoint"]

FILES = (".yaml", ".yml", ".toml", ".json")
RUNTIMES = {".onnx": "onnxruntime", ".ort": "onnxruntime", ".pt": "torch", ".pt2": "torch", ".pb": "onnxruntime"}
STDIN = "-"
_SHOWN_MODELS = 6

_MODEL = """\
# A model file, measured inside a fresh process for every run. `assay schema` lists every key.
benchmark: {name}
target:
  model: {model}      # path, http(s) URL, or a name from `assay models`
  runtime: {runtime}
  device: cpu         # cpu, cuda, tensorrt, directml, openvino, coreml; another device than asked is a failure
  # threads: 2        # threads inside one operator; the runtime decides when left out
# workload:
#   batch: 8                         # fills the model's batch dimension; 1 when left out
#   dims: {{sequence: 128}}            # sizes of the model's other dynamic dimensions
#   inputs: {{input_ids: {{file: ids.npy}}}}   # own values; seeded random ones otherwise
measure:
  precision: 2%       # runs (fresh processes) are added until the result is known this closely ...
  budget: 5m          # ... or this much time is spent; `runs: 5` makes a fixed number of them
  warmup: auto
  until: {{interval: 2%, at_most: 10s}}
# load: {{scenario: offline}}          # throughput instead of latency
# objective: {{latency_ms.p99: 20}}    # a gate: exit code 1 when missed
# matrix:                            # any dotted path; the product is the set of jobs
#   workload.batch: [1, 8]
#   target.threads: [1, 2]
"""

_LANGUAGE_MODEL = """\
# A language model inside a fresh process for every run. `assay schema` lists every key.
benchmark: {name}
target:
  model: {model}      # a folder, or a name on the Hugging Face hub
  runtime: transformers
  device: cpu         # cpu, cuda, mps
workload:
  input_tokens: 128
  output_tokens: 32
measure: {{runs: 3}}
"""

_COMMAND = """\
# A command, measured by how long it takes and by the metrics that it prints or emits.
# `assay schema` lists every key.
benchmark: {name}
target:
  command: {model}
  # metrics:
  #   # A number found in the output; the first group is the value.
  #   - {{name: items_per_s, unit: 1/s, better: higher, pattern: 'items/s: ([-+.\\deE]+)'}}
  #   # A number given by assay.emit({{"loss": 0.1}}) in the program needs no pattern.
  #   - {{name: loss, better: lower}}
measure:
  precision: 2%       # the command is started again until the result is known this closely ...
  budget: 5m          # ... or this much time is spent; `runs: 5` starts it a fixed number of times
  timeout: 10m        # deadline of one run; then its whole process tree is ended
"""

_ENDPOINT = """\
# A service that already runs. `assay schema` lists every key.
benchmark: {name}
target:
  endpoint: {model}
  api: {api}
{model_line}  # headers: {{Authorization: 'Bearer ${{env:API_KEY}}'}}   # secrets stay references
{workload}load: {{concurrency: 8, duration: 60s}}
measure: {{runs: 3}}
"""
_COUNTED = """\
workload:
  input_tokens: 256     # the server counts tokens, so that every prompt has exactly this length
  output_tokens: 128
"""
_NOT_COUNTED = """\
workload:
  output_tokens: 128
  # input_tokens: 256   # needs the model's tokenizer: a server with /tokenize (vLLM, llama.cpp), or target.tokenizer
"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What an endpoint says of itself."""

    url: str
    """Its address, without the path of a protocol."""
    api: str = "openai-chat"
    models: tuple[str, ...] = ()
    why: str = ""
    """Why no model is known."""
    counts_tokens: bool = False
    """Whether it has a tokenizer that can be asked."""
    is_down: bool = False
    """Whether it did not answer at all."""


def kind_of(words: Sequence[str]) -> Kind:
    """What kind of thing the words name that stand where a benchmark file could."""
    if len(words) > 1:
        return "command"
    (word,) = words
    if word.startswith(("http://", "https://")):
        return "model" if PurePosixPath(urlsplit(word).path).suffix.lower() in RUNTIMES else "endpoint"
    if word == STDIN or PurePosixPath(word).suffix.lower() in FILES:
        return "file"
    if PurePosixPath(word).suffix.lower() in RUNTIMES:
        return "model"
    path = Path(word).expanduser()
    if path.exists() and not path.is_dir():
        return "file"
    if (path / "config.json").is_file():
        return "language model"
    return "command" if len(word.split()) > 1 else "model"


def starter(words: Sequence[str], kind: Kind, endpoint: Endpoint | None = None) -> str:
    """A starter file for what a person named.

    Args:
        endpoint: what the endpoint says of itself. Without a model in it the file has a placeholder, which is refused
            until a name is written there.
    """
    target = words[0] if len(words) == 1 else shlex.join(words)
    endpoint = endpoint or Endpoint(target)
    template = {
        "model": _MODEL,
        "language model": _LANGUAGE_MODEL,
        "command": _COMMAND,
        "endpoint": _ENDPOINT,
    }[kind]
    return template.format(
        name=_quoted(_name_for(target, kind)),
        model=_quoted(endpoint.url if kind == "endpoint" else target),
        runtime=RUNTIMES.get(PurePosixPath(urlsplit(target).path).suffix.lower(), "onnxruntime"),
        api=endpoint.api,
        model_line=_model_line(endpoint),
        workload=_workload(endpoint),
    )


def _model_line(endpoint: Endpoint) -> str:
    if not needs_model_of(endpoint.api):
        return ""
    name, *others = endpoint.models or (PLACEHOLDER,)
    about = "as the server calls it" if endpoint.models else "write the name of your model; many servers list theirs"
    about += f"; it also has {', '.join(others[: _SHOWN_MODELS - 1])}" if others else ""
    about += "" if endpoint.models else " under /v1/models"
    return f"  model: {_quoted(name)}      # {about}\n"


def needs_model_of(api: str) -> bool:
    """Whether requests of a protocol name a model."""
    entry = find_plugin(api, APIS)
    return entry is not None and bool(entry.load().needs_model)


def _workload(endpoint: Endpoint) -> str:
    entry = find_plugin(endpoint.api, APIS)
    if entry is None or not entry.load().generates:
        return ""
    return _COUNTED if endpoint.counts_tokens else _NOT_COUNTED


def _name_for(target: str, kind: Kind) -> str:
    if kind == "command":
        return target[:60]
    if kind == "endpoint":
        return f"load on {urlsplit(target).netloc.rpartition('@')[2] or target}"
    stem = PurePosixPath(target.partition("?")[0].rstrip("/")).name
    return f"{stem.removesuffix('.onnx') or target} on this machine"


def _quoted(text: str) -> str:
    """The text as a YAML scalar; quoted unless it is plainly safe."""
    safe = all(letter.isalnum() or letter in "._/- " for letter in text) and text[:1].isalpha() and text == text.strip()
    safe = safe and text.lower() not in ("true", "false", "null", "yes", "no", "on", "off")
    return text if safe else json.dumps(text, ensure_ascii=False)
