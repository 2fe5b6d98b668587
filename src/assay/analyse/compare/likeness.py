"""Why two results must not be compared: what differs between them besides their numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from assay.analyse.records import MultiRunJobResult
from assay.spec.benchmark import Definition

# How long and how often was measured does not change what is measured; nor do limits and needs.
_IGNORED = ("measure", "objective", "needs")
# Paths of a file are checked by the digest of its content instead, where there is one.
_PATHS = frozenset({"target.model", "target.sha256"})
# What makes a machine another machine; clocks and load averages differ between any two runs.
_MACHINE = ("name", "cpu", "soc", "cores", "memory_bytes", "gpu", "gpu_memory_bytes", "os", "os_version")
# Where runs and environments name what was measured by content.
_DIGESTS = ("model_sha256", "sha256")


def not_comparable(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    """The reasons, one plain sentence each, why the numbers of two jobs do not answer one question."""
    return (
        *unusable(a, b),
        *_different_model(a, b),
        *_different_definition(a, b),
        *_different_machine(a, b),
    )


def unusable(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    """The reasons why one side has no numbers to rely on."""
    sides = (("the first", a), ("the second", b))
    return tuple(f"{side} result is {word}" for side, job in sides if (word := _unusable_word(job)))


def _unusable_word(job: MultiRunJobResult) -> str:
    if job.state != "done":
        return f"not a measurement: its job is {job.state}"
    if job.verdict != "invalid":
        return ""
    failed = [check.detail for check in job.checks if check.passed is False]
    return f"invalid: {failed[0]}" if failed else "invalid"


def _different_definition(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = _flat(_complete(a.definition)), _flat(_complete(b.definition))
    skipped = _PATHS if _model_digest(a) and _model_digest(b) else frozenset[str]()
    paths = [path for path in {**left, **right} if path.partition(".")[0] not in _IGNORED and path not in skipped]
    return tuple(
        f"different {_short(path)}: {_shown(left.get(path))} against {_shown(right.get(path))}"
        for path in paths
        if left.get(path) != right.get(path)
    )


def _complete(definition: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """A definition with its defaults filled in, so that the sentence can name both values."""
    try:
        return Definition.model_validate_json(json.dumps(definition)).model_dump(mode="json")
    except ValidationError:
        return definition  # written by another version: compare what is there


def _flat(tree: Mapping[str, JsonValue], prefix: str = "") -> dict[str, JsonValue]:
    """Nested values by dotted path."""
    found: dict[str, JsonValue] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _short(path: str) -> str:
    """The last part of a path: `batch` for `workload.batch`."""
    return path.rpartition(".")[2].replace("_", " ")


def _shown(value: JsonValue) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _different_model(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = _model_digest(a), _model_digest(b)
    if left is None or right is None or left == right:
        return ()
    return (f"different model digest: {left[:12]} against {right[:12]}",)


def _model_digest(job: MultiRunJobResult) -> str | None:
    """The digest of the model that was measured, as a run read it, else as the file promises it."""
    for run in job.runs:
        for facts in (run.facts.get("model"), run.facts):
            if isinstance(facts, Mapping) and (found := _digest_in(facts)):
                return found
    target = job.definition.get("target")
    return _digest_in(target) if isinstance(target, dict) else None


def _digest_in(facts: Mapping[str, JsonValue]) -> str | None:
    return next((value for key in _DIGESTS if isinstance(value := facts.get(key), str) and value), None)


def _different_machine(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = (_machine(job) for job in (a, b))
    keys = [key for key in _MACHINE if left.get(key) != right.get(key) and key in left and key in right]
    if not keys:
        return ()
    sides = [", ".join(f"{key.replace('_', ' ')} {_shown(side[key])}" for key in keys) for side in (left, right)]
    return (f"different machine: {sides[0]} against {sides[1]}",)


def _machine(job: MultiRunJobResult) -> Mapping[str, JsonValue]:
    found = job.environment.get("machine")
    return found if isinstance(found, Mapping) else {}
