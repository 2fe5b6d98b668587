"""Files to begin with: ready-made service recipes, which a benchmark file may name and change, and starter files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath

from pydantic import JsonValue

from assay.errors import UsageError
from assay.spec.limits import cut
from assay.spec.problems import PLACEHOLDER
from assay.spec.section import did_you_mean
from assay.spec.source import parse

_SUFFIX = ".yaml"
KEY = "recipe"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe."""

    name: str
    about: str
    """Its first line, for a list."""
    text: str
    """The whole file, to be copied."""

    @property
    def services(self) -> dict[str, JsonValue]:
        """Its section `services`."""
        services = parse(self.text, _SUFFIX, f"recipe {self.name}").document["services"]
        return services if isinstance(services, dict) else {}


def recipe_names() -> tuple[str, ...]:
    """The recipes that there are."""
    folder = files("assay.spec.ready_made")
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.iterdir() if path.name.endswith(_SUFFIX)))


def find_recipe(name: str, at: str = "") -> Recipe:
    """A recipe by its name; `at` is where it is asked for.

    Raises:
        UsageError: if there is none, with the nearest name.
    """
    names = recipe_names()
    if name not in names:
        tip = did_you_mean(name, names, f"there are {', '.join(names)}")
        raise UsageError(f"there is no recipe {cut(repr(name), 80)}", code="no-recipe", at=at, try_=tip)
    text = (files("assay.spec.ready_made") / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    about = next((line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")), "")
    return Recipe(name, about, text)


def with_recipes(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A benchmark document whose services that name a recipe are written out: the recipe, with their own keys over it.

    Raises:
        UsageError: for a recipe that does not exist.
    """
    services = document.get("services")
    if not isinstance(services, dict) or not any(
        isinstance(service, dict) and KEY in service for service in services.values()
    ):
        return document
    return {**document, "services": {name: _whole(name, service) for name, service in services.items()}}


def _whole(name: str, section: JsonValue) -> JsonValue:
    if not isinstance(section, dict) or not isinstance(section.get(KEY), str):
        return section
    recipe = find_recipe(str(section[KEY]), at=f"services.{name}.{KEY}")
    (base,) = recipe.services.values()
    own = {key: value for key, value in section.items() if key != KEY}
    return _over(base, own) if isinstance(base, dict) else own


def _over(base: Mapping[str, JsonValue], own: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """One mapping over another: sections are merged, null takes a key away."""
    whole = dict(base)
    for key, value in own.items():
        below = whole.get(key)
        if value is None:
            whole.pop(key, None)
        elif isinstance(value, dict) and isinstance(below, dict):
            whole[key] = _over(below, value)
        else:
            whole[key] = value
    return whole


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
# A service that already runs. `assay schema` lists every key.
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
            is refused until a name is written there.
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
