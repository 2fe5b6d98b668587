"""Starter files: short, commented, and valid as they are; for an endpoint as soon as its model is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath

from assay.spec.runnable import PLACEHOLDER

_SHOWN_MODELS = 6

_MODEL = """\
# A model file, measured inside a fresh process for every run. `assay schema` lists every key.
benchmark: {name}
target:
  model: {model}      # path, http(s) URL, or a name from `assay models`
  runtime: onnxruntime
  device: cpu         # cpu, cuda, tensorrt, directml, openvino, coreml; another device than asked is a failure
  # threads: 2        # threads inside one operator; the runtime decides when left out
workload:
  batch: 1
  # dims: {{sequence: 128}}            # sizes of the model's other dynamic dimensions
  # inputs: {{input_ids: {{file: ids.npy}}}}   # own values; seeded random ones otherwise
measure:
  runs: 5             # fresh processes; the spread between them is the error term
  warmup: auto
  until: {{interval: 2%, at_most: 10s}}
# load: {{scenario: offline}}          # throughput instead of latency
# objective: {{latency_ms.p99: 20}}    # a gate: exit code 1 when missed
# matrix:                            # any dotted path; the product is the set of jobs
#   workload.batch: [1, 8]
#   target.threads: [1, 2]
"""

_COMMAND = """\
# A command that prints or emits its metrics. `assay schema` lists every key.
benchmark: {name}
target:
  command: {model}
  metrics:
    # A number found in the output; the first group is the value.
    - {{name: items_per_s, unit: 1/s, better: higher, pattern: 'items/s: ([-+.\\deE]+)'}}
    # A number given by assay.emit({{"loss": 0.1}}) in the program needs no pattern.
    # - {{name: loss, better: lower}}
measure:
  runs: 5             # the command is started this many times
  timeout: 10m        # deadline of one run; then its whole process tree is ended
"""

_ENDPOINT = """\
# Somebody's endpoint. `assay schema` lists every key.
benchmark: {name}
target:
  endpoint: {model}
  api: openai-chat
  model: {name_of_model}      # {about_model}
  # headers: {{Authorization: 'Bearer ${{env:API_KEY}}'}}   # secrets stay references
workload:
  output_tokens: 128
  # input_tokens: 256   # needs the model's tokenizer: a server with /tokenize (vLLM, llama.cpp), or target.tokenizer
load: {{concurrency: 8, duration: 60s}}
measure: {{runs: 3}}
"""


def starter(target: str, models: Sequence[str] = ()) -> str:
    """A starter file for what the user named.

    Args:
        target: a model, an endpoint or a command.
        models: the models of an endpoint, as far as they are known; without one the file has a placeholder, which
            is refused until somebody writes a name there.
    """
    kind = kind_of(target)
    template = {"model": _MODEL, "command": _COMMAND, "endpoint": _ENDPOINT}[kind]
    return template.format(
        name=_quoted(name_for(target, kind)),
        model=_quoted(target),
        name_of_model=_quoted(models[0] if models else PLACEHOLDER),
        about_model=_about(models),
    )


def _about(models: Sequence[str]) -> str:
    if not models:
        return "write the name of your model; many servers list theirs under /v1/models"
    others = ", ".join(models[1:_SHOWN_MODELS])
    return f"as the server calls it; it also has {others}" if others else "as the server calls it"


def kind_of(target: str) -> str:
    """Whether a text names a model, an endpoint or a command."""
    words = target.split()
    if target.startswith(("http://", "https://")):
        return (
            "model" if PurePosixPath(target.partition("?")[0]).suffix in (".onnx", ".ort", ".pt", ".pb") else "endpoint"
        )
    return "command" if len(words) > 1 else "model"


def name_for(target: str, kind: str) -> str:
    """A name for the benchmark."""
    if kind == "command":
        return target[:60]
    stem = PurePosixPath(target.partition("?")[0].rstrip("/")).name
    return f"{stem.removesuffix('.onnx') or target} on this machine" if kind == "model" else f"load on {stem}"


def _quoted(text: str) -> str:
    """The text as a YAML scalar; quoted unless it is plainly safe."""
    safe = all(letter.isalnum() or letter in "._/- " for letter in text) and text[:1].isalpha()
    return text if safe else json.dumps(text, ensure_ascii=False)
