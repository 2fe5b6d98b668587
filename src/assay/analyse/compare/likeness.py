"""Why two results must not be compared, and what else differs between them besides their numbers.

What decides which question the numbers answer makes results incomparable: model, data, target, workload, load, device,
kind of machine, and the way assay measures. What may explain a change of the answer is told as a warning: another
machine of the same kind, driver, kernel, packages, image, doubts about a result, a machine that itself became slower.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

from pydantic import JsonValue, ValidationError

from assay.analyse.compare.method import changed_between
from assay.analyse.records import MultiRunJobResult
from assay.analyse.series.identity import context, machine_kind
from assay.analyse.words import count, listed, percent
from assay.spec.benchmark import Definition

# How long and how often was measured does not change what is measured; nor do limits, needs and prices.
_IGNORED = ("measure", "objective", "needs", "prices")
# Paths of a file are checked by the digest of its content instead, where there is one.
_PATHS = frozenset({"target.model", "target.sha256"})
# What was measured, by content; told as a beginning that still tells contents apart.
_CONTENTS = {"model": "model digest", "data": "data digest"}
_SHOWN_DIGEST = 12
_GPU = ("gpu", "gpus")
# What a machine may be without, and is then another one than a machine that has it.
_NONE_COUNTS = (*_GPU, "limit_cpus", "services")
_MACHINE_WORDS = {"memory_gib": "memory (GiB)", "limit_cpus": "limit of processors", "services": "services with"}
# What may explain a change without being another question, and how it is called.
_AROUND = {
    "machine": "machine", "os": "system", "kernel": "kernel", "driver": "driver", "python": "Python",
    "governor": "governor", "image": "image", "server": "server", "packages": "", "method": "", "assay": "assay",
}  # fmt: skip
CONTROL = {"integer_ms": "integer loop", "memory_ms": "memory loop"}
# Two timings of the control workload that are closer than this are the same to anybody.
SAME = 0.05
# How the two are called in a sentence.
Sides = tuple[str, str]
SIDES: Sides = ("the first", "the second")


def not_comparable(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides = SIDES) -> tuple[str, ...]:
    """The reasons, one plain sentence each, why the numbers of two jobs do not answer one question."""
    return (*unusable(a, b, sides), *different(a, b))


def different(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    """What differs between two jobs that makes them two questions, one plain sentence each."""
    left, right = context(a), context(b)
    return (
        *_different_contents(left, right),
        *_different_definition(a, b),
        *_different_device(a, b),
        *_different_machine(a, b),
        *changed_between(str(left.get("assay", "")), str(right.get("assay", ""))),
    )


def unusable(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides = SIDES) -> tuple[str, ...]:
    """The reasons why one side has no numbers to rely on."""
    return tuple(
        f"{side} result is {word}" for side, job in zip(sides, (a, b), strict=True) if (word := unusable_word(job))
    )


def unusable_word(job: MultiRunJobResult) -> str:
    """Why a result has no numbers to rely on; empty where it has."""
    if job.state != "done":
        return f"not a measurement: its job is {job.state}"
    if job.verdict != "invalid":
        return ""
    failed = [check.detail for check in job.checks if check.passed is False]
    return f"invalid: {failed[0]}" if failed else "invalid"


def warnings(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides = SIDES) -> tuple[str, ...]:
    """What else differs, and what speaks against one of the results; none of it forbids to compare them."""
    left, right = context(a), context(b)
    unknown = tuple(
        f"the machine of {side} result is not known"
        for side, job in zip(sides, (a, b), strict=True)
        if not machine_kind(job.environment)
    )
    dirty = tuple(
        f"{side} result was measured with changes that are not committed"
        for side, facts in zip(sides, (left, right), strict=True)
        if facts.get("changed") is True
    )
    return (*_suspect(a, b, sides), *_moved(left, right, sides), *_around(left, right), *unknown, *dirty)


def _suspect(a: MultiRunJobResult, b: MultiRunJobResult, sides: Sides) -> Iterator[str]:
    for side, job in zip(sides, (a, b), strict=True):
        if job.verdict == "suspect":
            doubts = [f"{check.name}: {check.detail}" for check in job.checks if check.passed is False]
            more = f" ({count(len(doubts) - 1, 'more check')} failed)" if len(doubts) > 1 else ""
            yield f"{side} result is suspect{f': {doubts[0]}' if doubts else ''}{more}"


def _moved(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue], sides: Sides) -> Iterator[str]:
    """What the control workload says about the machine itself."""
    first, second = (_section(facts, "control") for facts in (left, right))
    if first.get("version") != second.get("version"):
        return
    for part, name in CONTROL.items():
        took = [value for side in (first, second) if isinstance(value := side.get(part), int | float) and value > 0]
        if len(took) == len(sides) and abs(math.log(took[1] / took[0])) > math.log1p(SAME):
            change = percent(took[1] / took[0] - 1, signed=True)
            yield f"the machine itself moved: the control workload took {change} around {sides[1]} result ({name})"


def _around(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]) -> Iterator[str]:
    """The software and the machine around two results, where both tell."""
    for name, word in _AROUND.items():
        # What a file leaves out has its default; what a record leaves out is not known.
        if name == "method" or (name in left and name in right):
            first, second = ({name: side.get(name, {})} for side in (left, right))
            flats = _flat(first), _flat(second)
            for path in sorted({**flats[0], **flats[1]}):
                values = [flat.get(path) for flat in flats]
                if values[0] != values[1]:
                    what = word or path.partition(".")[2]
                    yield f"{what} is {_shown(values[0])} against {_shown(values[1])}"


def _different_definition(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = _flat(_complete(a.definition)), _flat(_complete(b.definition))
    by_content = all("model" in context(job) for job in (a, b))
    skipped = _PATHS if by_content else frozenset[str]()
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


def _different_contents(left: Mapping[str, JsonValue], right: Mapping[str, JsonValue]) -> tuple[str, ...]:
    return tuple(
        f"different {word}: {str(left[name])[:_SHOWN_DIGEST]} against {str(right[name])[:_SHOWN_DIGEST]}"
        for name, word in _CONTENTS.items()
        if name in left and name in right and left[name] != right[name]
    )


def _different_device(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = _devices(a), _devices(b)
    if not left or not right or left == right:
        return ()
    return (f"different device: {listed(sorted(left))} against {listed(sorted(right))}",)


def _devices(job: MultiRunJobResult) -> set[str]:
    """The devices that did the work, as the runtime told."""
    return {run.device.used for run in job.runs if run.error is None and run.device is not None}


def _different_machine(a: MultiRunJobResult, b: MultiRunJobResult) -> tuple[str, ...]:
    left, right = machine_kind(a.environment), machine_kind(b.environment)
    if not left or not right:
        return ()
    # What ran on the processor alone does not care about the boards beside it.
    beside = _GPU if _devices(a) == _devices(b) == {"cpu"} else ()
    keys = [
        key
        for key in {**left, **right}
        if left.get(key) != right.get(key)
        and key not in beside
        and (key in _NONE_COUNTS or (key in left and key in right))
    ]
    if not keys:
        return ()
    sides = [
        ", ".join(f"{_MACHINE_WORDS.get(key, key)} {_shown(side[key]) if key in side else 'none'}" for key in keys)
        for side in (left, right)
    ]
    return (f"different machine: {sides[0]} against {sides[1]}",)


def _section(facts: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}
